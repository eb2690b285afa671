package simulator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// reach bounds from above the GPUs that preempting the offered jobs would free, so
// that an Exchange that cannot start a job is refused without trying it.
//
// Invariant: marks has each job that is offered and still holds its GPUs; total is
// the sum of their GPUs; placer.offered has their GPUs by node, and placer.could[f]
// counts the nodes on which min(free + offered, GPUs of the node) is f. It is a
// bound because an offered job may be protected, or leave its GPUs to a partner.
//
// Policies offer nearly the same jobs from one event to the next, so offerStops
// changes it by the difference, in time proportional to that and not to the offers.
// Within an exchange, links lists the offered jobs by node, so that only the nodes
// that a gang would get are cleared (clearNodes).
//
// It is kept for one cell only (placer.could is empty otherwise); with pools or
// several groups of nodes every gang is assumed to fit.
type reach struct {
	total int     // GPUs of the offered jobs
	jobs  []ID    // the last list offered, each job once
	marks []offer // by job
	gone  []ID    // jobs that gave up their GPUs since the last list

	named []ID    // scratch of offerStops
	nodes []int32 // scratch of aim
	aimed []bool  // by node, false between uses

	// Of an exchange, once it clears nodes: the nodes with offered jobs, and by node
	// the first of its links, in the order of the list; -1 between uses.
	sites []int32
	first []int32
	links []link
	sited bool
}

// link is an offered job on a node.
type link struct {
	id   ID
	next int32 // in links, on the same node; -1 if it is the last
}

// offer says whether a job is offered.
type offer uint8

const (
	unoffered offer = iota
	offered
	doubtful // withdrawn unless it is named again
)

// forget withdraws all offers.
func (r *reach) forget() {
	r.resetSites() // a policy may have panicked in an exchange
	for _, id := range r.jobs {
		r.marks[id] = unoffered
	}
	r.total, r.jobs, r.gone = 0, r.jobs[:0], r.gone[:0]
}

// offerStops updates the set of offered jobs. Successive lists share long prefixes
// and suffixes, which are skipped.
func (s *Sim) offerStops(stop []ID) {
	r := &s.reach
	for _, id := range r.gone {
		if r.marks[id] == unoffered && s.jobs[id].phase == running { // again
			r.jobs = slices.DeleteFunc(r.jobs, func(o ID) bool { return o == id })
		}
	}
	r.gone = r.gone[:0]
	for len(r.marks) < len(s.jobs) {
		r.marks = append(r.marks, unoffered)
	}
	head := 0
	for head < min(len(stop), len(r.jobs)) && stop[head] == r.jobs[head] {
		head++
	}
	tail := 0
	for tail < min(len(stop), len(r.jobs))-head && stop[len(stop)-1-tail] == r.jobs[len(r.jobs)-1-tail] {
		tail++
	}
	old, now := r.jobs[head:len(r.jobs)-tail], stop[head:len(stop)-tail]
	if len(old) == 0 && len(now) == 0 {
		return
	}
	for _, id := range old {
		if r.marks[id] == offered {
			r.marks[id] = doubtful
		}
	}
	r.named = r.named[:0]
	for _, id := range now {
		switch r.marks[id] {
		case offered:
			continue // named twice
		case unoffered:
			if s.jobs[id].phase != running {
				panic(fmt.Sprintf("simulator: policy stops job %d, which is not running", id))
			}
			s.offer(id, 1)
		}
		r.marks[id] = offered
		r.named = append(r.named, id)
	}
	for _, id := range old {
		if r.marks[id] == doubtful {
			s.offer(id, -1)
			r.marks[id] = unoffered
		}
	}
	r.jobs = slices.Replace(r.jobs, head, len(r.jobs)-tail, r.named...)
}

// withdraw ends the offer of a job that gives up its GPUs.
func (s *Sim) withdraw(id ID) {
	if r := &s.reach; int(id) < len(r.marks) && r.marks[id] == offered {
		s.offer(id, -1)
		r.marks[id] = unoffered
		r.gone = append(r.gone, id)
	}
}

// offerAgain restores the offer of a job that gave up its GPUs and has them back.
func (s *Sim) offerAgain(id ID) {
	if r := &s.reach; int(id) < len(r.marks) && r.marks[id] != offered {
		r.marks[id] = offered
		s.offer(id, 1)
	}
}

// offer adds or takes back (-1) a running job's GPUs.
func (s *Sim) offer(id ID, sign int) {
	j := &s.jobs[id]
	s.reach.total += sign * int(j.held)
	switch {
	case len(s.place.could) == 0:
	case j.multi < 0:
		s.place.offer(int(j.node), sign*int(j.held))
	default:
		for _, n := range s.multi[j.multi] {
			s.place.offer(n.Node, sign*n.GPUs)
		}
	}
}

