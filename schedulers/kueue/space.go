package kueue

import (
	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/space"
)

// Tunable are the settings that parameters may have, of all queues or of a group.
var Tunable = []string{QueueingStrategy, WithinClusterQueue, ReclaimWithinCohort, BorrowPolicy, BorrowingLimit,
	LendingLimit, Weight}

// Space is the settings of all ClusterQueues worth tuning, with Kueue's defaults. A site may add the settings of groups
// of queues (SiteParam).
func Space() []space.Param {
	return []space.Param{param(QueueingStrategy), param(WithinClusterQueue), param(ReclaimWithinCohort),
		param(BorrowPolicy), param(BorrowingLimit), param(LendingLimit)}
}

// Rules are the dependencies between the parameters of Space.
func Rules() []space.Rule { return []space.Rule{RuleFor("", "borrow_within_cohort")} }

// RuleFor is the dependency between the parameters of a group of queues.
func RuleFor(group, id string) space.Rule {
	return space.Rule{ID: id, Description: "preempting while borrowing needs preemption within the cohort",
		Activation: &space.Activation{Param: queues.ID(group, BorrowPolicy),
			When: queues.ID(group, ReclaimWithinCohort), Op: space.NotEqual, Value: space.Text(Never)}}
}

// SiteParam returns the parameter of an id that a site may add to Space: a setting of a group of queues, "<group>." and
// the name of the setting, where the group is the name of a queue or a prefix of names that ends in "-".
func SiteParam(id string) (space.Param, bool) {
	group, setting, ok := queues.Split(id, Tunable)
	if !ok {
		return space.Param{}, false
	}
	p := param(setting)
	if p.ID = id; group != "" {
		p.Description += " (of " + group + ")"
	}
	return p, true
}

func param(setting string) space.Param {
	p := space.Param{ID: setting, Module: "admission", Description: descriptions[setting]}
	switch setting {
	case BorrowingLimit, LendingLimit:
		p.Kind, p.Max, p.Default = space.KindFloat, 1, space.Num(1)
	case Weight:
		p.Kind, p.Min, p.Max, p.Log, p.Default = space.KindFloat, .01, 100, true, space.Num(1)
	default:
		p.Kind, p.Categories, p.Default = space.KindCategorical, values[setting], space.Text(values[setting][0])
	}
	return p
}

var descriptions = map[string]string{
	QueueingStrategy:    "whether jobs behind one that does not fit may be admitted",
	WithinClusterQueue:  "running jobs that a pending one of the same queue may preempt",
	ReclaimWithinCohort: "running jobs of queues that borrow which a pending one within its queue's quota may preempt",
	BorrowPolicy:        "running jobs of other queues that a pending one may preempt while its queue borrows",
	BorrowingLimit:      "most GPUs that a queue borrows, as a share of its cohort's; 1 is no limit",
	LendingLimit:        "most GPUs that a queue lends, as a share of its quota; 1 is no limit",
	Weight:              "share of the queue in borrowed GPUs, with fair sharing",
}
