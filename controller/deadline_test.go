package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
)

// TestDeadlineMisses is a share of all jobs, and its floor what nothing can help.
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
		sc, err := NewScorer(x.scheduler, state.Cluster, scenarios, "deadline_misses", simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := sc.Measure(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		return m.Values, m.Floors
	}
	values, floors := measure()
	for i := range scenarios {
		if one := 1 / float64(scenarios[i].Jobs()); values[i] != one || floors[i] != one {
			t.Errorf("future %d: %g missed, %g at least, want %g", i, values[i], floors[i], one)
		}
	}
	last := len(state.Jobs) - 1 // waits, and has no time to
	if state.Jobs[last].Running {
		t.Fatal("the latest job runs")
	}
	state.Jobs[last].Deadline = state.At + max(scenarios[0].Left[last], scenarios[1].Left[last]) + 1
	values, floors = measure()
	for i := range scenarios {
		if one := 1 / float64(scenarios[i].Jobs()); values[i] != 2*one || floors[i] != one {
			t.Errorf("future %d: %g missed, %g at least, want %g and %g", i, values[i], floors[i], 2*one, one)
		}
	}
}
