package simulator

func (p *Plan) exchange(stop, start []ID, widest bool) bool {
	s := p.planned()
	moved := s.moved
	s.moved, s.preempted = -1, s.preempted[:0]
	if s.opts.Peer.QuotaOnly {
		s.exchangeByCount(stop, start, widest)
	} else {
		s.exchange(stop, start, widest)
	}
	if s.moved >= 0 {
		return true
	}
	s.moved = moved
	return false
}

// exchange preempts jobs to start others. Each job starts on free GPUs if it can.
// Otherwise, if it might start once all offered jobs stop, only the jobs on the nodes
// it would get are vacated (startOnCleared). Where nodes alone do not decide
// (pools, quotas, members of groups), all offered jobs are vacated, and jobs
// whose GPUs are still free at the end resume (vacateAll).
func (s *Sim) exchange(stop, start []ID, widest bool) {
	stop = s.unprotected(stop)
	if !s.canHelp(stop, start) {
		return
	}
	if widest {
		s.sortWidest(start)
	}
	offered, vacated := false, false
	s.kinds.epoch++
	for _, id := range start {
		k := s.kind(id)
		if s.kinds.marks[k].failedEpoch == s.kinds.epoch {
			continue
		}
		g := int(s.kinds.list[k].key.gpus)
		if s.start(id, g) {
			continue
		}
		if !vacated && len(stop) > 0 && !offered {
			s.offerStops(stop)
			offered = true
		}
		if vacated || len(stop) == 0 || !s.couldFit(s.kinds.list[k].key) {
			s.kinds.marks[k].failedEpoch = s.kinds.epoch
			continue
		}
		s.kinds.epoch++ // GPUs are given up: a failed attempt may succeed
		if s.startOnCleared(id, g, stop) {
			continue
		}
		s.vacateAll(stop)
		vacated = true
		s.start(id, g)
	}
	s.reach.resetSites()
	if vacated {
		s.resumeVacated(stop)
	}
}

// startOnCleared starts a job on nodes that it clears of offered jobs, if it finds
// a place there, and reports whether it did.
func (s *Sim) startOnCleared(id ID, gpus int, stop []ID) bool {
	if len(s.place.could) == 0 || s.place.shaped(gpus, s.where(&s.jobs[id])) {
		return false
	}
	cleared := s.clearNodes(stop, gpus)
	found := s.start(id, gpus)
	s.resumeVacated(cleared)
	return found
}

// exchangeByCount is exchange as Peer.QuotaOnly has it: all offered jobs stop.
func (s *Sim) exchangeByCount(stop, start []ID, widest bool) {
	if widest {
		s.sortWidest(start)
	}
	s.vacateAll(stop)
	for _, id := range start {
		s.start(id, int(s.jobs[id].gpus))
	}
	s.evictVacated(stop)
}

// resumeVacated lets vacated jobs continue where their GPUs are still free, and
// makes the others wait.
func (s *Sim) resumeVacated(stop []ID) {
	for _, id := range stop {
		j := &s.jobs[id]
		if !j.vacated || !s.allows(j, int(j.held)) {
			continue
		}
		if s.retake(j); !j.vacated {
			s.offerAgain(id)
		}
	}
	s.evictVacated(stop)
}

// canHelp reports whether an exchange might start a job. Gangs at the head of the
// queues ask again at every event while the GPUs that they could have are scattered,
// so this is decided once per kind of job.
func (s *Sim) canHelp(stop, start []ID) bool {
	k := &s.kinds
	k.epoch++
	k.asked = k.asked[:0]
	for _, id := range start {
		i := s.kind(id)
		if k.marks[i].askedEpoch == k.epoch {
			continue
		}
		k.marks[i].askedEpoch = k.epoch
		k.asked = append(k.asked, i)
		if key := k.list[i].key; s.tenantMay(key.tenant, int(key.gpus)) && s.finds(key) {
			return true
		}
	}
	s.offerStops(stop)
	for _, i := range k.asked {
		if s.couldFit(k.list[i].key) {
			return true
		}
	}
	return false
}

// finds reports whether a kind of job finds a place.
func (s *Sim) finds(k kindKey) bool {
	if s.place.mode == Count {
		return s.place.counts(int(k.gpus), k.where)
	}
	if k.members > 1 && s.place.constraints[k.where].need != (need{}) {
		return true // places counts GPUs only
	}
	if each := int(k.gpus / max(1, k.members)); k.members > 1 && each <= s.place.perNode {
		return s.place.places(each, k.pool, k.where) >= int(k.members)
	}
	s.nodes = s.place.find(s.nodes[:0], int(k.gpus), k.pool, k.relaxed, k.where)
	return len(s.nodes) > 0
}

func (s *Sim) vacateAll(stop []ID) {
	for _, j := range stop {
		if s.jobs[j].phase == running && !s.protected(j) {
			s.vacate(j)
		}
	}
}

func (s *Sim) evictVacated(stop []ID) {
	for _, j := range stop {
		if s.jobs[j].vacated {
			s.evict(j)
			s.preempted = append(s.preempted, j)
		}
	}
}
