package controller

// Reread puts the records of a scheduler in place of those that the service has, nil to remove them: another process
// changed them in the store. The service must not run.
func (s *Service) Reread(id string, one *Saved) {
	var m *schedulerState
	if one != nil {
		m = newSchedulerState(*one, s.o.keepProposals())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m == nil {
		delete(s.schedulers, id)
	} else {
		s.schedulers[id] = m
	}
}
