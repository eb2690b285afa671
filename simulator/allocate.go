package simulator

import (
	"slices"

	"github.com/autosched/autosched/workload"
)

// allocate finds and takes a number of GPUs for a job and sets its rate there.
func (s *Sim) allocate(id ID, g int) bool {
	j := &s.jobs[id]
	if !s.allows(j, g) {
		return false
	}
	if s.place.mode == Count {
		if !s.place.counts(g, s.where(j)) {
			return false
		}
		s.place.count(g)
		j.held = int32(g)
		s.charge(j)
		s.updateRate(id)
		return true
	}
	if j.members > 1 && g == int(j.gpus) {
		return s.allocateMembers(id)
	}
	s.nodes = s.place.find(s.nodes[:0], g, j.pool, j.relaxed, s.where(j))
	if len(s.nodes) == 0 {
		return false
	}
	if s.sleeps() {
		s.preferAwake(s.nodes)
	}
	s.occupy(id, s.nodes)
	return true
}

// allocateMembers finds a place for every member of a group, or for none.
func (s *Sim) allocateMembers(id ID) bool {
	j := &s.jobs[id]
	where := s.where(j)
	if int(j.gpus) > s.place.total(j.pool, where) {
		return false
	}
	each, ok := int(j.gpus/j.members), true
	s.full = append(s.full[:0], s.place.full...)
	s.nodes = s.nodes[:0]
	for range j.members {
		from := len(s.nodes)
		s.nodes = s.place.find(s.nodes, each, j.pool, false, where)
		if ok = len(s.nodes) > from; !ok {
			break
		}
		for _, n := range s.nodes[from:] {
			s.place.take(n.Node, n.GPUs)
			s.place.reserve(n.Node, n.GPUs, where)
		}
	}
	for _, n := range s.nodes { // occupy takes them again, by node
		s.place.give(n.Node, n.GPUs)
		s.place.reserve(n.Node, -n.GPUs, where)
	}
	copy(s.place.full, s.full) // nothing has changed
	if ok {
		at := merged(s.nodes)
		if s.sleeps() {
			s.preferAwake(at)
		}
		s.occupy(id, at)
	}
	return ok
}

// merged adds up the GPUs on each node, in place.
func merged(at []workload.NodeGPUs) []workload.NodeGPUs {
	out := at[:0]
	for _, n := range at {
		if k := slices.IndexFunc(out, func(o workload.NodeGPUs) bool { return o.Node == n.Node }); k >= 0 {
			out[k].GPUs += n.GPUs
		} else {
			out = append(out, n)
		}
	}
	return out
}

// occupy takes the GPUs of a placement, which must be free.
func (s *Sim) occupy(id ID, at []workload.NodeGPUs) {
	j := &s.jobs[id]
	j.held = 0
	if s.sleeps() {
		s.rouse(at)
	}
	for _, n := range at {
		s.place.take(n.Node, n.GPUs)
		j.held += int32(n.GPUs)
	}
	s.charge(j)
	s.recordPlacement(id, at)
}

// recordPlacement notes where a job runs.
func (s *Sim) recordPlacement(id ID, at []workload.NodeGPUs) {
	j := &s.jobs[id]
	if len(at) == 1 {
		j.node = int32(at[0].Node)
	} else {
		if n := len(s.spare); n > 0 {
			j.multi, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			j.multi = int32(len(s.multi))
			if cap(s.multi) > len(s.multi) {
				s.multi = s.multi[:len(s.multi)+1]
			} else {
				s.multi = append(s.multi, nil)
			}
		}
		s.multi[j.multi] = append(s.multi[j.multi][:0], at...)
	}
	s.reserve(j, 1)
	perNode := s.place.sizes(s.where(j), s.place.group(at[0].Node))
	fewest := (int(j.held) + perNode - 1) / perNode
	fewest = max(fewest, int(s.place.constraints[s.where(j)].nodes))
	j.spread = len(at) > fewest && j.members == 1 // members need not be together
	j.strayed = j.strayed || j.spread
	s.updateRate(id)
}

// placementOf is where a job runs (or ran until it was vacated).
func (v *View) placementOf(dst []workload.NodeGPUs, j *job) []workload.NodeGPUs {
	switch {
	case j.multi >= 0:
		return append(dst, v.multi[j.multi]...)
	case j.node >= 0:
		return append(dst, workload.NodeGPUs{Node: int(j.node), GPUs: int(j.held)})
	}
	return dst
}

// where is the index of a job's constraint. Without constraints it does not look
// at the job.
func (v *View) where(j *job) uint16 {
	if len(v.place.constraints) == 1 {
		return 0
	}
	return j.where
}
