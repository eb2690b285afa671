package simulator

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// hourly defers jobs of tenant x to the next full hour, at most by the limit.
type hourly int

func (hourly) Until(j *workload.Job, _ float64, limit time.Duration) time.Duration {
	if j.Tenant != "x" {
		return j.Submit
	}
	return min(nextTick(j.Submit, time.Hour), j.Submit+limit)
}

func (hourly) Digest() string { return "hourly" }

// line starts jobs in the order in which it gets to know them.
type line struct {
	waiting []ID
	s       *View
}

func (p *line) Reset(v *View, _ *Plan) { p.s, p.waiting = v, nil }
func (p *line) Finish(ID)              {}
func (p *line) Admit(j ID, _ Seen) {
	if !p.s.JobRunning(j) {
		p.waiting = append(p.waiting, j)
	}
}

func (p *line) Plan(plan *Plan) {
	for len(p.waiting) > 0 && plan.Start(p.waiting[0]) {
		p.waiting = p.waiting[1:]
	}
}

// TestDefer: a deferred job is not known to the policy until its hour, does not block later ones,
// and its delay counts. The observed state suffices to continue.
func TestDefer(t *testing.T) {
	const m = time.Minute
	var jobs []workload.Job
	for i, x := range []struct {
		submit time.Duration
		tenant string
	}{{0, "y"}, {10 * m, "x"}, {20 * m, "y"}, {30 * m, "x"}, {61 * m, "x"}} {
		jobs = append(jobs, workload.Job{ID: string(rune('a' + i)), Tenant: x.tenant, Submit: x.submit,
			Duration: 15 * m, GPUs: 1000, Status: workload.Completed})
	}
	w, err := workload.New("defer", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	run := func(p Policy, o Options) (ends []time.Duration, s *Sim) {
		s = new(Sim)
		if err := s.Start(workload.Uniform(1, 1), w, p, o); err != nil {
			t.Fatal(err)
		}
		if err := s.RunUntil(context.Background(), 40*m); err != nil {
			t.Fatal(err)
		}
		s.Reconfigure(p)
		if err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, o := range s.Outcomes(nil) {
			if ends = append(ends, o.End); o.Wait != o.End-o.Submit-15*m {
				t.Errorf("job %d waits %v and ends at %v", o.ID, o.Wait, o.End)
			}
		}
		return ends, s
	}
	o := Options{Deferral: hourly(0)}
	ends, s := run(&Deferrer{&line{}, 1, 45 * m}, o)
	if want := []time.Duration{15 * m, 70 * m, 35 * m, 85 * m, 121 * m}; !slices.Equal(ends, want) {
		t.Errorf("ends %v, want %v", ends, want)
	}
	if d, want := s.Deferred(), (Deferred{3, 2400, 2700}); *d != want {
		t.Errorf("%+v, want %+v", *d, want)
	}
	plain, s := run(&line{}, o)
	if want := []time.Duration{15 * m, 30 * m, 45 * m, 60 * m, 76 * m}; !slices.Equal(plain, want) ||
		s.Deferred() != nil {
		t.Errorf("without a Deferrer: ends %v, want %v", plain, want)
	}
	none, _ := run(&Deferrer{&line{}, 1, 45 * m}, Options{})
	if !slices.Equal(none, plain) {
		t.Errorf("without a Deferral: ends %v, want %v", none, plain)
	}
	state := &workload.State{At: 40 * m, Cluster: workload.Uniform(1, 1), Jobs: []workload.ActiveJob{
		{Job: jobs[1], Since: 10 * m}, {Job: jobs[3], Since: 30 * m}}}
	var again Sim
	if err := again.Resume(state, []time.Duration{15 * m, 15 * m}, nil, &Deferrer{&line{}, 1, 45 * m}, o); err != nil {
		t.Fatal(err)
	}
	if err := again.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{70 * m, 85 * m} {
		if got := again.outcome(ID(i)).End; got != want {
			t.Errorf("resumed: job %d ends at %v, want %v", i, got, want)
		}
	}
}
