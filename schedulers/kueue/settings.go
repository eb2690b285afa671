package kueue

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// The settings of a ClusterQueue, by the names of their fields.
const (
	QueueingStrategy    = "queueingStrategy"
	WithinClusterQueue  = "preemption.withinClusterQueue"
	ReclaimWithinCohort = "preemption.reclaimWithinCohort"
	BorrowPolicy        = "preemption.borrowWithinCohort.policy"
	BorrowThreshold     = "preemption.borrowWithinCohort.maxPriorityThreshold"
	BorrowingLimit      = "borrowingLimit"
	LendingLimit        = "lendingLimit"
	Weight              = "fairSharing.weight"
)

// FairSharing is the setting of the manager that divides borrowed quota by share: "true" or "false".
const FairSharing = "fairSharing"

// Values of the settings.
const (
	StrictFIFO                = "StrictFIFO"
	BestEffortFIFO            = "BestEffortFIFO"
	Never                     = "Never"
	LowerPriority             = "LowerPriority"
	LowerOrNewerEqualPriority = "LowerOrNewerEqualPriority"
	Any                       = "Any"
)

// values are the ones that settings of names may have, the default first.
var values = map[string][]string{
	QueueingStrategy:    {BestEffortFIFO, StrictFIFO},
	WithinClusterQueue:  {Never, LowerPriority, LowerOrNewerEqualPriority},
	ReclaimWithinCohort: {Never, LowerPriority, Any},
	BorrowPolicy:        {Never, LowerPriority},
}

// Queue is the settings in force of a ClusterQueue.
type Queue struct {
	Name     string
	Cohort   string // empty for none
	Nominal  int
	Strategy string
	// Within, Reclaim and Borrow are the policies of preemption.
	Within, Reclaim, Borrow string
	// Threshold is the highest priority that a preemptor which borrows preempts in other queues.
	Threshold                    int64
	BorrowingLimit, LendingLimit workload.Bound
	Weight                       float64
}

// Key is the key of a queue's recorded setting in workload.Site.Settings.
func Key(queue, setting string) string { return queues.ID(queue, setting) }

// Queues returns the settings in force of the virtual clusters: the values of a configuration, which may be the zero
// one; where it has none the recorded ones, or Kueue's defaults.
func Queues(c workload.Cluster, config space.Config) []Queue {
	out := make([]Queue, 0, len(c.VCs))
	cohort := map[string]int{}
	for _, v := range c.VCs {
		cohort[v.Cohort] += v.GPUs
	}
	for _, v := range c.VCs {
		q := Defaults(v.Tenant)
		q.Cohort, q.Nominal, q.BorrowingLimit, q.LendingLimit = v.Cohort, v.GPUs, v.Borrow, v.Lend
		for _, setting := range texts {
			if text, is := c.Site.Settings[Key(v.Tenant, setting)]; is {
				_ = q.Set(setting, text) // values that are not simulated have no effect
			}
		}
		q.configure(config, cohort[v.Cohort])
		out = append(out, q)
	}
	return out
}

// texts are the settings that are kept as texts.
var texts = []string{QueueingStrategy, WithinClusterQueue, ReclaimWithinCohort, BorrowPolicy, BorrowThreshold, Weight}

// Defaults returns the settings of a ClusterQueue that sets none.
func Defaults(name string) Queue {
	return Queue{Name: name, Strategy: BestEffortFIFO, Within: Never, Reclaim: Never, Borrow: Never,
		Threshold: math.MaxInt64, Weight: 1}
}

// Set changes a setting that is kept as a text.
func (q *Queue) Set(setting, value string) error {
	switch setting {
	case BorrowThreshold:
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return fmt.Errorf("%s: %q is not a priority", setting, value)
		}
		q.Threshold = n
		return nil
	case Weight:
		w, err := strconv.ParseFloat(value, 64)
		if err != nil || !(w >= 0 && w <= math.MaxFloat64) {
			return fmt.Errorf("%s: %q is not a weight", setting, value)
		}
		q.Weight = w
		return nil
	}
	to := q.named(setting)
	if to == nil || !slices.Contains(values[setting], value) {
		return fmt.Errorf("%s: %q is not known", setting, value)
	}
	*to = value
	return nil
}

// named returns the place of a setting that has names as values, nil for others.
func (q *Queue) named(setting string) *string {
	switch setting {
	case QueueingStrategy:
		return &q.Strategy
	case WithinClusterQueue:
		return &q.Within
	case ReclaimWithinCohort:
		return &q.Reclaim
	case BorrowPolicy:
		return &q.Borrow
	}
	return nil
}

// configure applies the values of a configuration. cohort is the quota of the queue's cohort.
func (q *Queue) configure(c space.Config, cohort int) {
	for setting := range values {
		if v, ok := queues.Value(c, q.Name, setting); ok {
			*q.named(setting) = v.Text()
		}
	}
	if v, ok := queues.Value(c, q.Name, Weight); ok {
		q.Weight = v.Float()
	}
	if v, ok := queues.Value(c, q.Name, BorrowingLimit); ok && q.Cohort != "" {
		q.BorrowingLimit = Part(v.Float(), cohort)
	}
	if v, ok := queues.Value(c, q.Name, LendingLimit); ok && q.Cohort != "" {
		q.LendingLimit = Part(v.Float(), q.Nominal)
	}
	if q.Reclaim == Never {
		q.Borrow = Never // Kueue refuses another policy
	}
}

// Part is a limit as a part of a quota; all of it is no limit.
func Part(share float64, of int) workload.Bound {
	if share >= 1 {
		return workload.Bound{}
	}
	return workload.BoundOf(int(math.Round(share * float64(of))))
}

// Text is the value of a setting that is kept as a text, empty for limits.
func (q *Queue) Text(setting string) string {
	if setting == Weight {
		return strconv.FormatFloat(q.Weight, 'g', -1, 64)
	}
	if at := q.named(setting); at != nil {
		return *at
	}
	return ""
}

// Limit is the value of a setting that is a limit.
func (q *Queue) Limit(setting string) workload.Bound {
	switch setting {
	case BorrowingLimit:
		return q.BorrowingLimit
	case LendingLimit:
		return q.LendingLimit
	}
	return workload.Bound{}
}
