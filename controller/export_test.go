package controller

// Remembered is how many event ids a scheduler's events are told apart by.
func (s *Service) Remembered(id string) int {
	t, err := s.find(id)
	if err != nil {
		return -1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.seen)
}