// couldFit reports whether a gang might find a place if all offered jobs stopped.
func (s *Sim) couldFit(k kindKey) bool {
	p, gpus, x := &s.place, int(k.gpus), &s.place.constraints[k.where]
	switch {
	case len(x.groups) == 0:
		return false
	case len(p.could) == 0 && p.mode != Count:
		return true // there are several cells
	case gpus > p.total(0, 0)+s.reach.total:
		return false
	case p.mode == Count:
		return true
	case p.shaped(gpus, k.where):
		nodes := 0
		for _, n := range p.could[x.each:] {
			nodes += int(n)
		}
		return nodes >= int(x.nodes)
	case x.need != (need{}):
		return true
	case k.members > 1:
		each, places := gpus/int(k.members), 0
		if each > p.perNode {
			return true
		}
		for f, n := range p.could {
			places += int(n) * (f / each)
		}
		return places >= int(k.members)
	case k.relaxed:
		return true
	}
	whole, rest := gpus/p.perNode, gpus%p.perNode
	switch {
	case whole == 0 || p.mode == FirstFit:
		have := 0 // nodes that hold the rest
		for f := max(rest, 1); f <= p.perNode; f++ {
			have += int(p.could[f])
		}
		return int(p.could[p.perNode]) >= whole && (rest == 0 || have > whole)
	case p.mode == ConsolidateWhole && int(p.could[p.perNode]) < whole:
		return false
	}
	need := whole
	if rest > 0 {
		need++
	}
	for f := p.perNode; f > 0 && need > 0 && gpus > 0; f-- {
		n := min(need, int(p.could[f]))
		need -= n
		gpus -= n * f
	}
	return gpus <= 0
}

// clearNodes vacates the offered jobs on the nodes that a gang would get if all of
// them stopped, and returns them.
func (s *Sim) clearNodes(stop []ID, gpus int) []ID {
	r := &s.reach
	if !r.sited {
		s.survey(stop)
	}
	s.aim(gpus)
	s.cleared = s.cleared[:0]
	if len(r.nodes) == 1 {
		for i := r.first[r.nodes[0]]; i >= 0; i = r.links[i].next {
			if id := r.links[i].id; s.jobs[id].phase == running {
				s.vacate(id)
				s.cleared = append(s.cleared, id)
			}
		}
		return s.cleared
	}
	for _, n := range r.nodes {
		r.aimed[n] = true
	}
	for _, id := range stop {
		if j := &s.jobs[id]; j.phase == running && s.runsOn(j, func(n int) bool { return r.aimed[n] }) {
			s.vacate(id)
			s.cleared = append(s.cleared, id)
		}
	}
	for _, n := range r.nodes {
		r.aimed[n] = false
	}
	return s.cleared
}

// survey lists the offered jobs by node.
func (s *Sim) survey(stop []ID) {
	r := &s.reach
	r.sited = true
	for len(r.aimed) < len(s.place.free) {
		r.aimed, r.first = append(r.aimed, false), append(r.first, -1)
	}
	r.sites, r.links = r.sites[:0], r.links[:0]
	for i := len(stop) - 1; i >= 0; i-- {
		j := &s.jobs[stop[i]]
		switch {
		case j.phase != running: // preempted by now
		case j.multi < 0:
			r.addToNode(j.node, stop[i])
		default:
			for _, n := range s.multi[j.multi] {
				r.addToNode(int32(n.Node), stop[i])
			}
		}
	}
}

func (r *reach) addToNode(node int32, id ID) {
	if r.first[node] < 0 {
		r.sites = append(r.sites, node)
	}
	r.links = append(r.links, link{id, r.first[node]})
	r.first[node] = int32(len(r.links) - 1)
}

// resetSites ends an exchange.
func (r *reach) resetSites() {
	if r.sited {
		for _, n := range r.sites {
			r.first[n] = -1
		}
		r.sited = false
	}
}

// aim finds the nodes with offered jobs on which a gang would be placed.
func (s *Sim) aim(gpus int) {
	r, p := &s.reach, &s.place
	r.nodes = r.nodes[:0]
	// The node with the fewest GPUs that are enough, the lowest of these; by first fit
	// the lowest of all with enough.
	best, tight := uint64(math.MaxUint64), uint64(1)
	if p.mode == FirstFit {
		tight = 0
	}
	for _, n := range r.sites {
		most := min(int(p.free[n])+int(p.offered[n]), p.perNode)
		if most >= gpus && p.offered[n] > 0 { // otherwise all offered jobs there have stopped
			best = min(best, tight*uint64(most)<<32|uint64(n))
		}
	}
	if best != math.MaxUint64 {
		r.nodes = append(r.nodes, int32(best&math.MaxUint32))
		return
	}
	for _, n := range r.sites {
		if p.offered[n] > 0 {
			r.nodes = append(r.nodes, n)
		}
	}
	slices.SortFunc(r.nodes, func(a, b int32) int { return cmp.Or(p.most(int(b))-p.most(int(a)), int(a-b)) })
	k := 0
	for f := p.perNode; f > 0 && gpus > 0; f-- {
		free := p.cells[0].level[f].n
		for _, n := range r.nodes {
			if int(p.free[n]) == f {
				free-- // it is among the following ones
			}
		}
		gpus -= f * free
		for ; k < len(r.nodes) && p.most(int(r.nodes[k])) == f && gpus > 0; k++ {
			gpus -= f
		}
	}
	r.nodes = r.nodes[:k]
}
