package controller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// The futures of stored rounds and of the latest event time are the ones that the rounds were decided on.
func TestFuturesOfRounds(t *testing.T) {
	ctx := context.Background()
	var decided []string // digests of all futures of a round, one after the other
	c := simulate(t, controller.Recommend, func(ctx context.Context, in round.Input) (round.Decision, error) {
		futures, err := round.Futures(ctx, in)
		if err != nil {
			return round.Decision{}, err
		}
		text := ""
		for i := range futures {
			w, err := in.Snapshot.Workload(&futures[i])
			if err != nil {
				return round.Decision{}, err
			}
			text += w.Digest()
		}
		decided = append(decided, text)
		return round.DecideOnline(ctx, in)
	})
	digests := func(of int64) (text string) {
		t.Helper()
		for k := 0; ; k++ {
			w, f, err := c.service.Future(ctx, simulatedID, controller.Future{Round: of, Index: k})
			if errors.Is(err, controller.ErrNotFound) && k > 0 {
				return text
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.Round != of || f.Seed == nil || f.Horizon != 3*time.Hour || f.At.IsZero() || f.Active > w.Len() {
				t.Errorf("%+v", f)
			}
			text += w.Digest()
		}
	}
	c.until(3*time.Hour+30*time.Minute, nil)
	now := digests(0)
	n := len(decided)
	if _, err := c.service.TriggerRound(ctx, controller.Call{}, simulatedID, ""); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !c.service.Idle(simulatedID); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the round does not end")
		}
	}
	if len(decided) != n+1 || decided[n] != now {
		t.Error("a round that was triggered has other futures than those of the latest event time")
	}
	for i, want := range decided {
		if got := digests(int64(i + 1)); got != want {
			t.Errorf("round %d has other futures than it was decided on", i+1)
		}
	}
	seed := uint64(99)
	if w, _, err := c.service.Future(ctx, simulatedID, controller.Future{Seed: &seed}); err != nil ||
		w.Digest() == now[:len(w.Digest())] {
		t.Errorf("of another seed: %v", err)
	}
	w, err := c.service.EndedJobs(ctx, simulatedID, time.Time{}, origin.Add(2*time.Hour))
	if err != nil || w.Len() == 0 {
		t.Fatal(err)
	}
	for _, j := range w.Jobs() {
		if at := w.Clock(j.Submit); !at.Before(origin.Add(2*time.Hour)) || j.Duration != 5*time.Minute {
			t.Errorf("%+v", j)
		}
	}
	if _, err := c.service.EndedJobs(ctx, simulatedID, origin.Add(100*time.Hour), time.Time{}); !errors.Is(err,
		rollout.ErrState) {
		t.Errorf("of no job: %v", err)
	}
}

// A question about workloads needs no events, has an objective for each, and is refused where nothing can run.
func TestWhatIfOnWorkloads(t *testing.T) {
	ctx := context.Background()
	h := simulate(t, controller.Auto, round.DecideOnline)
	jobs := func(gpus, n int) func(context.Context) (*workload.Workload, error) {
		var all []workload.Job
		for i := range n {
			all = append(all, workload.Job{ID: string(rune('a' + i)), GPUs: workload.GPUs(gpus),
				Submit: time.Duration(i) * time.Minute, Duration: time.Duration(n-i) * time.Hour})
		}
		return func(context.Context) (*workload.Workload, error) { return workload.New("w", origin, all) }
	}
	unchanged := func(_ *space.Space, now space.Config) (space.Config, error) { return now, nil }
	got, err := h.service.WhatIf(ctx, simulatedID, unchanged, jobs(1, 3), jobs(1, 5))
	if err != nil || len(got.Candidate.Objective) != 2 || got.Candidate.Ratio != 1 || !got.At.IsZero() ||
		got.Futures != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := h.service.WhatIf(ctx, simulatedID, unchanged, jobs(1, 3), jobs(100_000, 2)); !errors.Is(err,
		rollout.ErrState) {
		t.Errorf("of jobs that do not fit: %v", err)
	}
	lost := func(context.Context) (*workload.Workload, error) { return nil, store.ErrCorrupt }
	if _, err := h.service.WhatIf(ctx, simulatedID, unchanged, jobs(1, 3), lost); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("of jobs that cannot be read: %v", err)
	}
}

// A question whose caller goes away has ended when its call returns: nothing that is the caller's changes then.
func TestQuestionsEndWithTheirCalls(t *testing.T) {
	h := simulate(t, controller.Auto, round.DecideOnline)
	ctx, cancel := context.WithCancel(context.Background())
	var ended atomic.Bool
	_, err := h.service.WhatIf(ctx, simulatedID, func(_ *space.Space, now space.Config) (space.Config, error) {
		cancel()
		time.Sleep(50 * time.Millisecond)
		ended.Store(true)
		return now, nil
	})
	if !ended.Load() || err == nil {
		t.Errorf("the question has ended: %v, %v", ended.Load(), err)
	}
}
