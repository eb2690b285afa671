package simulator

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/workload"
)

// need is a job's demand on a node per GPU that it holds there.
type need struct {
	cpus   int64 // thousandths
	memory int64 // bytes
}

// rationed reports whether nodes have CPUs or memory that jobs may lack.
func (p *placer) rationed() bool { return len(p.cpus) > 0 }

// rationed reports whether a job asks for CPUs or memory.
func rationed(r workload.Requested) bool { return r.Request().MilliCPUs > 0 || r.Request().Memory > 0 }

// beginRations makes all CPUs and memory free, if nodes have and jobs ask for some. A run that resumes is as the one
// before it, in which jobs asked that have ended.
func (s *Sim) beginRations(arrivals []workload.Job) {
	if s.place.mode == Count || !s.cluster.Rationed() {
		return
	}
	past := s.Past()
	some := past != nil && past.rationed()
	for i := range arrivals {
		some = some || rationed(arrivals[i].Requested)
	}
	if s.state != nil {
		for i := range s.state.Jobs {
			some = some || rationed(s.state.Jobs[i].Requested)
		}
	}
	if some {
		s.place.beginRations(&s.cluster)
	}
}

// beginRations makes all CPUs and memory free. Resources that a group does not state are without
// bounds.
func (p *placer) beginRations(c *workload.Cluster) {
	known := func(n int64) int64 {
		if n == 0 {
			return math.MaxInt64 / 2
		}
		return n
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		for range g.Nodes {
			p.cpus = append(p.cpus, known(1000*int64(g.CPUs)))
			p.memory = append(p.memory, known(g.Memory))
		}
	}
}

// reserve takes the needs of a job with a constraint for GPUs of a node, or gives it back
// for a negative number.
func (p *placer) reserve(node, gpus int, where uint16) {
	if !p.rationed() {
		return
	}
	n := p.constraints[where].need
	p.cpus[node] -= n.cpus * int64(gpus)
	p.memory[node] -= n.memory * int64(gpus)
}

// room is the number of GPUs for which a node has CPUs and memory free.
func (p *placer) room(node int, n need) int {
	most := int64(math.MaxInt32)
	if n.cpus > 0 {
		most = min(most, p.cpus[node]/n.cpus)
	}
	if n.memory > 0 {
		most = min(most, p.memory[node]/n.memory)
	}
	return int(max(0, most))
}

// findRationed is find for a gang with a need.
func (p *placer) findRationed(dst []workload.NodeGPUs, gpus int, pool uint8, relaxed bool,
	where uint16) []workload.NodeGPUs {
	d := dst
	for _, scatter := range [...]bool{false, true} {
		if scatter && (!relaxed || len(d) > len(dst)) {
			break
		}
		d = p.findAmong(dst, gpus, pool, where, func(dst []workload.NodeGPUs, gpus, i int) []workload.NodeGPUs {
			return p.rationedIn(dst, gpus, i, where, scatter)
		})
	}
	return d
}

// rationedIn appends where a gang with a need would go in a cell: as consolidated does, or
// emptiest without a limit, on nodes of as many GPUs as an empty one gives such a gang.
func (p *placer) rationedIn(dst []workload.NodeGPUs, gpus, i int, where uint16, scatter bool) []workload.NodeGPUs {
	c, n := &p.cells[i], p.constraints[where].need
	size := p.sizes(where, i%len(p.groups))
	if gpus > c.total || size == 0 {
		return dst
	}
	p.found = p.found[:0]
	for f := 1; f <= c.perNode; f++ {
		for k := c.level[f].next(0); k >= 0; k = c.level[f].next(k + 1) {
			if room := min(f, p.room(c.first+k, n)); room > 0 {
				p.found = append(p.found, workload.NodeGPUs{Node: c.first + k, GPUs: room})
			}
		}
	}
	if gpus <= size && !scatter {
		best := -1
		for k, x := range p.found { // in order of free GPUs
			if x.GPUs >= gpus && (best < 0 || p.mode == FirstFit && x.Node < p.found[best].Node) {
				best = k
			}
		}
		if best < 0 {
			return dst
		}
		return append(dst, workload.NodeGPUs{Node: p.found[best].Node, GPUs: gpus})
	}
	limit, whole := (gpus+size-1)/size, 0
	switch {
	case scatter:
		limit = len(p.found)
	case p.mode != ConsolidateFewest:
		whole = gpus / size // nodes that must be empty
	}
	empty := func(node int) int {
		if int(p.free[node]) == c.perNode {
			return 0
		}
		return 1
	}
	slices.SortFunc(p.found, func(a, b workload.NodeGPUs) int {
		if whole > 0 && empty(a.Node) != empty(b.Node) {
			return empty(a.Node) - empty(b.Node)
		}
		return cmp.Or(b.GPUs-a.GPUs, a.Node-b.Node)
	})
	start := len(dst)
	for k, x := range p.found[:min(limit, len(p.found))] {
		if k < whole && empty(x.Node) != 0 {
			break
		}
		take := min(x.GPUs, gpus)
		dst = append(dst, workload.NodeGPUs{Node: x.Node, GPUs: take})
		if gpus -= take; gpus == 0 {
			return dst
		}
	}
	return dst[:start]
}

// sizes is the number of GPUs that an empty node of a group gives a job with a constraint.
func (p *placer) sizes(where uint16, group int) int {
	return p.groups[group].holds(p.constraints[where].need)
}

func (g *group) holds(n need) int {
	most := int64(g.perNode)
	if n.cpus > 0 && g.cpus > 0 {
		most = min(most, g.cpus/n.cpus)
	}
	if n.memory > 0 && g.memory > 0 {
		most = min(most, g.memory/n.memory)
	}
	return int(most)
}

// reserve takes the CPUs and memory of a job where it is placed, or (by -1) gives them
// back.
func (s *Sim) reserve(j *job, by int) {
	if !s.place.rationed() {
		return
	}
	where := s.where(j)
	if j.multi < 0 {
		s.place.reserve(int(j.node), by*int(j.held), where)
		return
	}
	for _, n := range s.multi[j.multi] {
		s.place.reserve(n.Node, by*n.GPUs, where)
	}
}

// hasRoom reports whether nodes have the CPUs and memory for a job.
func (v *View) hasRoom(j *job, at []workload.NodeGPUs) bool {
	if !v.place.rationed() {
		return true
	}
	n := v.place.constraints[v.where(j)].need
	return !slices.ContainsFunc(at, func(x workload.NodeGPUs) bool { return v.place.room(x.Node, n) < x.GPUs })
}
