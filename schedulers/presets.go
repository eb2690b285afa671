package schedulers

import (
	"github.com/autosched/autosched/schedulers/astraea"
	"github.com/autosched/autosched/schedulers/gandiva"
	"github.com/autosched/autosched/schedulers/gavel"
	"github.com/autosched/autosched/schedulers/lucid"
	"github.com/autosched/autosched/schedulers/pollux"
	"github.com/autosched/autosched/schedulers/themis"
	"github.com/autosched/autosched/space"
)

// Presets of the round-based and elastic schedulers: what was better than their
// defaults on two weeks of the Philly trace, on 70 nodes, where jobs queue
// (average completion time in seconds; the default's in brackets). Where jobs
// hardly queue, on 100 nodes, they lose at most a hundredth of it.
var (
	astraeaSpace = must(space.New(astraea.Space(), nil))
	gandivaSpace = must(space.New(gandiva.Space(), nil))
	gavelSpace   = must(space.New(gavel.Space(), nil))
	polluxSpace  = must(space.New(pollux.Space(), nil))

	// 15,898 (16,164).
	astraeaPresets = []Preset{preset(astraeaSpace, "short-leases", "lease_term=600", "queues=20")}
	// 14,144 (19,204), where all models keep a GPU busy for three quarters.
	gandivaPresets = []Preset{preset(gandivaSpace, "packing", "packing_limit=1.5")}
	// 15,920 (16,076): fewer restarts.
	gavelPresets = []Preset{preset(gavelSpace, "long-rounds", "round_length=1200")}
	// 11,079 (13,702): fewer restarts.
	polluxPresets = []Preset{preset(polluxSpace, "long-intervals", "interval=600")}
)

// Presets of Lucid: over six windows of the Philly trace, the first is at most 3
// hundredths behind the best of the dozen that were tried, the second at most 5
// and better where load is high throughout; the default is 2 to 13 hundredths
// behind. Profiling pays nowhere here, as share scores are known without.
var (
	lucidSpace   = must(space.New(lucid.Space(), nil))
	lucidPresets = []Preset{
		preset(lucidSpace, "share-all", "profiler_nodes=0", "share_limit=4"),
		preset(lucidSpace, "share-longer", "profiler_nodes=0", "share_limit=4", "share_factor=8"),
		preset(lucidSpace, "apart", "profiler_nodes=0", "share_limit=-1"),
	}
)

// Presets of Themis, on two weeks of the Philly trace with 100 and 70 nodes: the
// share of jobs with rho <= 1 and the average completion time in seconds, the
// default's being .881, 13,236 and .745, 15,835. Which is good depends on the
// objective.
var (
	themisSpace   = must(space.New(themis.Space(), nil))
	themisPresets = []Preset{
		preset(themisSpace, "short-leases", "lease_term=300"),        // .914, 13,198 and .799, 16,090
		preset(themisSpace, "shortest-leases", "lease_term=60"),      // .949, 13,170 and .893, 17,661
		preset(themisSpace, "relaxed", "consolidation_threshold=.3"), // .875, 13,306 and .498, 15,530
	}
)

// preset is the default but for a few parameters, as name=value.
func preset(s *space.Space, name string, set ...string) Preset {
	c, err := s.Parse(s.Default(), set)
	if err != nil {
		panic("schedulers: preset " + name + ": " + err.Error())
	}
	return Preset{name, c}
}
