package store

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// goldenEvents are the events of testdata/events-layout*.db.gz: every field, alone and with the others, and values at
// the ends of their ranges.
func goldenEvents() []workload.Event {
	const least = -1 << 63
	job := workload.Job{ID: "job", User: "user", Tenant: "tenant", Key: "key", Model: "model", GPUs: 1500,
		Status: workload.OutOfMemory, Deadline: 40 * time.Hour, Requested: workload.Request{GPUModel: "A100",
			Partition: "gpu", MilliCPUs: 4000, Memory: 64 << 30, TimeLimit: 2 * time.Hour, NodeCount: 2, Nice: -5,
			Priority: 1 << 40, QOS: "high", Account: "lab", Requeue: workload.RequeueRestarts,
			HoldOff: time.Minute}.Shared()}
	waits := job
	waits.Submit = -time.Hour
	all := workload.Event{ID: "all", Kind: workload.Started, Time: 30 * time.Hour, Job: job,
		Placement:  []workload.NodeShare{{Node: "n1", GPUs: 2, Indexes: "0,3"}, {Node: "", GPUs: 1}},
		SharesWith: "partner", Pool: 255, Attained: time.Minute, HasAttained: true, LevelAttained: time.Second,
		HasLevel: true, LeaseUntil: 31 * time.Hour, Lost: true, HoldUntil: 32 * time.Hour, Labels: "debug,interactive", Node: "n2",
		NodeGPUs: 8, Revision: "7", Instance: "a", Hash: "h", Epoch: workload.Epoch{ID: "e", Counter: 1 << 50}}
	snapshot := workload.Event{ID: "snapshot", Kind: workload.TakenSnapshot, Time: 33 * time.Hour,
		Active: []workload.Event{all, {Kind: workload.Submitted, Job: waits},
			{Kind: workload.NodeUp, Node: "n1", NodeGPUs: 8}, {Kind: workload.NodeDrained, Node: "n2"}}}
	out := []workload.Event{{}, {ID: "least", Time: least, Attained: least, HasAttained: true, HoldUntil: least},
		{ID: "heartbeat", Kind: workload.Heartbeat, Time: 1}}
	part := func(kind workload.EventKind, f func(e *workload.Event)) {
		e := workload.Event{ID: "part", Kind: kind, Time: time.Duration(len(out)) * time.Minute}
		f(&e)
		out = append(out, e)
	}
	part(workload.Submitted, func(e *workload.Event) { e.Job.ID, e.Job.User, e.Job.GPUs = "job", "user", 1000 })
	part(workload.Submitted, func(e *workload.Event) {
		e.Job.Tenant, e.Job.Key, e.Job.Model = "tenant", "key", "model"
	})
	part(workload.Submitted, func(e *workload.Event) { e.Job.Deadline = time.Hour })
	part(workload.Submitted, func(e *workload.Event) { e.Job.Requested = workload.Request{GPUModel: "A100"}.Shared() })
	part(workload.Submitted, func(e *workload.Event) { e.Job.Requested = workload.Request{QOS: "high"}.Shared() })
	part(workload.Submitted, func(e *workload.Event) { e.Job.Requested = job.Requested })
	part(workload.Submitted, func(e *workload.Event) { e.Labels = "debug" })
	part(workload.Submitted, func(e *workload.Event) { e.Pool, e.HoldUntil = 3, time.Hour })
	part(workload.Started, func(e *workload.Event) { e.Placement = []workload.NodeShare{{Node: "n1", GPUs: 8}} })
	part(workload.Started, func(e *workload.Event) { e.Placement = []workload.NodeShare{{Node: "n1", Indexes: "1"}} })
	part(workload.Started, func(e *workload.Event) { e.SharesWith, e.LeaseUntil = "partner", time.Hour })
	part(workload.Preempted, func(e *workload.Event) { e.Lost = true })
	part(workload.Preempted, func(e *workload.Event) { e.HasAttained = true })
	part(workload.Preempted, func(e *workload.Event) { e.LevelAttained, e.HasLevel = time.Hour, true })
	part(workload.Finished, func(e *workload.Event) { e.Job.Status = workload.TimedOut })
	part(workload.ConfigApplied, func(e *workload.Event) { e.Revision, e.Instance = "1", "a" })
	part(workload.ConfigApplied, func(e *workload.Event) { e.Hash = "h" })
	part(workload.ConfigApplied, func(e *workload.Event) { e.Epoch.Counter = 1 })
	return append(out, all, snapshot)
}
