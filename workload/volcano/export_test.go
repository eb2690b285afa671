package volcano

// Groups is the number of jobs that are kept.
func (m *Mapper) Groups() int { return len(m.groups) }
