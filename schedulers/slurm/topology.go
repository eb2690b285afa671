package slurm

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/workload"
)

// wire is a switch of the network.
type wire struct {
	nodes  nodeSet // below it
	parent int     // -1 for none
	level  int     // leaves have 0
	count  int     // scratch of spread: nodes that a job may get there
}

// resetSwitches reads the switches; parents come behind their children.
func (p *policy) resetSwitches(all []workload.Switch) {
	p.wires = p.wires[:0]
	if !p.v.HasNodes() {
		return
	}
	for _, s := range all {
		w := wire{nodes: make(nodeSet, len(p.all))}
		w.parent = slices.IndexFunc(all, func(o workload.Switch) bool { return s.Parent != "" && o.Name == s.Parent })
		for _, n := range s.Nodes {
			if n.Number < len(p.future.free) {
				w.nodes.add(n.Number)
			}
		}
		p.wires = append(p.wires, w)
	}
	for i := range p.wires {
		if up := p.wires[i].parent; up >= 0 {
			p.wires[up].nodes.or(p.wires[i].nodes)
			p.wires[up].level = max(p.wires[up].level, p.wires[i].level+1)
		}
	}
}

// apart is the level of the lowest switch above two, or of no switch.
func (p *policy) apart(a, b int) int {
	for a != b {
		if a < 0 || b < 0 {
			return len(p.wires)
		}
		if p.wires[a].level <= p.wires[b].level {
			a = p.wires[a].parent
		} else {
			b = p.wires[b].parent
		}
	}
	return p.wires[a].level
}

// pick sets chosen to n of the nodes, which must have as many.
func (p *policy) pick(nodes nodeSet, n int) {
	p.chosen = p.chosen[:0]
	switch {
	case p.choose != nil:
		p.chosen = p.choose(nodes, p.chosen, n, p.scratch)
	case len(p.wires) == 0 || !p.spread(nodes, n):
		p.chosen = p.weights.choose(nodes, p.chosen, n, p.scratch)
	}
}

// spread appends n of the nodes, which are below one switch, on few leaf switches: on the one with the fewest that are
// enough, else with the most, and again for the rest, as near as can be. Nodes of higher weight are taken behind all of
// lower ones. It is false if no switch has as many. _eval_nodes_topo in src/plugins/select/cons_tres/job_test.c.
func (p *policy) spread(nodes nodeSet, n int) bool {
	top, least := -1, int64(0)
	for i := range p.wires {
		w := &p.wires[i]
		p.scratch = append(p.scratch[:0], nodes...)
		p.scratch.and(w.nodes)
		if p.scratch.count() < n {
			continue
		}
		if weight := p.weights.least(p.scratch); top < 0 || w.level >= p.wires[top].level && weight <= least {
			top, least = i, weight
		}
	}
	if top < 0 {
		return false
	}
	left := append(nodeSet(nil), nodes...)
	left.and(p.wires[top].nodes)
	// The lightest nodes that suffice; all of them but the heaviest are taken.
	best, taken := make(nodeSet, len(left)), nodeSet(nil)
	for best.count() < n {
		if best.count() > 0 {
			taken = append(taken[:0], best...)
		}
		least = p.weights.least(left)
		for i := left.next(0); i >= 0; i = left.next(i + 1) {
			if p.weights == nil || p.weights[i] == least {
				best.add(i)
				left.remove(i)
			}
		}
	}
	var used []int
	take := func(from nodeSet) {
		for i := from.next(0); i >= 0 && len(p.chosen) < n; i = from.next(i + 1) {
			p.chosen = append(p.chosen, int32(i))
			best.remove(i)
		}
	}
	if taken != nil {
		for i := range p.wires {
			if w := &p.wires[i]; w.level == 0 && w.nodes.overlaps(taken) {
				used = append(used, i)
			}
		}
		take(taken)
		for _, i := range used {
			p.scratch = append(p.scratch[:0], p.wires[i].nodes...)
			p.scratch.and(best)
			take(p.scratch)
		}
	}
	for i := range p.wires {
		p.wires[i].count = p.wires[i].nodes.common(best)
	}
	for len(p.chosen) < n {
		next, near := -1, 0
		for i := range p.wires {
			if w := &p.wires[i]; w.level > 0 || w.count == 0 || slices.Contains(used, i) {
				continue
			}
			far := 0
			for _, u := range used {
				far += p.apart(i, u)
			}
			if c := 0; next >= 0 {
				c = p.tighter(i, next, n-len(p.chosen))
				if !(far < near && c >= 0 || far == near && c > 0) {
					continue
				}
			}
			next, near = i, far
		}
		if next < 0 {
			p.chosen = p.chosen[:0]
			return false
		}
		used = append(used, next)
		p.scratch = append(p.scratch[:0], p.wires[next].nodes...)
		p.scratch.and(best)
		take(p.scratch)
	}
	return true
}

// tighter compares two switches for a number of nodes. _topo_compare_switches.
func (p *policy) tighter(a, b, nodes int) int {
	for {
		x, y := &p.wires[a], &p.wires[b]
		switch fits, other := x.count >= nodes, y.count >= nodes; {
		case fits && other && x.count != y.count:
			return cmp.Compare(y.count, x.count)
		case fits && !other:
			return 1
		case other && !fits:
			return -1
		case !fits && x.parent >= 0 && y.parent >= 0 && x.parent != y.parent:
			a, b = x.parent, y.parent
			continue
		}
		return cmp.Or(cmp.Compare(x.count, y.count), cmp.Compare(y.level, x.level))
	}
}

// least is the least weight of nodes; MaxInt64 of none, and where all weights are equal.
func (w nodeWeights) least(nodes nodeSet) int64 {
	least := int64(math.MaxInt64)
	for i := nodes.next(0); w != nil && i >= 0; i = nodes.next(i + 1) {
		least = min(least, w[i])
	}
	return least
}
