package studies

// Hold keeps a study from proposing trials until release is called.
func (s *Service) Hold(scheduler, id string) (release func()) {
	m := s.studies[scheduler][id]
	m.asking <- struct{}{}
	return func() { <-m.asking }
}
