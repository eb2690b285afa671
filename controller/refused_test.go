package controller_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// refused is the longest answer of a simulated scheduler to a job of the events, "asked".
func refused(t *testing.T, scheduler string, cluster workload.Cluster,
	events func(*workload.Ledger)) controller.ModelledWait {
	t.Helper()
	s, err := schedulers.Find(scheduler)
	if err != nil {
		t.Fatal(err)
	}
	l := workload.NewLedger(cluster)
	events(l)
	out, err := controller.AskedWaits(t.Context(), scheduler, s.Space, l, "asked", 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var longest controller.ModelledWait
	for _, m := range out.Modelled {
		if m.Duration > longest.Duration {
			longest = m
		}
	}
	total := longest.Duration
	for _, d := range out.By {
		total += d
	}
	t.Logf("%s: %+v of %v", scheduler, out.Modelled, total)
	return longest
}

// TestWhyRefused: the simulated scheduler says why a job waits for which there is room: a reservation of backfill, with
// the time limit that would not reach it; a limit; a cohort without quota; an advance reservation; the depth of a
// cycle; and no reason where the scheduler starts it, at once or at its next cycle.
func TestWhyRefused(t *testing.T) {
	two := workload.Uniform(2, 8)
	submit := func(l *workload.Ledger, id string, minute, gpus int, r workload.Request, tenant string) workload.Job {
		j := workload.Job{ID: id, GPUs: workload.GPUs(gpus), Requested: r.Shared(), Tenant: tenant, User: "u"}
		l.Apply(workload.Event{ID: id + "/s", Kind: workload.Submitted, Time: time.Duration(minute) * time.Minute,
			Job: j})
		return j
	}
	start := func(l *workload.Ledger, j workload.Job, minute int, on string, gpus int) {
		l.Apply(workload.Event{ID: j.ID + "/r", Kind: workload.Started, Time: time.Duration(minute) * time.Minute,
			Job: j, Placement: []workload.NodeShare{{Node: on, GPUs: gpus}}})
	}
	hours := func(h int) workload.Request { return workload.Request{TimeLimit: time.Duration(h) * time.Hour} }

	got := refused(t, "slurm", two, func(l *workload.Ledger) {
		start(l, submit(l, "runs", 0, 8, hours(2), ""), 0, "n1", 8)
		submit(l, "head", 1, 16, hours(2), "") // is reserved both nodes in two hours
		submit(l, "asked", 2, 8, hours(10), "")
	})
	if got.Cause != simulator.Reserved || got.Detail == "" {
		t.Errorf("backfill: %+v", got)
	}

	limited := two
	limited.Site = workload.Site{QOS: []workload.QOS{{Name: "q"}}, Limits: []workload.Limit{{Own: 8,
		Scope: workload.Scope{QOS: "q", Each: workload.EachUser}, Resource: workload.LimitedGPUs}}}
	q := workload.Request{TimeLimit: time.Hour, QOS: "q"}
	got = refused(t, "slurm", limited, func(l *workload.Ledger) {
		start(l, submit(l, "runs", 0, 8, q, ""), 0, "n1", 8)
		submit(l, "asked", 2, 8, q, "")
	})
	if got.Cause != simulator.Limited || got.Detail != "each user of QOS q: 8 of 8 GPUs are in use" {
		t.Errorf("limit: %+v", got)
	}

	quotas := two
	quotas.VCs = []workload.VC{{Tenant: "a", GPUs: 4, Cohort: "all"}, {Tenant: "b", GPUs: 4, Cohort: "all"}}
	got = refused(t, "kueue", quotas, func(l *workload.Ledger) {
		start(l, submit(l, "runs", 0, 8, hours(2), "b"), 0, "n1", 8)
		submit(l, "asked", 2, 4, hours(1), "a")
	})
	if got.Cause != simulator.OverQuota || got.Detail != "of its cohort's 8 GPUs 8 are in use" {
		t.Errorf("cohort: %+v", got)
	}

	got = refused(t, "slurm", two, func(l *workload.Ledger) {
		start(l, submit(l, "runs", 0, 8, hours(2), ""), 0, "n1", 8)
		submit(l, "asked", 2, 8, hours(1), "")
	})
	if got.Cause != simulator.NoReason || got.Cycle {
		t.Errorf("the simulation starts it: %+v", got)
	}

	got = refused(t, "slurm", two, func(l *workload.Ledger) {
		start(l, submit(l, "asked", 2, 8, hours(1), ""), 3, "n1", 8)
	})
	if got.Cause != simulator.NoReason || !got.Cycle || got.Duration != time.Minute {
		t.Errorf("the next cycle starts it: %+v", got)
	}

	apart := two
	apart.Site.Reservations = []workload.Reservation{{From: controller.AskedZero.Add(time.Hour),
		To: controller.AskedZero.Add(9 * time.Hour), Nodes: []workload.ReservedNode{{Number: 1}}}}
	got = refused(t, "slurm", apart, func(l *workload.Ledger) {
		start(l, submit(l, "runs", 0, 8, hours(2), ""), 0, "n1", 8)
		submit(l, "asked", 2, 8, hours(2), "") // would run into the reservation
	})
	if got.Cause != simulator.Closed {
		t.Errorf("an advance reservation: %+v", got)
	}

	got = refused(t, "slurm", two, func(l *workload.Ledger) {
		start(l, submit(l, "runs", 0, 8, hours(2), ""), 0, "n1", 8)
		for i := range 600 { // more than a cycle of backfill tries
			submit(l, fmt.Sprint("head", i), 1, 16, hours(2), "")
		}
		submit(l, "asked", 2, 8, hours(1), "")
	})
	if got.Cause != simulator.Depth || got.Detail == "" {
		t.Errorf("the depth of a cycle: %+v", got)
	}
}
