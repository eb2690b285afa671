package volcano

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Action is a step of a session.
type Action string

// The actions that are simulated. Backfill starts pods without requests, so none that holds GPUs.
const (
	Enqueue  Action = "enqueue"
	Allocate Action = "allocate"
	Backfill Action = "backfill"
	Preempt  Action = "preempt"
	Reclaim  Action = "reclaim"
)

// Settings are those of volcano-scheduler.conf, under its names.
type Settings struct {
	Actions []Action

	// BinpackGPU is binpack.resources.nvidia.com/gpu; 0 where binpack.resources does not name it.
	BinpackWeight, BinpackCPU, BinpackMemory, BinpackGPU int
	// Of the plugin nodeorder.
	LeastRequested, MostRequested, BalancedResource int

	OvercommitFactor float64       // 0 without the plugin overcommit
	SLAWaitingTime   time.Duration // 0 without the plugin sla
	SLAFirst         bool          // sla comes before priority

	SchedulePeriod time.Duration // the flag --schedule-period
}

// Defaults returns the settings of Volcano's chart.
func Defaults() Settings {
	return Settings{Actions: []Action{Enqueue, Allocate, Backfill}, BinpackWeight: 1, BinpackCPU: 1, BinpackMemory: 1,
		LeastRequested: 1, BalancedResource: 1, OvercommitFactor: 1.2, SchedulePeriod: time.Second}
}

// Of returns the settings of a configuration, with the defaults for the others.
func Of(c space.Config) Settings {
	s := Defaults()
	for id, to := range map[string]*int{BinpackWeightID: &s.BinpackWeight, BinpackCPUID: &s.BinpackCPU,
		BinpackMemoryID: &s.BinpackMemory, BinpackGPUID: &s.BinpackGPU, LeastRequestedID: &s.LeastRequested,
		MostRequestedID: &s.MostRequested, BalancedResourceID: &s.BalancedResource} {
		if c.Has(id) {
			*to = int(c.Get(id).Float())
		}
	}
	if c.Has(ActionsID) {
		s.Actions = s.Actions[:0]
		for a := range strings.SplitSeq(c.Get(ActionsID).Text(), ",") {
			s.Actions = append(s.Actions, Action(a))
		}
	}
	if c.Has(OvercommitID) {
		s.OvercommitFactor = c.Get(OvercommitID).Float()
	}
	if c.Has(SLAID) {
		s.SLAWaitingTime = c.Get(SLAID).Duration()
	}
	if c.Has(OrderID) {
		s.SLAFirst = c.Get(OrderID).Text() == SLAThenPriority
	}
	return s
}

// Queue is a Queue.
type Queue struct {
	Name        string
	Weight      float64
	Priority    int
	Capability  int // the most GPUs that its jobs hold; 0 is any number
	Reclaimable bool
}

// Queues returns the queues of a cluster, which are its virtual clusters, in order of name, with the values of a
// configuration if there is one. A queue without a weight has its quota for one. Its capability is the Own of the limit
// of GPUs of the account of its name; priority and reclaimable are settings of the site, behind its name and a dot.
func Queues(c *workload.Cluster, config *space.Config) []Queue {
	var out []Queue
	for _, vc := range c.VCs {
		q := Queue{Name: vc.Tenant, Weight: cmp.Or(vc.Weight, float64(vc.GPUs), 1), Reclaimable: true}
		q.Priority, _ = strconv.Atoi(c.Site.Settings[queues.ID(q.Name, Priority)])
		if r, err := strconv.ParseBool(c.Site.Settings[queues.ID(q.Name, Reclaimable)]); err == nil {
			q.Reclaimable = r
		}
		for _, l := range c.Site.Limits {
			if l.Scope == (workload.Scope{Account: q.Name}) && l.Resource == workload.LimitedGPUs {
				q.Capability = int(l.Own)
			}
		}
		if config != nil {
			if v, ok := queues.Value(*config, q.Name, Weight); ok {
				q.Weight = v.Float()
			}
			if v, ok := queues.Value(*config, q.Name, Reclaimable); ok {
				q.Reclaimable = v.Bool()
			}
		}
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
