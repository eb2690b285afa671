package simulator

// reach is what would be free if some jobs stopped: an upper bound on it, as a
// job may be protected or leave its GPUs to a partner. It tells in a few steps
// per job whether an Exchange is worth trying.
type reach struct {
	known bool
	total int
	nodes []int32 // by number of GPUs that would be free
	free  []int32 // by node, 0 between uses
	at    []int32 // the nodes of which free is not 0
}

// look takes in who would stop.
func (r *reach) look(s *Sim, stop []ID) {
	p := &s.place
	r.known, r.total = len(p.total) == 1, p.total[0]
	if p.mode == Count {
		for _, id := range stop {
			r.total += int(s.jobs[id].held)
		}
		return
	}
	if !r.known {
		return // there are pools
	}
	r.nodes = r.nodes[:0]
	for i := range p.perNode + 1 {
		r.nodes = append(r.nodes, int32(p.level[i].n))
	}
	if len(r.free) < len(p.free) {
		r.free = make([]int32, len(p.free))
	}
	emptied := int32(0) // nodes that one job has all of
	for _, id := range stop {
		j := &s.jobs[id]
		r.total += int(j.held)
		if j.multi < 0 {
			r.offer(j.node, j.held)
			continue
		}
		for _, n := range s.multi[j.multi] {
			if n.GPUs == p.perNode {
				emptied++
			} else {
				r.offer(int32(n.Node), int32(n.GPUs))
			}
		}
	}
	r.nodes[0] -= emptied
	r.nodes[p.perNode] += emptied
	for _, n := range r.at {
		r.nodes[p.free[n]]--
		r.nodes[min(int(p.free[n])+int(r.free[n]), p.perNode)]++
		r.free[n] = 0
	}
	r.at = r.at[:0]
}

func (r *reach) offer(node, gpus int32) {
	if r.free[node] == 0 {
		r.at = append(r.at, node)
	}
	r.free[node] += gpus
}

// fits reports whether a gang might find a place.
func (r *reach) fits(s *Sim, gpus int, relaxed bool) bool {
	p := &s.place
	switch {
	case !r.known:
		return true
	case gpus > r.total:
		return false
	case p.mode == Count || relaxed:
		return true
	}
	whole, rest := gpus/p.perNode, gpus%p.perNode
	switch {
	case whole == 0 || p.mode == FirstFit:
		have := 0 // nodes that hold the rest
		for f := max(rest, 1); f <= p.perNode; f++ {
			have += int(r.nodes[f])
		}
		return int(r.nodes[p.perNode]) >= whole && (rest == 0 || have > whole)
	case p.mode == ConsolidateWhole && int(r.nodes[p.perNode]) < whole:
		return false
	}
	need := whole
	if rest > 0 {
		need++
	}
	for f := p.perNode; f > 0 && need > 0 && gpus > 0; f-- {
		n := min(need, int(r.nodes[f]))
		need -= n
		gpus -= n * f
	}
	return gpus <= 0
}
