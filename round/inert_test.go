package round

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestRoundLeavesInertParametersAlone: parameters without an effect keep the incumbent's
// values in all trials; with deadlines, those that depend on deadlines are searched.
func TestRoundLeavesInertParametersAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("decides many rounds")
	}
	x := observe(t, 14*time.Hour, simulator.Options{})
	chronus, err := schedulers.Find("chronus")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		deadlines bool
		reported  bool
		inert     []string
	}{
		{"no deadlines", false, false, []string{"slo_gpus", "slo_share", "slo_factor"}},
		{"deadlines", true, false, []string{"slo_share", "slo_factor"}},
		{"run times reported", false, true, nil},
	} {
		r := tuningRound(t, x)
		r.Scheduler, r.Space, r.Budget = chronus, chronus.Space, 12
		if r.Incumbent, err = r.Space.Parse(r.Space.Default(), []string{"slo_gpus=0.75", "slo_factor=3"}); err != nil {
			t.Fatal(err)
		}
		if tt.reported {
			r.Options.Estimate = func(*workload.Job) time.Duration { return time.Hour }
		}
		if tt.deadlines {
			state := *r.Scenarios[0].State
			state.Jobs = slices.Clone(state.Jobs)
			for i := range state.Jobs {
				state.Jobs[i].Deadline = state.At + time.Duration(i)*20*time.Minute
			}
			for i := range r.Scenarios {
				r.Scenarios[i].State = &state
			}
		}
		got, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Inert, tt.inert) {
			t.Errorf("%s: inert are %v, want %v", tt.name, got.Inert, tt.inert)
		}
		if len(got.Trials) != r.Budget || !got.Incumbent.Config.Equal(r.Incumbent) {
			t.Errorf("%s: %d trials, the incumbent is %v", tt.name, len(got.Trials), got.Incumbent.Config)
		}
		varied := map[string]bool{}
		for _, trial := range got.Trials {
			if trial.Config.Space() != r.Space || r.Space.Check(trial.Config) != nil {
				t.Fatalf("%s: %v is not of the registered space", tt.name, trial.Config)
			}
			for _, id := range trial.Config.IDs() {
				varied[id] = varied[id] || !trial.Config.Get(id).Equal(r.Incumbent.Get(id))
			}
		}
		for _, p := range r.Space.Params() {
			if varied[p.ID] == slices.Contains(tt.inert, p.ID) {
				t.Errorf("%s: varied are %v", tt.name, varied)
			}
		}
	}
}

// TestSamplersThatGoOnKeepTheirSpace: the state of a sampler is in coordinates of the
// whole space, as the next round may have other inert parameters.
func TestSamplersThatGoOnKeepTheirSpace(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	chronus, err := schedulers.Find("chronus")
	if err != nil {
		t.Fatal(err)
	}
	r := tuningRound(t, x)
	r.Scheduler, r.Space, r.Incumbent, r.Budget, r.Sampler = chronus, chronus.Space, chronus.Space.Default(), 6, "bluefin"
	got, err := r.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Inert) > 0 {
		t.Errorf("%v were held", got.Inert)
	}
}
