package tiresias

import "github.com/autosched/autosched/schedulers/native"

// Native is the options of the simulator that Tiresias's authors published: the schedule of its command
// line, and the queues of class _TFJobs. Thresholds are of GPU-seconds (dlas-gpu) or seconds (dlas).
var Native = native.Options{
	Comment: "Tiresias: options of github.com/SymbioticLab/Tiresias, simulator/run_sim.py and jobs.py (b0ef844)",
	List: []native.Option{
		{Name: "schedule", Param: "priority", As: native.Words(map[string]string{
			"service": "dlas-gpu", "time": "dlas", "gittins": "dlas-gpu-gittins"})},
		{Name: "num_queue", Param: "queues"},
		{Name: "queue_limit", Param: "queue_thresholds"},
		{Name: "order", Param: "order", Comment: "Not in the release:"},
		{Name: "starve_limit", Param: "starve_limit"},
		{Name: "pack_limit", Param: "pack_limit"},
	},
}
