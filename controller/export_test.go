package controller

// Remembered is how many event ids a scheduler's events are told apart by.
func (s *Service) Remembered(id string) int {
	m, err := s.find(id)
	if err != nil {
		return -1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.history.ids)
}
