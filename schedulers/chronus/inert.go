package chronus

// Inert names the parameters that make no difference where no job has a deadline
// of its own, or schedulers are told no run times.
func Inert(deadlines, told bool) []string {
	switch {
	case told:
		return nil
	case deadlines:
		return []string{"slo_share", "slo_factor"} // only jobs whose run time is told are given a deadline
	}
	return []string{"slo_gpus", "slo_share", "slo_factor"}
}
