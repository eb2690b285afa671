package round

import (
	"slices"

	"github.com/autosched/autosched/workload"
)

// missesMetric is the only metric that goes by deadlines.
const missesMetric = "deadline_misses"

// NoDeadlineNote says that the metric tells nothing, where Result.NoDeadline is
// set.
const NoDeadlineNote = "no job has a deadline: " + missesMetric + " is 0 for all configurations"

// HasDeadline reports whether a job has one.
func HasDeadline(jobs []workload.Job) bool {
	return slices.ContainsFunc(jobs, func(j workload.Job) bool { return j.Deadline != 0 })
}

func (x *Scenario) hasDeadline() bool {
	return x.State != nil && slices.ContainsFunc(x.State.Jobs, func(j workload.ActiveJob) bool { return j.Deadline != 0 }) ||
		x.Arrivals != nil && HasDeadline(x.Arrivals.Jobs())
}

func (r *Round) hasDeadline() bool {
	return slices.ContainsFunc(slices.Concat(r.Scenarios, r.Confirm), func(x Scenario) bool { return x.hasDeadline() })
}

// countsMisses reports whether what the round is for names the deadlines missed.
func (r *Round) countsMisses() bool {
	g := r.goal()
	return g.names(missesMetric) || slices.Contains(r.Front, missesMetric) ||
		slices.ContainsFunc(g.Constraints, func(c Constraint) bool { return c.Metric == missesMetric })
}
