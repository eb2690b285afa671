package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// A scheduler whose round does not end does not keep others from theirs, and its round ends at its
// limit: the incumbent is kept, and the round counts as decided.
func TestHogAndVictim(t *testing.T) { synctest.Test(t, hogAndVictim) } // on a simulated clock

func hogAndVictim(t *testing.T) {
	var hogs atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		if len(in.State.Cluster.Groups) > 0 && in.Budget != 1 { // the victim
			return better(ctx, in)
		}
		hogs.Add(1)
		for {
			err := in.Turn.Run(func() error { time.Sleep(time.Millisecond); return nil })
			if err != nil {
				return round.Decision{}, err
			}
		}
	})
	h.service.Close()
	var err error
	h.service, err = controller.NewService(controller.Options{Store: h.repo, Decide: h.decide, Workers: 1,
		RoundLimit: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	<-h.service.Rebuilt()
	for _, id := range []string{"hog", "victim"} {
		h.register(id, controller.Auto)
		if id == "hog" {
			h.modify(id, func(s *controller.Scheduler) error { s.Policy.Budget = 1; return nil })
		}
		h.submit(id, 30*time.Minute)
	}
	h.submit("hog", time.Hour+time.Minute)
	for hogs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for n := range 3 {
		h.submit("victim", time.Duration(n+1)*time.Hour+time.Minute)
		h.rounds("victim", int64(n+1))
		if _, st, _ := h.service.Scheduler("hog"); st.Rounds != 0 {
			t.Errorf("round %d of the victim came after that of the other", n+1)
		}
	}
	st := h.rounds("hog", 1)
	if s, _, _ := h.service.Scheduler("hog"); st.Failures != 0 || s.Round != 1 ||
		st.LastDecision != "kept: out of time after 4s" {
		t.Errorf("round %d, %d failures: %q", s.Round, st.Failures, st.LastDecision)
	}
}

// TestRoundsBesideEachOther: as many rounds are decided at a time as there are workers.
func TestRoundsBesideEachOther(t *testing.T) {
	const workers = 3
	begun, all := make(chan bool, workers+1), make(chan bool)
	h := start(t, func(_ context.Context, in round.Input) (d round.Decision, err error) {
		err = in.Turn.Run(func() error {
			begun <- true
			<-all
			return nil
		})
		return round.Decision{Config: in.Incumbent, Ratio: 1}, err
	})
	h.service.Close()
	var err error
	h.service, err = controller.NewService(controller.Options{Store: h.repo, Decide: h.decide, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	<-h.service.Rebuilt()
	for i := range workers + 1 {
		id := fmt.Sprint("s", i)
		h.register(id, controller.Auto)
		h.submit(id, 30*time.Minute)
		h.submit(id, time.Hour+time.Minute)
	}
	for range workers {
		<-begun
	}
	for gauges(t, h.service, "autosched_queue_jobs")["waiting"] == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-begun:
		t.Errorf("more than %d rounds are under way", workers)
	default:
	}
	close(all)
	for i := range workers + 1 {
		h.rounds(fmt.Sprint("s", i), 1)
	}
}

// A round that waits for its turn ends when tuning is paused, too.
func TestPauseCancelsAWaitingRound(t *testing.T) {
	var begun atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		begun.Add(1)
		<-ctx.Done()
		return round.Decision{}, ctx.Err()
	})
	for _, id := range []string{"first", "s"} {
		h.register(id, controller.Auto)
		h.submit(id, 30*time.Minute)
		h.submit(id, time.Hour+time.Minute)
		for begun.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for gauges(t, h.service, "autosched_queue_jobs")["waiting"] == 0 { // questions that are not due are not asked
		time.Sleep(time.Millisecond)
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = true; return nil })
	if st := h.rounds("s", 1); !strings.Contains(st.LastDecision, "paused") || begun.Load() != 1 {
		t.Errorf("%q, %d rounds began", st.LastDecision, begun.Load())
	}
}

// After a round that failed none is decided for a while that grows, whatever comes in.
func TestFailingRoundsBackOff(t *testing.T) { synctest.Test(t, failingRoundsBackOff) } // on a simulated clock

func failingRoundsBackOff(t *testing.T) {
	var decided atomic.Int64
	h := start(t, func(context.Context, round.Input) (round.Decision, error) {
		decided.Add(1)
		return round.Decision{}, errors.New("no model")
	})
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	began, hour := time.Now(), 0
	failed := func(n int64) {
		t.Helper()
		for _, st, _ := h.service.Scheduler("s"); st.Rounds < n; _, st, _ = h.service.Scheduler("s") {
			hour++
			h.submit("s", time.Duration(hour)*time.Hour+time.Minute)
			if time.Since(began) > patience {
				t.Fatalf("%d rounds, want %d", st.Rounds, n)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	failed(3)
	if _, st, _ := h.service.Scheduler("s"); st.Failing != 3 || st.LastError != "no model" {
		t.Errorf("%d failed in a row: %s", st.Failing, st.LastError)
	}
	// The waits are of 0.5 s and 1 s at least.
	if took := time.Since(began); took < 1500*time.Millisecond || decided.Load() > 3 {
		t.Errorf("%d rounds in %v", decided.Load(), took)
	}
}

// TestQuestionsHaveAWeightOfTheirOwn (N14): the time of questions is not the time of rounds: a scheduler that was asked
// much has its round before one that came later.
func TestQuestionsHaveAWeightOfTheirOwn(t *testing.T) {
	decided := make(chan string, 2)
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		id := "b"
		if in.Budget == 1 {
			id = "a"
		}
		decided <- id
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	})
	for _, id := range []string{"a", "b", "c"} {
		h.register(id, controller.Auto)
	}
	h.modify("a", func(s *controller.Scheduler) error { s.Policy.Budget = 1; return nil })
	h.submit("a", 30*time.Minute)
	h.submit("b", 30*time.Minute)
	waiting := func(n float64) {
		for gauges(t, h.service, "autosched_queue_jobs")["waiting"] != n {
			time.Sleep(time.Millisecond)
		}
	}
	holds := make(chan string)
	ended := make(chan error, 2)
	release := map[string]chan bool{"a": make(chan bool), "c": make(chan bool)}
	ask := func(id string) {
		_, err := h.service.WhatIf(t.Context(), id, func(_ *space.Space, now space.Config) (space.Config, error) {
			holds <- id
			<-release[id]
			return now, rollout.ErrState
		})
		ended <- err
	}
	go ask("a")
	<-holds
	go ask("c")
	waiting(1)
	time.Sleep(50 * time.Millisecond) // that the question uses
	release["a"] <- true
	if id := <-holds; id != "c" {
		t.Fatal(id)
	}
	h.submit("a", time.Hour+time.Minute)
	waiting(1)
	h.submit("b", time.Hour+time.Minute)
	waiting(2)
	release["c"] <- true
	if first, second := <-decided, <-decided; first != "a" || second != "b" {
		t.Errorf("%s before %s", first, second)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, rollout.ErrState) {
			t.Error(err)
		}
	}
}
