package gavel

import (
	"github.com/autosched/autosched/schedulers/native"
)

// Native is the options of the simulator that Gavel's authors published. Its command line takes whole seconds.
var Native = native.Options{
	Comment: "Gavel: options of github.com/stanford-futuredata/gavel, " +
		"scheduler/scripts/drivers/simulate_scheduler_with_trace.py (c8cc82b)",
	List: []native.Option{
		{Name: "policy", Param: "policy", As: native.Words(map[string]string{"max_min": "max_min_fairness",
			"finish_time_fairness": "finish_time_fairness"})},
		{Name: "time_per_iteration", Param: "round_length"},
	},
}
