package slurm

import (
	"time"

	"github.com/autosched/autosched/space"
)

// Settings are the settings of slurm.conf about scheduling, under its names. A limit of 0 is none.
type Settings struct {
	// Basic is PriorityType=priority/basic: in order of submission, whatever the weights.
	Basic bool

	PriorityWeightAge, PriorityWeightFairshare, PriorityWeightJobSize int64
	PriorityWeightPartition, PriorityWeightQOS, PriorityWeightAssoc   int64
	// PriorityWeightGPU is the N of PriorityWeightTRES=GRES/gpu=N; negative puts jobs of few
	// GPUs first.
	PriorityWeightGPU int64
	// PriorityWeightCPU and PriorityWeightNode are the weights of CPU= and Node=.
	PriorityWeightCPU, PriorityWeightNode int64

	PriorityFavorSmall    bool
	PriorityMaxAge        time.Duration
	PriorityDecayHalfLife time.Duration // 0: usage is never forgotten
	PriorityCalcPeriod    time.Duration
	NoFairTree            bool // PriorityFlags=NO_FAIR_TREE: the classic fair share
	FairShareDampening    int64

	// SchedulerParameters.

	BFInterval           time.Duration // 0 switches backfill off
	BFWindow             time.Duration
	BFResolution         time.Duration
	BFMaxJobTest         int
	BFMaxJobStart        int
	BFMaxJobUser         int
	BFMaxJobPart         int
	BFMaxJobUserPart     int
	BFMaxJobAssoc        int
	BFMinAgeReserve      time.Duration
	BFMinPrioReserve     int64
	BFJobPartCountResv   int
	BFNodeSpaceSize      int           // 0: as BFMaxJobTest
	SchedInterval        time.Duration // 0 switches the main scheduler off
	DefaultQueueDepth    int
	PartitionJobDepth    int
	SchedMaxJobStart     int
	BatchSchedDelay      time.Duration
	Defer                bool
	PreemptYoungestFirst bool
	// PreemptQOS and PreemptPartition are PreemptType=preempt/qos and preempt/partition_prio.
	PreemptQOS, PreemptPartition bool
	// PreemptCancel is PreemptMode=CANCEL, where QOS and partitions have none of their own; else it is REQUEUE.
	PreemptCancel bool
	// RequeueDelay is how long a preempted job may not start: cred_expire and a second.
	RequeueDelay time.Duration

	// OverTimeLimit is how much longer than its time limit a job may run. Plans count on the limit itself.
	OverTimeLimit time.Duration

	// Phases are when Slurm's own clocks strike, which no setting says.
	Phases Phases
}

// Phases are the instants of the first backfill cycle, full main cycle and calculation of
// priorities. Each comes every so often after, and not before it; 0 is the multiples of the
// interval, without a first.
type Phases struct{ Backfill, Full, Tick time.Duration }

// Defaults returns the settings of an empty slurm.conf.
func Defaults() Settings {
	return Settings{
		PriorityMaxAge: 7 * 24 * time.Hour, PriorityDecayHalfLife: 7 * 24 * time.Hour,
		PriorityCalcPeriod: 5 * time.Minute, FairShareDampening: 1,
		BFInterval: 30 * time.Second, BFWindow: 24 * time.Hour, BFResolution: time.Minute,
		BFMaxJobTest: 500, SchedInterval: time.Minute, DefaultQueueDepth: 100, BatchSchedDelay: 3 * time.Second,
		RequeueDelay: 121 * time.Second,
	}
}

// Of returns the settings of a configuration of Space, with Slurm's defaults for the others.
func Of(c space.Config) Settings { return Defaults().With(c) }

// With returns the settings with the values of a configuration of Space.
func (s Settings) With(c space.Config) Settings {
	count := func(id string) int { return int(c.Get(id).Float()) }
	weight := func(id string) int64 { return int64(c.Get(id).Float()) }
	s.PriorityWeightAge, s.PriorityWeightFairshare = weight(weightAge), weight(weightFairshare)
	s.PriorityWeightJobSize, s.PriorityWeightQOS = weight(weightJobSize), weight(weightQOS)
	if s.PriorityWeightGPU = weight(weightGPU); c.Get(weightGPUNegative).Bool() {
		s.PriorityWeightGPU = -s.PriorityWeightGPU
	}
	s.PriorityFavorSmall = c.Get(favorSmall).Bool()
	if s.PriorityWeightAge != 0 {
		s.PriorityMaxAge = c.Get(maxAge).Duration()
	}
	if s.PriorityWeightFairshare != 0 {
		s.PriorityDecayHalfLife = c.Get(decayHalfLife).Duration()
	}
	s.BFInterval, s.BFResolution = c.Get(bfInterval).Duration(), c.Get(bfResolution).Duration()
	s.BFWindow = time.Duration(count(bfWindow)) * time.Minute
	s.BFMaxJobTest, s.BFMaxJobUser = count(bfMaxJobTest), count(bfMaxJobUser)
	s.BFMinAgeReserve = c.Get(bfMinAgeReserve).Duration()
	s.BFJobPartCountResv = count(bfJobPartCountReserve)
	s.SchedInterval, s.DefaultQueueDepth = c.Get(schedInterval).Duration(), count(defaultQueueDepth)
	return s
}
