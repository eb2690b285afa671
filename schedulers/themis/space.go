package themis

import "github.com/autosched/autosched/space"

// Space is Themis's parameters. Ids and ranges follow AutoSched (section 5.4),
// the default fraction Themis's own choice.
func Space() []space.Param {
	return []space.Param{
		{ID: "lease_term", Module: "scheduling", Kind: space.KindDuration, Min: 60, Max: 86400, Log: true,
			Unit: "s (GPU-s if lease_priority is service)", Default: space.Num(1200),
			Description: "how long a job has its GPUs for itself before they are offered to others"},
		{ID: "lease_priority", Module: "scheduling",
			Kind: space.KindCategorical, Categories: []string{"time", "service"}, Default: space.Text("time"),
			Description: "what the lease term counts: time, or GPU-time, so that wide jobs are offered again sooner"},
		{ID: "fraction", Module: "scheduling", Kind: space.KindFloat, Min: 0, Max: 0.49, Step: 0.01,
			Default: space.Num(0.2),
			Description: "the rest of the jobs, those with the largest expected finish-time fairness, are " +
				"offered GPUs before all others"},
		{ID: "consolidation_threshold", Module: "placement", Kind: space.KindFloat, Min: 0.01, Max: 1,
			Special: []space.Special{{Value: 0, Name: "off", Weight: 0.35}}, Default: space.Num(0),
			Description: "jobs whose model's skew is above it are consolidated on as few nodes as needed, others " +
				"may be spread; off consolidates all"},
	}
}
