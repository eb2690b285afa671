package lucid

import "github.com/autosched/autosched/space"

// Off is the share limit at which no jobs share GPUs.
const Off = -1

// Space is Lucid's parameters. Defaults follow the published simulator (two
// profiler nodes, 200 s, factor 4, scores up to 2, factor 2, 24,576 MB).
func Space() []space.Param {
	return []space.Param{
		{ID: "profiler_nodes", Module: "admission", Kind: space.KindInt, Min: 1, Max: 16, Unit: "nodes",
			Special: []space.Special{{Value: 0, Name: "off", Weight: 0.35}}, Default: space.Int(2),
			Description: "nodes taken from the cluster to run new jobs for a short time first, and to learn what " +
				"they do to others"},
		{ID: "profiler_time", Module: "admission", Kind: space.KindDuration, Min: 30, Max: 3600, Log: true, Unit: "s",
			Default:     space.Num(200),
			Description: "how long a job is profiled at most; shorter jobs end there"},
		{ID: "profiler_factor", Module: "admission",
			Kind: space.KindInt, Min: 1, Max: 16, Default: space.Int(4), Unit: "GPUs/node",
			Description: "jobs of up to this many GPUs per profiler node are profiled"},
		{ID: "priority", Module: "scheduling", Kind: space.KindCategorical, Categories: []string{"gpu_time", "time"},
			Default:     space.Text("gpu_time"),
			Description: "what is short: the estimated run time multiplied by the GPUs, or alone"},
		{ID: "share_limit", Module: "placement", Kind: space.KindInt, Min: 0, Max: 4,
			Special: []space.Special{{Value: Off, Name: "off", Weight: 0.2}}, Default: space.Int(2),
			Description: "the largest sum of two jobs' share scores (0 light, 1, 2 heavy) at which they may share"},
		{ID: "share_when", Module: "placement",
			Kind: space.KindCategorical, Categories: []string{"full", "always"}, Default: space.Text("full"),
			Description: "share GPUs only when a job finds no free place, or whenever there is a partner"},
		{ID: "share_factor", Module: "placement",
			Kind: space.KindFloat, Min: 0.25, Max: 16, Log: true, Default: space.Num(2),
			Description: "a job shares GPUs with another whose priority value is at least its own divided by " +
				"this, so that it does not outlast it by much"},
		{ID: "memory_limit", Module: "placement", Kind: space.KindInt, Min: 8192, Max: 98304, Step: 1024, Unit: "MB",
			Default: space.Int(24576),
			Description: "GPU memory that two sharing jobs must stay below together, where the models tell how " +
				"much a job takes (the built-in ones do not)"},
		{ID: "share_load", Module: "placement", Kind: space.KindFloat, Min: 1, Max: 1000, Log: true, Unit: "jobs/h",
			Special: []space.Special{{Value: 0, Name: "always", Weight: 0.5}}, Default: space.Num(0),
			Description: "GPUs are shared while more jobs than this were submitted within the last hour"},
	}
}
