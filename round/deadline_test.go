package round

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
)

// TestDeadlineMisses: the metric is a share of the jobs that have a deadline, as the
// simulator counts it, and its floor counts the deadlines that no configuration meets.
func TestDeadlineMisses(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	scenarios := x.futures(t, 2)
	state := *scenarios[0].State
	state.Jobs = slices.Clone(state.Jobs)
	state.Jobs[0].Deadline = state.At - time.Hour // is late already
	state.Jobs[1].Deadline = state.At + 10_000*time.Hour
	for i := range scenarios {
		scenarios[i].State = &state
	}
	config := x.scheduler.Space.Default()
	measure := func() (values, floors []float64) {
		t.Helper()
		sc, err := NewScorer(&Problem{Scheduler: x.scheduler, Cluster: state.Cluster,
			Goal: Minimise("deadline_misses")}, scenarios)
		if err != nil {
			t.Fatal(err)
		}
		m, err := sc.Measure(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		return m.Values, m.Floors
	}
	check := func(what string, value, floor float64) {
		t.Helper()
		values, floors := measure()
		for i := range scenarios {
			if values[i] != value || floors[i] != floor {
				t.Errorf("%s, future %d: %g missed, %g at least, want %g and %g",
					what, i, values[i], floors[i], value, floor)
			}
		}
	}
	check("one of two late", 1./2, 1./2)
	last := len(state.Jobs) - 1 // waits, and has no time to
	if state.Jobs[last].Running {
		t.Fatal("the latest job runs")
	}
	state.Jobs[last].Deadline = state.At + max(scenarios[0].Left[last], scenarios[1].Left[last]) + 1
	check("two of three", 2./3, 1./3)
	for i := range state.Jobs {
		state.Jobs[i].Deadline = 0
	}
	check("no deadlines", 0, 0)
}

// TestRoundWithoutDeadlines: NoDeadline is set if the goal or the front names deadlines
// and no job has one.
func TestRoundWithoutDeadlines(t *testing.T) {
	testshared.Full(t)
	x := observe(t, 14*time.Hour, simulator.Options{})
	due := x.futures(t, 2)
	state := *due[0].State
	state.Jobs = slices.Clone(state.Jobs)
	state.Jobs[0].Deadline = state.At + time.Hour
	due[1].State = &state
	for _, tt := range []struct {
		objective string
		front     []string
		deadlines bool
		want      bool
	}{
		{"deadline_misses", nil, false, true},
		{"deadline_misses", nil, true, false},
		{"0.5*avg_jct+0.5*deadline_misses", nil, false, true},
		{"avg_jct then deadline_misses", nil, false, true},
		{"avg_jct subject to deadline_misses<=5%", nil, false, true},
		{"avg_jct", []string{"avg_jct", "deadline_misses"}, false, true},
		{"avg_jct", nil, false, false},
	} {
		r := tuningRound(t, x)
		r.Goal, r.Front, r.Budget, r.Search = goal(t, tt.objective), tt.front, 2, SearchPortfolio
		if tt.deadlines {
			r.Scenarios = due
		}
		got, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got.NoDeadline != tt.want {
			t.Errorf("%+v: NoDeadline is %v", tt, got.NoDeadline)
		}
	}
}
