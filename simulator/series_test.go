package simulator

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// stops preempts job 0 once, at an instant, for the time being.
type stops struct {
	inOrder
	at   time.Duration
	once bool
}

func (p *stops) Reset(v *View, plan *Plan) {
	p.inOrder.Reset(v, plan)
	p.once = false
	plan.WakeAt(p.at)
}

func (p *stops) Plan(plan *Plan) {
	if p.s.Now() == p.at && !p.once && p.s.JobRunning(0) {
		p.once = true
		plan.Preempt(0)
	}
	p.inOrder.Plan(plan)
}

// TestSeriesByHand: 4 GPUs on 2 nodes.
func TestSeriesByHand(t *testing.T) {
	w := jobsOf(t,
		tenantJob("", 30, 120, 1), // 30..150
		tenantJob("", 60, 120, 1), // beside it, 60..180
		tenantJob("", 60, 60, 4),  // waits until 180, ends at 240
	)
	var got []Sample
	s := ran(t, workload.Uniform(2, 2), w, &inOrder{},
		Options{Series: &Series{Interval: 100 * time.Second, Emit: func(x Sample) {
			got = append(got, x)
		}}})
	s.opts.Series.Flush(s)
	want := []Sample{
		{At: 30, Span: 70, Running: (30 + 40*2) / 70., Waiting: 40 / 70., WaitingBySize: BySize{0, 40 / 70., 0, 0},
			GPUs: (30 + 40*2) / 70., Queued: 160 / 70., Fragmentation: 0, Utilization: 110 / 280.},
		// 100..150 two run on a node, 150..180 one, with one GPU free beside it; then all.
		{At: 100, Span: 100, Running: 1.5, Waiting: .8, WaitingBySize: BySize{0, .8, 0, 0},
			GPUs: (100 + 30 + 80) / 100., Queued: 3.2, Fragmentation: 30 / 400., Utilization: 210 / 400.,
			Ended: Objectives{Jobs: 2, AvgJCT: 120}},
		{At: 200, Span: 40, Running: 1, GPUs: 4, Utilization: 1,
			Ended: Objectives{Jobs: 1, AvgJCT: 180, AvgQueue: 120}},
	}
	if len(got) != len(want) {
		t.Fatalf("%d samples: %+v", len(got), got)
	}
	for i, x := range want {
		x.At, x.Span = x.At*time.Second, x.Span*time.Second
		g := got[i]
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
		if g.At != x.At || g.Span != x.Span || g.Preemptions != x.Preemptions || !near(g.Running, x.Running) ||
			!near(g.Waiting, x.Waiting) || !near(g.GPUs, x.GPUs) ||
			!near(g.Queued, x.Queued) || !near(g.Fragmentation, x.Fragmentation) ||
			!near(g.Utilization, x.Utilization) || !near(g.WaitingBySize[1], x.WaitingBySize[1]) ||
			g.WaitingBySize[0]+g.WaitingBySize[2]+g.WaitingBySize[3] != 0 || g.Ended.Jobs != x.Ended.Jobs ||
			!near(g.Ended.AvgJCT, x.Ended.AvgJCT) || !near(g.Ended.AvgQueue, x.Ended.AvgQueue) {
			t.Errorf("%d: %+v, want %+v", i, g, x)
		}
	}
}

// TestSeriesAddsUp compares a series with the summary of the run.
func TestSeriesAddsUp(t *testing.T) {
	w := jobsOf(t, tenantJob("", 0, 500, 2), tenantJob("", 10, 333, 1), tenantJob("", 20, 77, 3),
		tenantJob("", 700, 10, 1))
	var gpus, waiting, fragmented, seconds float64
	ended, jct := 0, 0.0
	last := Sample{}
	series := &Series{Interval: 7 * time.Second, Emit: func(x Sample) {
		if seconds > 0 && x.At != last.At+last.Span {
			t.Errorf("a gap between %v and %v", last.At+last.Span, x.At)
		}
		d := x.Span.Seconds()
		seconds, gpus, waiting, fragmented, last = seconds+d, gpus+x.GPUs*d, waiting+x.Waiting*d,
			fragmented+x.Fragmentation*d, x
		ended, jct = ended+x.Ended.Jobs, jct+x.Ended.AvgJCT*float64(x.Ended.Jobs)
	}}
	s := ran(t, workload.Uniform(2, 2), w, &stops{at: 100 * time.Second}, Options{Series: series})
	series.Flush(s)
	sum := s.Summarize()
	held := 0.0
	for _, o := range s.Outcomes(nil) {
		held += o.Attained.Seconds()
	}
	for _, x := range []struct {
		name      string
		got, want float64
	}{{"GPU-time", gpus, held}, {"waiting", waiting / seconds, sum.AvgWaiting},
		{"fragmentation", fragmented / seconds, sum.Fragmentation}, {"preemptions", float64(last.Preemptions), 1},
		{"ended", float64(ended), float64(sum.Jobs)}, {"JCT", jct, sum.AvgJCT * float64(sum.Jobs)}} {
		if math.Abs(x.got-x.want) > 1e-9*(1+x.want) {
			t.Errorf("%s: %g, want %g", x.name, x.got, x.want)
		}
	}
	if sum.Preemptions != 1 {
		t.Errorf("%d preemptions", sum.Preemptions)
	}
}

