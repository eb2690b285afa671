package round_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// measured simulates one scenario under fifo.
func measured(t *testing.T, objective string, x round.Scenario) (value, floor float64) {
	t.Helper()
	s, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	sc, err := round.NewScorer(&round.Problem{Scheduler: s, Cluster: workload.Uniform(1, 8),
		Goal: round.Minimise(objective)}, []round.Scenario{x})
	if err != nil {
		t.Fatal(err)
	}
	m, err := sc.Measure(context.Background(), s.Space.Default())
	if err != nil {
		t.Fatal(err)
	}
	return m.Values[0], m.Floors[0]
}

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Three jobs of eight GPUs and an hour come together and run one after the
// other. On an equal share the first, next to 3 jobs, would take 3 hours; the
// second, next to 3 and 2, 2.5; the third, next to 3, 2 and 1, 2. It takes 3: a
// rho of 1.5. The number of active jobs depends on the configuration, so rho has no floor.
func TestFairnessObjectives(t *testing.T) {
	jobs := []workload.Job{}
	for _, id := range []string{"a", "b", "c"} {
		jobs = append(jobs, workload.Job{ID: id, Duration: time.Hour, GPUs: workload.GPUs(8)})
	}
	w, err := workload.New("three", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		objective    string
		value, floor float64
	}{
		{"ftf", 1. / 3, 0},
		{"max_rho", 1.5, 0},
		{"p95_rho", .8 + .9*(1.5-.8), 0},
		{"avg_jct", 7200, 3600},
	} {
		value, floor := measured(t, tt.objective, round.Scenario{Arrivals: w})
		if !near(value, tt.value) || !near(floor, tt.floor) {
			t.Errorf("%s: %v, floor %v, want %v, %v", tt.objective, value, floor, tt.value, tt.floor)
		}
	}
}

// At hour 4 a job that came at 0 has waited for 3 hours and run for 1 on all
// eight GPUs; it has an hour to go, and another of an hour that came with it
// still waits. The first has 2 hours of work in all and two jobs on the cluster
// throughout: 5 hours instead of 4. The second was next to 2 jobs for 5 hours and
// alone for one: 6 hours instead of 11/6.
func TestFairnessOfResumedJobs(t *testing.T) {
	state := &workload.State{At: hours(4), Cluster: workload.Uniform(1, 8)}
	state.Jobs = []workload.ActiveJob{
		{Job: workload.Job{ID: "a", GPUs: workload.GPUs(8)}, Running: true, Starts: 1, Since: hours(3),
			RunTime: hours(1), WaitTime: hours(3),
			Attained: 8 * hours(1), Held: 8, Placement: []workload.NodeGPUs{{Node: 0, GPUs: 8}}},
		{Job: workload.Job{ID: "b", GPUs: workload.GPUs(8)}, Since: 0, WaitTime: hours(4)},
	}
	x := round.Scenario{State: state, Left: []time.Duration{hours(1), hours(1)}}
	for _, tt := range []struct {
		objective    string
		value, floor float64
	}{
		{"ftf", 1, 0},
		{"max_rho", 36. / 11, 0},
	} {
		value, floor := measured(t, tt.objective, x)
		if !near(value, tt.value) || !near(floor, tt.floor) {
			t.Errorf("%s: %v, floor %v, want %v, %v", tt.objective, value, floor, tt.value, tt.floor)
		}
	}
}

func TestFormatMetric(t *testing.T) {
	for objective, want := range map[string]string{"ftf": "12.50 %", "max_rho": "0.125", "p95_rho": "0.125",
		"avg_jct": "0 s"} {
		if got := round.FormatMetric(objective, .125); got != want {
			t.Errorf("%s: %s, want %s", objective, got, want)
		}
	}
	for _, o := range round.Objectives {
		if err := round.CheckObjective(o, false); err != nil {
			t.Error(err)
		}
	}
}
