package round

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// line is a scheduler of one parameter: jobs run in order of submission if it is 0, the
// last first otherwise.
func line(t *testing.T) (s *schedulers.Scheduler, first, last space.Config) {
	t.Helper()
	at := numbered(t)
	return &schedulers.Scheduler{Name: "line", Space: at(0).Space(), New: func(c space.Config) simulator.Policy {
		sign := int64(1)
		if !c.Equal(c.Space().Default()) {
			sign = -1
		}
		return &lanes.Line{Key: func(_ *simulator.View, j simulator.ID) int64 { return sign * int64(j) }}
	}}, at(0), at(1)
}

// oneGPU are jobs of one GPU on a cluster of one.
type oneGPU []workload.Job

// add appends n jobs, each a second after the other from an instant on.
func (jobs *oneGPU) add(n int, tenant string, from, takes time.Duration) {
	for range n {
		from += time.Second
		*jobs = append(*jobs, workload.Job{ID: fmt.Sprint(len(*jobs)), Tenant: tenant, Submit: from, Duration: takes,
			GPUs: workload.GPUs(1)})
	}
}

func (jobs oneGPU) scenario(t *testing.T) Scenario {
	t.Helper()
	w, err := workload.New("one GPU", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return Scenario{Arrivals: w}
}

// TestGuards: a configuration that makes one of the guarded metrics worse by a tenth
// breaks it, whatever it gains.
func TestGuards(t *testing.T) {
	s, first, last := line(t)
	for _, tt := range []struct {
		name     string
		jobs     func(*oneGPU)
		settings Settings
		want     string // part of what is broken; "" for nothing
	}{
		{"a tenant of 20 jobs waits for one that came later", func(jobs *oneGPU) {
			jobs.add(20, "a", 0, time.Hour)
			jobs.add(20, "b", time.Minute, time.Hour)
		}, Settings{Guard: .1}, "tenant_p95_queue<=1.1*incumbent+1m of a"},
		{"a tenant of 19", func(jobs *oneGPU) {
			jobs.add(19, "a", 0, time.Hour)
			jobs.add(20, "b", time.Minute, time.Hour)
		}, Settings{Guard: .1}, ""},
		{"20 jobs without a tenant", func(jobs *oneGPU) {
			jobs.add(20, "", 0, time.Hour)
			jobs.add(20, "b", time.Minute, time.Hour)
		}, Settings{Guard: .1}, "of no tenant"},
		{"three times as long is allowed", func(jobs *oneGPU) {
			jobs.add(20, "a", 0, time.Hour)
			jobs.add(20, "b", time.Minute, time.Hour)
		}, Settings{Guard: 2}, ""},
		{"nothing is guarded", func(jobs *oneGPU) {
			jobs.add(20, "a", 0, time.Hour)
			jobs.add(20, "b", time.Minute, time.Hour)
		}, Settings{Guard: -1}, ""},
		{"guards are left out", func(jobs *oneGPU) {
			jobs.add(20, "a", 0, time.Hour)
			jobs.add(20, "b", time.Minute, time.Hour)
		}, Settings{Guard: .1, Ablation: Ablation{NoGuards: true}}, ""},
		{"short jobs wait for long ones", func(jobs *oneGPU) {
			jobs.add(5, "a", 0, 5*time.Minute)
			jobs.add(5, "b", time.Minute, time.Hour)
		}, Settings{Guard: .1}, "short_avg_jct<=1.1*incumbent+1m"},
		{"short jobs wait for less than a minute", func(jobs *oneGPU) {
			jobs.add(2, "a", 0, time.Second)
			jobs.add(2, "b", time.Second, 20*time.Second)
		}, Settings{Guard: .1}, ""},
		{"the first waits to the end", func(jobs *oneGPU) {
			jobs.add(2, "a", 0, 20*time.Minute)
			for n := range 12 {
				jobs.add(1, "b", time.Duration(n+1)*20*time.Minute, 20*time.Minute)
			}
		}, Settings{Guard: .1}, "p99_jct<=1.1*incumbent"},
	} {
		var jobs oneGPU
		tt.jobs(&jobs)
		r := &Round{Problem: Problem{Scheduler: s, Space: s.Space, Cluster: workload.Uniform(1, 1),
			Goal: Minimise("avg_queue"), Incumbent: first}, Settings: tt.settings}
		g, err := r.newGuards(t.Context(), []Scenario{jobs.scenario(t)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.broken(t.Context(), last); err != nil || (got == "") != (tt.want == "") ||
			!strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, error %v; want %q", tt.name, got, err, tt.want)
		}
		if got, err := g.broken(t.Context(), first); err != nil || got != "" {
			t.Errorf("%s: the incumbent breaks its own: %q, error %v", tt.name, got, err)
		}
	}
}

// TestGuardsDecide: of two better configurations the one that keeps the guards is
// adopted, and an incumbent that breaks a constraint is replaced whatever they say.
func TestGuardsDecide(t *testing.T) {
	scheduler, _, _ := line(t)
	for _, tt := range []struct {
		name   string
		change func(*scales)
		adopt  bool
		reason string
	}{
		{"guarded", func(*scales) {}, false, "above tenant_p95_queue"},
		{"not guarded", func(s *scales) { s.round.Guard = -1 }, true, ""},
		{"no choice", func(s *scales) { s.out.Incumbent.Measurement = within(150) }, true, ""},
	} {
		s := weigh(t)
		var jobs oneGPU
		jobs.add(20, "a", 0, time.Hour)
		jobs.add(20, "b", time.Minute, time.Hour)
		s.round.Scheduler, s.round.Cluster = scheduler, workload.Uniform(1, 1)
		s.round.Scenarios = []Scenario{jobs.scenario(t)}
		s.round.Ablation.NoGuards, s.round.Guard = false, .1
		tt.change(s)
		if err := s.adopt(t.Context(), &s.out); err != nil {
			t.Fatal(err)
		}
		if s.out.Adopt != tt.adopt || !strings.Contains(s.out.Reason, tt.reason) {
			t.Errorf("%s: adopted %v: %s", tt.name, s.out.Adopt, s.out.Reason)
		}
	}
}

// TestShortJobs: short_avg_jct is over the jobs that run for less than ten minutes in all, what
// they did before the round included.
func TestShortJobs(t *testing.T) {
	s, first, _ := line(t)
	measure := func(x Scenario) (float64, float64) {
		t.Helper()
		sc, err := NewScorer(&Problem{Scheduler: s, Cluster: workload.Uniform(1, 1), Goal: Minimise("short_avg_jct")},
			[]Scenario{x})
		if err != nil {
			t.Fatal(err)
		}
		m, err := sc.Measure(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		return m.Values[0], m.Floors[0]
	}
	var jobs oneGPU
	jobs.add(1, "", 0, 10*time.Minute-time.Second) // ends at 600 s, its JCT is 599 s
	jobs.add(1, "", 1*time.Second, 10*time.Minute) // to 1200 s, not short
	jobs.add(1, "", 99*time.Second, time.Minute)   // from 100 to 1260 s
	if got, floor := measure(jobs.scenario(t)); !near(got, (599+1160)/2.) || !near(floor, (599+60)/2.) {
		t.Errorf("%v with floor %v, want 879.5 with 329.5", got, floor)
	}
	if got, _ := measure(oneGPU{{ID: "long", Duration: time.Hour, GPUs: workload.GPUs(1)}}.scenario(t)); got != 0 {
		t.Errorf("no job is short: %v", got)
	}
	// Two jobs of which one minute is left: one has run for five minutes, one for ten.
	active := func(id string, running bool, ran time.Duration) workload.ActiveJob {
		a := workload.ActiveJob{Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}, Running: running, RunTime: ran,
			Attained: ran, Starts: 1, WaitTime: time.Hour - ran}
		if running {
			a.Held, a.Since = 1, time.Hour-ran
		} else {
			a.Since, a.Preemptions = time.Hour, 1
		}
		return a
	}
	state := workload.State{At: time.Hour, Cluster: workload.Uniform(1, 1), Jobs: []workload.ActiveJob{
		active("short", true, 5*time.Minute), active("long", false, 10*time.Minute)}}
	if got, _ := measure(Scenario{State: &state, Left: []time.Duration{time.Minute, time.Minute}}); !near(got, 3660) {
		t.Errorf("resumed: %v, want 3660", got)
	}
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }
