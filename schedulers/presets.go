package schedulers

import (
	"github.com/autosched/autosched/schedulers/astraea"
	"github.com/autosched/autosched/schedulers/chronus"
	"github.com/autosched/autosched/schedulers/gandiva"
	"github.com/autosched/autosched/schedulers/gavel"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/schedulers/lucid"
	"github.com/autosched/autosched/schedulers/optimus"
	"github.com/autosched/autosched/schedulers/pollux"
	"github.com/autosched/autosched/schedulers/pooling"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/themis"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/space"
)

// Presets: the first is good for many workloads and loses in hardly any, the others are
// far better for some. docs/notes/presets.md has the figures.
// Tiresias's are its ladders.
var (
	astraeaSpace = must(space.New(astraea.Space(), nil))
	chronusSpace = must(space.New(chronus.Space(), nil))
	gandivaSpace = must(space.New(gandiva.Space(), nil))
	gavelSpace   = must(space.New(gavel.Space(), nil))
	kueueSpace   = must(space.New(kueue.Space(), kueue.Rules()))
	lucidSpace   = must(space.New(lucid.Space(), nil))
	optimusSpace = must(space.New(optimus.Space(), nil))
	polluxSpace  = must(space.New(pollux.Space(), nil))
	poolingSpace = must(space.New(pooling.Space(), nil))
	slurmSpace   = must(space.New(slurm.Space(), slurm.Rules()))
	themisSpace  = must(space.New(themis.Space(), nil))
	volcanoSpace = must(space.New(volcano.Space(), volcano.Rules()))

	astraeaPresets = []Preset{preset(astraeaSpace, "short-leases", "lease_term=600", "queues=20")}
	chronusPresets = []Preset{
		preset(chronusSpace, "shorter-leases", "lease_term=15m"),
		preset(chronusSpace, "long-leases", "lease_term=40m"),
		preset(chronusSpace, "hour-leases", "lease_term=1h"),
	}
	gandivaPresets = []Preset{
		preset(gandivaSpace, "packing-30m", "slice=30m", "packing_limit=2"),
		preset(gandivaSpace, "packing", "slice=1h", "packing_limit=2"),
		preset(gandivaSpace, "packing-3h", "slice=3h", "packing_limit=2"),
	}
	// Fewer restarts.
	gavelPresets = []Preset{
		preset(gavelSpace, "long-rounds", "round_length=15m"),
		preset(gavelSpace, "finish-time-hourly", "policy=finish_time_fairness", "round_length=1h"),
		preset(gavelSpace, "longer-rounds", "round_length=40m"),
	}
	// Owners find some of their quota free, or get it back for urgent jobs, and queues borrow less. Others lose more
	// work or idle more GPUs in the worst workload.
	kueuePresets = []Preset{
		preset(kueueSpace, "guarded", "lendingLimit=.9"),
		preset(kueueSpace, "bounded", "borrowingLimit=.25"),
		preset(kueueSpace, "reclaim", "preemption.reclaimWithinCohort=LowerPriority"),
	}
	// Profiling pays nowhere here, as share scores are known without.
	lucidPresets = []Preset{
		preset(lucidSpace, "share-longer", "profiler_nodes=0", "share_limit=4", "share_factor=8"),
		preset(lucidSpace, "share-all", "profiler_nodes=0", "share_limit=4"),
	}
	// Jobs grow further while others are few.
	optimusPresets = []Preset{preset(optimusSpace, "wide", "max_scale=8")}
	// Jobs grow further, and faster where it helps them most, or fairly.
	polluxPresets = []Preset{
		preset(polluxSpace, "wide", "interval=2m", "fairness=.5", "noise_scale=6", "max_scale=10"),
		preset(polluxSpace, "wide-fair", "interval=2m", "fairness=-6", "noise_scale=20", "max_scale=16"),
	}
	poolingPresets = []Preset{preset(poolingSpace, "reclaim-at-once", "grace=0")}
	// Small jobs first, by nodes and CPUs or by GPUs, or common values of sites; each with backfill as often as by
	// default and three times as often.
	slurmPresets = []Preset{
		preset(slurmSpace, "few-gpus-bf10", append(slurmFewGPUs, slurmOften)...),
		preset(slurmSpace, "few-gpus", slurmFewGPUs...),
		preset(slurmSpace, "small-bf10", append(slurmSmall, slurmOften)...),
		preset(slurmSpace, "small", slurmSmall...),
		preset(slurmSpace, "site-bf10", append(slurmSite, slurmOften)...),
		preset(slurmSpace, "site", slurmSite...),
		preset(slurmSpace, "default-bf10", slurmOften),
	}
	slurmOften = "SchedulerParameters.bf_interval=10"
	slurmSmall = []string{"PriorityFavorSmall=true", "PriorityWeightJobSize=10000", "PriorityWeightAge=1000"}
	// Age keeps wide jobs from waiting without end.
	slurmFewGPUs = []string{"PriorityWeightTRES.gpu=60000", "PriorityWeightTRES.gpu.negative=true",
		"PriorityFavorSmall=true", "PriorityWeightJobSize=60000", "PriorityWeightAge=6000"}
	slurmSite = []string{"PriorityWeightFairshare=10000", "PriorityWeightQOS=3000", "PriorityWeightAge=2000"}
	// Long leases are for sweeps of equal jobs.
	themisPresets = []Preset{
		preset(themisSpace, "relaxed", "consolidation_threshold=.1"),
		preset(themisSpace, "longest-leases", "lease_term=3h"),
		preset(themisSpace, "long-leases", "lease_term=40m"),
	}
	// More jobs let in leave fewer GPUs idle; small jobs on nodes in use leave others empty for wide ones.
	volcanoPresets = []Preset{
		preset(volcanoSpace, "overcommit", "overcommit-factor=3"),
		preset(volcanoSpace, "pack-overcommit", append(volcanoPack, "overcommit-factor=3")...),
		preset(volcanoSpace, "pack", volcanoPack...),
	}
	volcanoPack = []string{"binpack.weight=10", "binpack.resources.gpu=10", "leastrequested.weight=0"}
)

// preset is the default but for a few parameters, as name=value.
func preset(s *space.Space, name string, set ...string) Preset {
	c, err := s.Parse(s.Default(), set)
	if err != nil {
		panic("schedulers: preset " + name + ": " + err.Error())
	}
	return Preset{name, c}
}
