package round

import (
	"slices"

	"github.com/autosched/autosched/workload"
)

// missesMetric is the only metric that depends on deadlines.
const missesMetric = "deadline_misses"

// NoDeadlineNote is the note to print if Result.NoDeadline is set.
const NoDeadlineNote = "no job has a deadline: " + missesMetric + " is 0 for all configurations"

// HasDeadline reports whether a job has one.
func HasDeadline(jobs []workload.Job) bool {
	return slices.ContainsFunc(jobs, func(j workload.Job) bool { return j.Deadline != 0 })
}

func (x *Scenario) hasDeadline() bool {
	return x.State != nil && slices.ContainsFunc(x.State.Jobs,
		func(j workload.ActiveJob) bool { return j.Deadline != 0 }) ||
		x.Arrivals != nil && HasDeadline(x.Arrivals.Jobs())
}

func (r *Round) hasDeadline() bool {
	return slices.ContainsFunc(r.Scenarios, func(x Scenario) bool { return x.hasDeadline() })
}

// countsMisses reports whether the goal or Front names the deadlines missed.
func (r *Round) countsMisses() bool {
	return slices.Contains(r.Goal.counted(), missesMetric) || slices.Contains(r.Front, missesMetric)
}
