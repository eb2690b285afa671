package simulator

import (
	"cmp"
	"math"
	"slices"
)

// reach is what would be free if some running jobs stopped: an upper bound on
// it, as a job may be protected or leave its GPUs to a partner. It tells whether
// an Exchange is worth trying. Most of those that policies offer to stop are the
// same from one event to the next, so it is kept and changed by the difference;
// the placer keeps how many nodes could have how many GPUs (placer.could).
type reach struct {
	total int      // GPUs of the jobs offered
	jobs  []ID     // those of the last look
	mark  []uint32 // by job: the last look that it was offered in
	looks uint32
	less  bool // one of them is offered no more

	nodes []int32 // scratch of aim
	aimed []bool  // by node, false between uses
}

// forget begins anew: nobody is offered.
func (r *reach) forget() {
	r.total, r.jobs, r.less = 0, r.jobs[:0], false
	r.next()
}

// next makes the marks of the look before tell nothing but that.
func (r *reach) next() {
	if r.looks > math.MaxUint32-4 {
		clear(r.mark)
		r.looks = 0
	}
	r.looks += 2
}

// look takes in who would stop.
func (s *Sim) look(stop []ID) {
	r := &s.reach
	if !r.less && slices.Equal(r.jobs, stop) {
		return
	}
	for len(r.mark) < len(s.jobs) {
		r.mark = append(r.mark, 0)
	}
	before := r.looks
	r.looks++
	for _, id := range stop {
		switch r.mark[id] {
		case before:
		case r.looks:
			continue // named twice
		default:
			s.mustRun(id)
			s.offer(id, 1)
		}
		r.mark[id] = r.looks
	}
	for _, id := range r.jobs {
		if r.mark[id] == before {
			s.offer(id, -1)
		}
	}
	if r.looks > math.MaxUint32-4 {
		clear(r.mark)
		for _, id := range stop {
			r.mark[id] = 1
		}
		r.looks = 1
	}
	r.jobs, r.less = append(r.jobs[:0], stop...), false
}

// withdraw is for a job that gives up its GPUs.
func (s *Sim) withdraw(id ID) {
	if r := &s.reach; int(id) < len(r.mark) && r.mark[id] == r.looks {
		s.offer(id, -1)
		r.mark[id] = 0
		r.less = true
	}
}

// offerAgain is for a job of the last look that gave up its GPUs and has them
// back.
func (s *Sim) offerAgain(id ID) {
	if r := &s.reach; int(id) < len(r.mark) && r.mark[id] != r.looks {
		r.mark[id] = r.looks
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

// reaches reports whether a gang might find a place if those of the last look
// stopped.
func (s *Sim) reaches(k kindKey) bool {
	p, gpus := &s.place, int(k.gpus)
	switch {
	case len(p.could) == 0 && p.mode != Count:
		return true // there are pools
	case gpus > p.total[0]+s.reach.total:
		return false
	case p.mode == Count:
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

// makeWay stops those of a list that run where a gang would go if all of them
// stopped, and returns them.
func (s *Sim) makeWay(stop []ID, gpus int) []ID {
	r := &s.reach
	s.nodesOf(stop)
	s.aim(gpus)
	for _, n := range r.nodes {
		r.aimed[n] = true
	}
	s.stopped = s.stopped[:0]
	for _, id := range stop {
		if j := &s.jobs[id]; j.phase == running && s.aimedAt(j) {
			s.vacate(id)
			s.stopped = append(s.stopped, id)
		}
	}
	for _, n := range r.nodes {
		r.aimed[n] = false
	}
	return s.stopped
}

func (s *Sim) aimedAt(j *job) bool {
	if j.multi < 0 {
		return s.reach.aimed[j.node]
	}
	for _, n := range s.multi[j.multi] {
		if s.reach.aimed[n.Node] {
			return true
		}
	}
	return false
}

// nodesOf finds the nodes that the jobs of a list run on.
func (s *Sim) nodesOf(list []ID) {
	r := &s.reach
	if len(r.aimed) < len(s.place.free) {
		r.aimed = make([]bool, len(s.place.free))
	}
	r.nodes = r.nodes[:0]
	for _, id := range list {
		j := &s.jobs[id]
		switch {
		case j.phase != running: // stopped by now
		case j.multi < 0:
			r.propose(j.node)
		default:
			for _, n := range s.multi[j.multi] {
				r.propose(int32(n.Node))
			}
		}
	}
	for _, n := range r.nodes {
		r.aimed[n] = false
	}
}

func (r *reach) propose(node int32) {
	if !r.aimed[node] {
		r.aimed[node] = true
		r.nodes = append(r.nodes, node)
	}
}

// aim keeps of the nodes those that a gang would be placed on, if it finds no
// place without.
func (s *Sim) aim(gpus int) {
	r, p := &s.reach, &s.place
	best := int32(-1)
	for _, n := range r.nodes {
		most := p.most(int(n))
		if most < gpus {
			continue
		}
		if best < 0 || p.mode != FirstFit && most < p.most(int(best)) || (p.mode == FirstFit || most == p.most(int(best))) && n < best {
			best = n
		}
	}
	if best >= 0 {
		r.nodes = append(r.nodes[:0], best)
		return
	}
	slices.SortFunc(r.nodes, func(a, b int32) int { return cmp.Or(p.most(int(b))-p.most(int(a)), int(a-b)) })
	k := 0
	for f := p.perNode; f > 0 && gpus > 0; f-- {
		free := p.level[f].n
		for _, n := range r.nodes {
			if int(p.free[n]) == f {
				free-- // it is among those that follow
			}
		}
		gpus -= f * free
		for ; k < len(r.nodes) && p.most(int(r.nodes[k])) == f && gpus > 0; k++ {
			gpus -= f
		}
	}
	r.nodes = r.nodes[:k]
}
