package controller

// Remembered is the number of event ids kept to recognise duplicates.
func (s *Service) Remembered(id string) int {
	m, err := s.find(id)
	if err != nil {
		return -1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.history.ids)
}
