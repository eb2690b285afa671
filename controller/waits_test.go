package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/autosched/autosched/controller/history"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// refused is the longest answer of a simulated scheduler to a job of the events, "asked".
func refused(t *testing.T, scheduler string, cluster workload.Cluster, events func(*workload.Ledger)) ModelledWait {
	t.Helper()
	s, err := schedulers.Find(scheduler)
	if err != nil {
		t.Fatal(err)
	}
	v := &snapshot{Scheduler: Scheduler{Registration: Registration{Type: scheduler}}, space: s.Space}
	l := workload.NewLedger(cluster)
	events(l)
	at := 30 * time.Minute
	h, known := l.Job("asked", at)
	if !known {
		t.Fatal("the job is not known")
	}
	waits, err := l.Waits(t.Context(), &h, at)
	if err != nil || len(waits.Open) == 0 {
		t.Fatalf("nothing is open: %+v %v", waits, err)
	}
	out := Waits{Waits: waits}
	if err := out.ask(t.Context(), round.Turn(nil), v, l, "asked"); err != nil {
		t.Fatal(err)
	}
	var longest ModelledWait
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
// the time limit that would not reach it; a limit; a cohort without quota; and no reason where the scheduler starts it.
func TestWhyRefused(t *testing.T) {
	two := workload.Uniform(2, 8)
	submit := func(l *workload.Ledger, id string, minute, gpus int, r workload.Request, tenant string) workload.Job {
		j := workload.Job{ID: id, GPUs: workload.GPUs(gpus), Requested: r.Shared(), Tenant: tenant, User: "u"}
		l.Apply(workload.Event{ID: id + "/s", Kind: workload.Submitted, Time: time.Duration(minute) * time.Minute, Job: j})
		return j
	}
	start := func(l *workload.Ledger, j workload.Job, minute int, on string, gpus int) {
		l.Apply(workload.Event{ID: j.ID + "/r", Kind: workload.Started, Time: time.Duration(minute) * time.Minute, Job: j,
			Placement: []workload.NodeShare{{Node: on, GPUs: gpus}}})
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
}

// TestSharedGPUs: jobs of parts of a GPU, and two on the same GPUs, have a part each of what is held.
func TestSharedGPUs(t *testing.T) {
	l := workload.NewLedger(workload.Uniform(1, 8))
	begin := func(id, tenant string, gpus workload.MilliGPU, with string, minute int) {
		j := workload.Job{ID: id, Tenant: tenant, GPUs: gpus}
		at := time.Duration(minute) * time.Minute
		l.Apply(workload.Event{ID: id + "/s", Kind: workload.Submitted, Time: at, Job: j})
		l.Apply(workload.Event{ID: id + "/r", Kind: workload.Started, Time: at, Job: j, SharesWith: with,
			Placement: []workload.NodeShare{{Node: "n1", GPUs: gpus.Whole()}}})
	}
	begin("host", "a", workload.GPUs(4), "", 0)
	begin("guest", "b", workload.GPUs(4), "host", 30)
	begin("half", "c", 500, "", 0)
	m := &schedulerState{}
	m.snapshot.Store(&snapshot{Scheduler: Scheduler{}})
	p := past{m, l, time.Unix(0, 0), time.Hour}
	all, err := p.tenants(t.Context(), time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]float64{"a": {3, 2}, "b": {1, 2}, "c": {.5, 1}}
	share := 0.0
	for _, x := range all {
		share += x.Share
		if w := want[x.Name]; x.Held != w[0] || float64(x.Busy) != w[1] {
			t.Errorf("%s holds %v GPU-hours, %d GPUs now, want %v", x.Name, x.Held, x.Busy, w)
		}
	}
	if share < .999 || share > 1.001 {
		t.Errorf("shares sum up to %v", share)
	}
	for _, by := range []workload.TimelineBy{workload.ByNode, workload.ByTenant} {
		b := workload.NewTimeline(by, 0, time.Hour, time.Hour)
		for _, id := range []string{"host", "guest", "half"} {
			h, _ := l.Job(id, time.Hour)
			b.Add(&h, nil)
			for _, joint := range l.Joints(&h, time.Hour) {
				b.Share(&joint, nil)
			}
		}
		for bucket := range 2 {
			sum, jobs := 0.0, int32(0)
			for _, row := range b.Build(10, 2, func(string) int { return 0 }).Rows {
				sum, jobs = sum+row.Busy[bucket], jobs+row.Running[bucket]
			}
			if sum != 4.5 || int(jobs) != 2+bucket {
				t.Errorf("%d: %v GPUs of %d jobs in part %d", by, sum, jobs, bucket)
			}
		}
	}
}

// TestGradesAreBounded: the grades of the schedulers that were not asked for longest are forgotten.
func TestGradesAreBounded(t *testing.T) {
	s, all := &Service{}, make([]*schedulerState, keptGrades+2)
	for i := range all {
		all[i] = &schedulerState{}
		s.keepGrades(all[i], graded{to: 1})
		s.keepGrades(all[0], graded{to: 1})
	}
	for i, m := range all {
		if kept := m.graded.to == 1; kept != (i == 0 || i >= 3) {
			t.Errorf("the grades of scheduler %d are kept: %t", i, kept)
		}
	}
}

// TestTenantsTakeTurns: sums of tenants wait while others are made, as long as their caller does.
func TestTenantsTakeTurns(t *testing.T) {
	s := &Service{timelines: make(chan struct{}, 1), schedulers: map[string]*schedulerState{}}
	m := &schedulerState{ready: make(chan struct{})}
	close(m.ready)
	m.history = history.New(workload.Uniform(1, 8))
	m.snapshot.Store(&snapshot{Scheduler: Scheduler{Zero: time.Unix(0, 0)}, space: new(space.Space)})
	s.schedulers["s"] = m
	s.timelines <- struct{}{}
	ctx, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	if _, err := s.Tenants(ctx, "s", time.Time{}, time.Time{}, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second one at a time: %v", err)
	}
	<-s.timelines
	if _, err := s.Tenants(t.Context(), "s", time.Time{}, time.Time{}, false); err != nil {
		t.Error(err)
	}
}
