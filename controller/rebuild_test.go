package controller_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// Configurations are served, acknowledged and rolled back before any event is read. Events wait
// until all are.
func TestServingDoesNotWaitForEvents(t *testing.T) {
	ctx := context.Background()
	var seen atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		seen.Store(int64(len(in.State.Jobs)))
		return adopt(byRound)(ctx, in)
	})
	h.register("s", controller.Auto)
	h.submit("s", time.Minute)
	h.submit("s", time.Hour+1)
	h.rounds("s", 1)
	h.service.Close()
	read, failed := make(chan struct{}), false
	s := &storetest.Faulty{Store: h.repo, OnReplay: func() error {
		<-read
		if failed {
			return nil
		}
		failed = true
		return errors.New("unreadable")
	}}
	var err error
	h.service, err = controller.NewService(controller.Options{Store: s, Decide: h.decide, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	if c := h.current("s"); c.Revision != 2 {
		t.Errorf("current: %+v", c)
	}
	h.ack("s", 2, rollout.AckApplied)
	if c, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{}); err != nil || c.Revision != 3 {
		t.Errorf("rollback: %+v, %v", c, err)
	}
	h.register("new", controller.Auto)
	h.submit("new", time.Minute) // has no events to wait for
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = h.service.Ingest(ended, controller.Call{}, "s", []workload.Event{submission("x", 2*time.Hour)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ingest before the events are read: %v", err)
	}
	select {
	case <-h.service.Rebuilt():
		t.Error("ready without the events")
	default:
	}
	if _, st, err := h.service.Scheduler("s"); err != nil || !strings.Contains(st.LastDecision, "still being read") {
		t.Errorf("status before the events are read: %+v, %v", st, err)
	}
	close(read)
	h.submit("s", 2*time.Hour+1)
	h.rounds("s", 1)
	<-h.service.Rebuilt()
	if seen.Load() != 2 {
		t.Errorf("the round saw %d jobs, want 2", seen.Load())
	}
}

// A round that cannot be stored is decided again after a while, whatever comes in, and not at once
// for ever.
func TestFailedCommitsDoNotSpin(t *testing.T) {
	var decided atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		decided.Add(1)
		return keep(ctx, in)
	})
	h.service.Close()
	var fails atomic.Bool
	f := &storetest.Faulty{Store: h.repo, OnCommit: func(controller.Change) error {
		if fails.Load() {
			return errors.New("nothing can be stored")
		}
		return nil
	}}
	var err error
	h.service, err = controller.NewService(controller.Options{Store: f, Decide: h.decide, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	h.register("s", controller.Auto)
	h.submit("s", time.Minute)
	fails.Store(true)
	h.submit("s", time.Hour+1)
	st := h.rounds("s", 1)
	for i := range 20 {
		h.submit("s", time.Hour+time.Duration(i+2))
	}
	if n := decided.Load(); st.Failures != 1 || n > 2 {
		t.Errorf("%d decisions of a round that cannot be stored, %+v", n, st)
	}
	fails.Store(false)
	for st.Failures == st.Rounds { // the next attempt
		st = h.rounds("s", st.Rounds+1)
	}
	if st.LastError != "" {
		t.Errorf("%+v", st)
	}
}
