package tiresias

import (
	"math"

	"github.com/autosched/autosched/space"
)

// MaxQueues bounds the number of queues.
const MaxQueues = 6

// Space is Tiresias's parameters. Ids, ranges and defaults follow the original
// release (three queues, thresholds of 3,250 and 7,200 GPU-seconds, no starve
// and pack limit). Thresholds go up to 2e7, so that a ladder of five queues
// that grows tenfold from 14,400 fits.
func Space() []space.Param {
	return []space.Param{
		{ID: "priority", Module: "scheduling", Kind: space.KindCategorical,
			Categories: []string{"service", "time", "gittins"}, Default: space.Text("service"),
			Description: "what sinks a job: attained service (GPU-seconds) or attained time (seconds); gittins " +
				"is service, with the jobs of a queue in order of the Gittins index learnt from past jobs"},
		{ID: "queues", Module: "scheduling", Kind: space.KindInt, Min: 1, Max: MaxQueues, Default: space.Int(3),
			Description: "number of priority queues"},
		{ID: "queue_thresholds", Module: "scheduling",
			Kind: space.KindFloat, Min: 60, Max: 2e7, Log: true, Unit: "GPU-s (s if priority is time)",
			Array: &space.Array{Length: "queues", Offset: -1, Max: MaxQueues - 1}, Default: space.Nums(3250, 7200),
			Description: "service at which a job sinks into the next queue, one value fewer than queues, " +
				"strictly increasing"},
		{ID: "order", Module: "scheduling", Kind: space.KindCategorical,
			Categories: []string{"running_first", "submit"}, Default: space.Text("running_first"),
			Description: "order inside a queue: running jobs before waiting ones (no job is stopped for one of " +
				"the same queue), or all by submission (by the Gittins index, if that is the priority)"},
		{ID: "starve_limit", Module: "scheduling",
			Kind: space.KindDuration, Min: 300, Max: 30 * 86400, Log: true, Unit: "s",
			Special: []space.Special{{Value: 0, Name: "off", Weight: 0.35}}, Default: space.Num(0),
			Description: "time since a job last ran after which it goes back to the first queue with no service"},
		{ID: "pack_limit", Module: "placement", Kind: space.KindFloat, Min: 0.01, Max: 1,
			Special: []space.Special{{Value: 0, Name: "off", Weight: 0.35}}, Default: space.Num(0),
			Description: "jobs whose model's skew is above it are consolidated on as few nodes as needed, others " +
				"may be spread; off consolidates all"},
	}
}

// Rules are the dependencies between the parameters.
func Rules() []space.Rule {
	return []space.Rule{{ID: "thresholds_increase", Description: "thresholds increase strictly",
		Ordering: &space.Ordering{Params: []string{"queue_thresholds"}, MinGap: 1}}}
}

// Ladders are five-queue configurations with thresholds that grow by a factor.
// The first loses in no window of the Philly trace (docs/notes/presets.md has figures).
// Consolidating all wins
// where the cluster drains between bursts, spreading models with little skew
// where it does not, so there is one ladder of each kind; the one that grows
// threefold is for batches of equal jobs, too. Queues are in order of submission,
// which beat running jobs first on every window. The last orders ladder-7200x6's
// queues by the Gittins index, learnt from jobs that have ended; it is as good,
// and simulating it takes twice as long.
var Ladders = []Ladder{
	{"ladder-14400x3", 14400, 3, 0, false},
	{"ladder-7200x6", 7200, 6, .3, false},
	{"ladder-7200x6-consolidated", 7200, 6, 0, false},
	{"ladder-1812x8.4", 1812, 8.4, .3, false},
	{"ladder-600x10", 600, 10, .3, false},
	{"ladder-3600x10", 3600, 10, .3, false},
	{"ladder-14400x10", 14400, 10, .3, false},
	{"gittins-7200x6", 7200, 6, .3, true},
}

// Ladder is a configuration of five queues: First GPU-seconds, growing by
// Ratio, with a pack limit, and in order of submission or of the Gittins index
// within.
type Ladder struct {
	Name      string
	First     float64
	Ratio     float64
	PackLimit float64
	Gittins   bool
}

// Values are the ladder's parameters.
func (l Ladder) Values() map[string]space.Value {
	t := make([]float64, 4)
	for i := range t {
		t[i] = math.Round(l.First * math.Pow(l.Ratio, float64(i)))
	}
	priority := "service"
	if l.Gittins {
		priority = "gittins"
	}
	return map[string]space.Value{
		"priority": space.Text(priority), "queues": space.Int(5), "queue_thresholds": space.Nums(t...),
		"order": space.Text("submit"), "starve_limit": space.Num(0), "pack_limit": space.Num(l.PackLimit),
	}
}
