package volcano

import (
	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/space"
)

// Ids of parameters are the names of arguments in volcano-scheduler.conf, but for binpack.resources.nvidia.com/gpu, and
// but for the order of two plugins.
const (
	ActionsID          = "actions"
	BinpackWeightID    = "binpack.weight"
	BinpackCPUID       = "binpack.cpu"
	BinpackMemoryID    = "binpack.memory"
	BinpackGPUID       = "binpack.resources.gpu"
	LeastRequestedID   = "leastrequested.weight"
	MostRequestedID    = "mostrequested.weight"
	BalancedResourceID = "balancedresource.weight"
	OvercommitID       = "overcommit-factor"
	SLAID              = "sla-waiting-time"
	OrderID            = "plugins"
)

// Orders of the plugins priority and sla.
const (
	PriorityThenSLA = "priority,sla"
	SLAThenPriority = "sla,priority"
)

// Settings of queues, which are parameters behind the name of a queue, or a prefix of names, and a dot.
const (
	Weight      = "weight"
	Reclaimable = "reclaimable"
	Priority    = "priority" // not a parameter
)

// SchedulePeriod is the setting of a site with the time between sessions, as 5s, where it is not that of Defaults.
const SchedulePeriod = "schedule-period"

// Lists of actions. The ones that stop jobs are for sites that open them.
var (
	quiet    = []string{"enqueue,allocate,backfill", "allocate,backfill"}
	stopping = []string{"enqueue,allocate,preempt,backfill", "enqueue,allocate,reclaim,backfill",
		"enqueue,allocate,preempt,reclaim,backfill", "allocate,preempt,backfill", "allocate,reclaim,backfill",
		"allocate,preempt,reclaim,backfill"}
)

// Space is the settings of volcano-scheduler.conf worth tuning, with the defaults of Volcano's chart. Actions that stop
// jobs, and weights without effect where jobs ask for GPUs alone, are for a registration to open (Domain).
func Space() []space.Param {
	var params []space.Param
	for _, p := range Domain() {
		switch p.ID {
		case ActionsID:
			p.Categories = quiet
		case BinpackCPUID, BinpackMemoryID, BalancedResourceID:
			continue
		}
		params = append(params, p)
	}
	return params
}

// Domain is the settings of volcano-scheduler.conf that a configuration can hold, in their widest ranges.
func Domain() []space.Param {
	weight := func(id string, def int, of string) space.Param {
		return space.Param{ID: id, Module: "placement", Kind: space.KindInt, Min: 1, Max: 100, Log: true,
			Special: []space.Special{{Value: 0, Name: "off", Weight: .25}}, Default: space.Int(def),
			Description: "weight of " + of}
	}
	return []space.Param{
		{ID: ActionsID, Module: "scheduling", Kind: space.KindCategorical,
			Categories: append(append([]string{}, quiet...), stopping...), Default: space.Text(quiet[0]),
			Description: "steps of a session; without enqueue all jobs are let in"},
		{ID: OvercommitID, Module: "admission", Kind: space.KindFloat, Min: 1, Max: 10, Step: .1, Log: true,
			Special: []space.Special{{Value: 0, Name: "off", Weight: .1}}, Default: space.Num(1.2),
			Description: "size of the cluster for the jobs that are let in, in multiples of its own; " +
				"off is without the plugin overcommit"},
		weight(BinpackWeightID, 1, "nodes that are in use, by the resources that binpack counts"),
		weight(BinpackGPUID, 0, "GPUs among the resources that binpack counts"),
		weight(BinpackCPUID, 1, "CPUs among the resources that binpack counts"),
		weight(BinpackMemoryID, 1, "memory among the resources that binpack counts"),
		weight(LeastRequestedID, 1, "nodes of which few CPUs and little memory are in use"),
		weight(MostRequestedID, 0, "nodes of which many CPUs and much memory are in use"),
		weight(BalancedResourceID, 1, "nodes of which equal parts of CPUs, memory and GPUs are in use"),
		{ID: SLAID, Module: "admission", Kind: space.KindDuration, Unit: "s", Min: 60, Max: 30 * 86400, Step: 1,
			Log: true, Special: []space.Special{{Value: 0, Name: "off", Weight: .5}}, Default: space.Num(0),
			Description: "wait after which a job is let in whatever the room; off is without the plugin sla"},
		{ID: OrderID, Module: "scheduling", Kind: space.KindCategorical,
			Categories: []string{PriorityThenSLA, SLAThenPriority}, Default: space.Text(PriorityThenSLA),
			Description: "which of two plugins orders jobs first: by priority, or by submission"},
	}
}

// Rules are the dependencies between the parameters.
func Rules() []space.Rule {
	var scores []space.Term
	for _, id := range []string{BinpackWeightID, LeastRequestedID, MostRequestedID} {
		scores = append(scores, space.Term{Param: id, Coefficient: -1})
	}
	return []space.Rule{
		{ID: "score", Description: "nodes have a score: some weight is not off",
			Linear: &space.Linear{Terms: scores, Max: -1}},
		{ID: "binpack", Description: BinpackGPUID + " has an effect with " + BinpackWeightID + " only",
			Activation: &space.Activation{Param: BinpackGPUID, When: BinpackWeightID, Op: space.Greater,
				Value: space.Num(0)}},
		{ID: "order", Description: OrderID + " has an effect with " + SLAID + " only",
			Activation: &space.Activation{Param: OrderID, When: SLAID, Op: space.Greater, Value: space.Num(0)}},
	}
}

// SiteParam returns the parameter of an id that a site may add to Space or open in it, in its widest range: one of
// Domain, or the weight of a group of queues or whether others may reclaim from them.
func SiteParam(id string) (space.Param, bool) {
	for _, p := range Domain() {
		if p.ID == id {
			return p, true
		}
	}
	group, setting, ok := queues.Split(id, []string{Weight, Reclaimable})
	p := space.Param{ID: id, Module: "scheduling", Kind: space.KindInt, Min: 1, Max: 65535, Log: true,
		Default: space.Int(1), Description: "weight of the queues " + group + " in the division of the GPUs"}
	if setting == Reclaimable {
		p = space.Param{ID: id, Module: "scheduling", Kind: space.KindBool, Default: space.Bool(true),
			Description: "whether jobs of other queues may stop those of the queues " + group + " beyond their share"}
	}
	return p, ok
}
