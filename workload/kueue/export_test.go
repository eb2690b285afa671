package kueue

// Kept is the number of jobs and pods that are kept.
func (m *Mapper) Kept() (jobs, pods int) {
	return len(m.jobs), len(m.pods) + len(m.owned) + len(m.loose)
}
