package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/autosched/autosched/controller/history"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

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