func TestSeriesMustHaveAnInterval(t *testing.T) {
	w := jobsOf(t, tenantJob("", 0, 5, 1))
	if err := new(Sim).Start(workload.Uniform(1, 1), w, &inOrder{}, Options{Series: &Series{}}); err == nil {
		t.Error("no error")
	}
}

// TestForkHasNoSeries: a copy that is tried out must not write into the series
// of the run it was copied from.
func TestForkHasNoSeries(t *testing.T) {
	n := 0
	w := jobsOf(t, tenantJob("", 0, 500, 1), tenantJob("", 1, 500, 1))
	var s, fork Sim
	if err := s.Start(workload.Uniform(1, 1), w, &inOrder{},
		Options{Series: &Series{Interval: time.Second, Emit: func(Sample) {
			n++
		}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.RunUntil(context.Background(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	s.Fork(&fork, &inOrder{})
	if err := fork.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n != 9 { // the tenth is open until time goes on
		t.Errorf("%d samples in 10 s", n)
	}
}

// TestSeriesByTenant: the tenants' parts add up to the whole, and each has the
// means of its own jobs.
func TestSeriesByTenant(t *testing.T) {
	w := jobsOf(t,
		tenantJob("b", 0, 50, 1),  // 0..50
		tenantJob("a", 20, 50, 2), // 60..110, as there are too few before
		tenantJob("b", 30, 30, 1), // 30..60
		tenantJob("c", 250, 10, 1),
	)
	var whole []Sample
	var got []TenantSample
	series := &Series{Interval: 100 * time.Second, Emit: func(x Sample) {
		whole = append(whole, x)
	}, EmitTenant: func(x TenantSample) { got = append(got, x) }}
	s := ran(t, workload.Uniform(1, 2), w, &inOrder{}, Options{Series: series, PerTenant: true})
	series.Flush(s)
	want := []TenantSample{
		{At: 0, Span: 100, Tenant: "a", Running: .4, Waiting: .4, GPUs: .8, Queued: .8},
		{At: 0, Span: 100, Tenant: "b", Running: .8, GPUs: .8, Ended: Objectives{Jobs: 2}},
		{At: 100, Span: 100, Tenant: "a", Running: .1, GPUs: .2, Ended: Objectives{Jobs: 1}},
		{At: 200, Span: 60, Tenant: "c", Running: 1 / 6., GPUs: 1 / 6., Ended: Objectives{Jobs: 1}},
	}
	if len(got) != len(want) {
		t.Fatalf("%d samples: %+v", len(got), got)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	for i, x := range want {
		g := got[i]
		if g.At != x.At*time.Second || g.Span != x.Span*time.Second || g.Tenant != x.Tenant ||
			!near(g.Running, x.Running) || !near(g.Waiting, x.Waiting) ||
			!near(g.GPUs, x.GPUs) || !near(g.Queued, x.Queued) || g.Preemptions != 0 || g.Ended.Jobs != x.Ended.Jobs {
			t.Errorf("%d: %+v, want %+v", i, g, x)
		}
	}
	for _, x := range whole {
		for _, g := range got {
			if g.At == x.At {
				x.Running, x.Waiting, x.GPUs, x.Queued = x.Running-g.Running, x.Waiting-g.Waiting, x.GPUs-g.GPUs,
					x.Queued-g.Queued
			}
		}
		if !near(x.Running, 0) || !near(x.Waiting, 0) || !near(x.GPUs, 0) || !near(x.Queued, 0) {
			t.Errorf("at %v the tenants leave %+v", x.At, x)
		}
	}
	if err := new(Sim).Start(workload.Uniform(1, 2), w, &inOrder{}, Options{Series: series}); err == nil {
		t.Error("tenants' series without tenants: no error")
	}
}
