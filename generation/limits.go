package generation

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/workload"
)

// limits are the time limits that users ask for, as multiples of their jobs' actual run times: of completed jobs,
// by user, by number of GPUs, and all together.
type limits map[limitGroup][]float64

type limitGroup struct {
	user string
	gpus int
}

// enoughLimits is how many jobs a group must have to be drawn from; below, the next wider group is asked.
const enoughLimits = 8

func limitsOf(history []durations.Record) limits {
	var out limits
	for i := range history {
		r := &history[i]
		if r.Requested == (workload.Requested{}) || !r.Ended || r.Status == workload.TimedOut {
			continue
		}
		limit := r.Request().TimeLimit
		if limit < r.Ran || r.Ran <= 0 {
			continue
		}
		if out == nil {
			out = limits{}
		}
		for _, g := range limitGroups(r.Job) {
			out[g] = append(out[g], float64(limit)/float64(r.Ran))
		}
	}
	return out
}

// limitGroups of a job, the closest first. Without a user it has two.
func limitGroups(j *workload.Job) []limitGroup {
	groups := []limitGroup{{j.User, 0}, {"", j.GPUs.Whole()}, {}}
	if j.User == "" {
		return groups[1:]
	}
	return groups
}

// draw gives a job that runs for a time without a limit one, in whole minutes, if jobs like it have limits.
func (l limits) draw(r *rand.Rand, j *workload.Job, runs time.Duration) {
	q := j.Request()
	if len(l) == 0 || q.TimeLimit > 0 {
		return
	}
	for _, g := range limitGroups(j) {
		if ratios := l[g]; len(ratios) >= enoughLimits {
			minutes := math.Ceil(float64(runs)*ratios[r.IntN(len(ratios))]/float64(time.Minute) - 1e-6) // rounding
			q.TimeLimit = max(runs, min(time.Duration(min(minutes, 1e9))*time.Minute, workload.MaxDuration))
			j.Requested = q.Shared()
			return
		}
	}
}

// within is the duration of a job that ran for a time, as its time limit bounds it. A job that ended at its limit would
// have run longer. Of one that ran beyond it, whose scheduler allows that, the simulation knows how much.
func within(j *workload.Job, d, ran time.Duration) time.Duration {
	if j.Requested == (workload.Requested{}) {
		return d
	}
	limit := j.Request().TimeLimit
	if limit == 0 {
		return d
	}
	if j.Status == workload.TimedOut {
		return max(limit, ran)
	}
	if ran > limit {
		return d
	}
	return min(d, limit)
}
