package slurm

import (
	"slices"

	"github.com/autosched/autosched/space"
)

// Ids of parameters are the names in slurm.conf; options of SchedulerParameters and of PriorityWeightTRES follow a dot.
const (
	weightAge             = "PriorityWeightAge"
	weightFairshare       = "PriorityWeightFairshare"
	weightJobSize         = "PriorityWeightJobSize"
	weightQOS             = "PriorityWeightQOS"
	weightGPU             = "PriorityWeightTRES.gpu"
	weightGPUNegative     = "PriorityWeightTRES.gpu.negative"
	favorSmall            = "PriorityFavorSmall"
	maxAge                = "PriorityMaxAge"
	decayHalfLife         = "PriorityDecayHalfLife"
	bfInterval            = "SchedulerParameters.bf_interval"
	bfResolution          = "SchedulerParameters.bf_resolution"
	bfWindow              = "SchedulerParameters.bf_window"
	bfMaxJobTest          = "SchedulerParameters.bf_max_job_test"
	bfMaxJobUser          = "SchedulerParameters.bf_max_job_user"
	bfMinAgeReserve       = "SchedulerParameters.bf_min_age_reserve"
	bfJobPartCountReserve = "SchedulerParameters.bf_job_part_count_reserve"
	schedInterval         = "SchedulerParameters.sched_interval"
	defaultQueueDepth     = "SchedulerParameters.default_queue_depth"
)

// Intervals are the parameters of how often and how far ahead Slurm plans: they set the cadence, not the order of jobs.
var Intervals = []string{bfInterval, bfResolution, bfWindow, schedInterval}

const day = 86400

// Space is the settings of slurm.conf worth tuning, with Slurm's defaults, in the ranges that sites use: age counts
// for an hour at least, the table of the backfill is no finer than 30 s, jobs get their reservation within six hours,
// and the memory of fair shares, which acts over weeks, is left as it is. A registration may open what Domain has.
func Space() []space.Param { return Usual(nil) }

// Usual is Domain in the ranges that sites use, widened to hold the values in force. The half-life of usage keeps its
// value.
func Usual(now func(id string) float64) []space.Param {
	params := Domain()
	for i := range params {
		p := &params[i]
		switch p.ID {
		case maxAge:
			p.Min = 3600
		case bfResolution:
			p.Min = 30
		case bfMinAgeReserve:
			p.Max = day / 4
		case decayHalfLife:
			p.Min, p.Max = 7*day, 7*day
		default:
			continue
		}
		if now == nil {
			continue
		}
		v := now(p.ID)
		switch special := slices.ContainsFunc(p.Special, func(s space.Special) bool { return s.Value == v }); {
		case special || v == 0:
		case p.ID == decayHalfLife:
			p.Min, p.Max, p.Default = v, v, space.Num(v)
		default:
			p.Min, p.Max = min(p.Min, v), max(p.Max, v)
		}
	}
	return params
}

// Domain is the settings of slurm.conf that a configuration can hold, in their widest ranges, with Slurm's defaults.
func Domain() []space.Param {
	off := []space.Special{{Value: 0, Name: "off"}}
	weight := func(id, of string) space.Param {
		return space.Param{ID: id, Module: "scheduling", Kind: space.KindInt, Min: 1, Max: 1e6, Log: true,
			Special: []space.Special{{Value: 0, Name: "off", Weight: .25}}, Default: space.Int(0),
			Description: "weight of " + of + " in a job's priority; only ratios of weights matter"}
	}
	seconds := func(id string, low, high, def float64, text string, special ...space.Special) space.Param {
		return space.Param{ID: id, Module: "scheduling", Kind: space.KindDuration, Unit: "s", Min: low, Max: high,
			Step: 1, Log: true, Special: special, Default: space.Num(def), Description: text}
	}
	minutes := func(id string, high float64, text string) space.Param {
		p := seconds(id, 60, high, 7*day, text)
		p.Step = 60
		return p
	}
	count := func(id string, low, high float64, def int, text string, special ...space.Special) space.Param {
		return space.Param{ID: id, Module: "scheduling", Kind: space.KindInt, Min: low, Max: high, Log: true,
			Special: special, Default: space.Int(def), Description: text}
	}
	params := []space.Param{
		weight(weightAge, "the time since a job could start"),
		weight(weightFairshare, "the fair-share factor of a job's user and account"),
		weight(weightJobSize, "the nodes and CPUs that a job asks for"),
		weight(weightQOS, "the priority of a job's QOS"),
		weight(weightGPU, "the share of the partition's GPUs that a job asks for"),
		{ID: weightGPUNegative, Module: "scheduling", Kind: space.KindBool, Default: space.Bool(false),
			Description: "turns the weight of GPUs negative: jobs of few GPUs first"},
		{ID: favorSmall, Module: "scheduling", Kind: space.KindBool, Default: space.Bool(false),
			Description: "the factor of job size grows as jobs get smaller"},
		minutes(maxAge, 30*day, "age at which the age factor reaches 1"),
		minutes(decayHalfLife, 60*day, "half-life of the usage behind fair shares"),
		seconds(bfInterval, 1, 300, 30, "time between backfill cycles"),
		seconds(bfResolution, 1, 600, 60, "grid of the times in the backfill's table"),
		count(bfWindow, 60, 43200, 1440, "how far ahead backfill plans, which should exceed the longest time limit"),
		count(bfMaxJobTest, 50, 5000, 500, "jobs that a backfill cycle tries"),
		count(bfMaxJobUser, 1, 500, 0, "jobs of one user that a backfill cycle tries; off is any number", off...),
		seconds(bfMinAgeReserve, 60, day, 0, "age below which a job gets no reservation and blocks no other", off...),
		count(bfJobPartCountReserve, 1, 1000, 0, "number of the first jobs of a partition that get reservations; "+
			"off is any number", off...),
		seconds(schedInterval, 10, 300, 60, "time between main cycles over the whole queue"),
		count(defaultQueueDepth, 50, 2000, 100, "jobs that a main cycle after a submission or an end looks at"),
	}
	params[11].Unit = "min"
	return params
}

// Rules are the dependencies between the parameters.
func Rules() []space.Rule {
	while := func(id, param, when string) space.Rule {
		return space.Rule{ID: id, Description: param + " has an effect with " + when + " only",
			Activation: &space.Activation{Param: param, When: when, Op: space.Greater, Value: space.Num(0)}}
	}
	return []space.Rule{
		while("max_age", maxAge, weightAge),
		while("half_life", decayHalfLife, weightFairshare),
		while("favor_small", favorSmall, weightJobSize),
		while("negative", weightGPUNegative, weightGPU),
		{ID: "jobs_of_user", Description: "a user has at most as many jobs tried as a cycle tries",
			Linear: &space.Linear{Terms: []space.Term{{Param: bfMaxJobUser, Coefficient: 1},
				{Param: bfMaxJobTest, Coefficient: -1}}, Max: 0}},
	}
}
