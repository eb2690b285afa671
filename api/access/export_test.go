package access

// Look reads the files once, as Run does at each tick.
func (s *Source) Look() { s.look() }
