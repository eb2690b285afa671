package chronus

// Inert returns the parameters without effect, by whether some jobs have declared
// deadlines and whether run times are estimated (simulator.Options.Estimate).
func Inert(deadlines, estimates bool) []string {
	switch {
	case estimates:
		return nil
	case deadlines:
		return []string{"slo_share", "slo_factor"} // synthetic deadlines need estimates
	}
	return []string{"slo_gpus", "slo_share", "slo_factor"}
}
