package controller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
)

// A triggered round is decided beside due ones, which stay as they are, and what it
// publishes names who asked for it.
func TestTriggerRound(t *testing.T) {
	h := start(t, better)
	ctx, call := context.Background(), controller.Call{Origin: audit.Origin{Actor: "op", Verb: "TriggerRound"}}
	h.register("s", controller.Auto)
	if _, err := h.service.TriggerRound(ctx, call, "s", round.SearchAuto); !errors.Is(err, rollout.ErrState) {
		t.Errorf("without events: %v", err)
	}
	h.submit("s", 30*time.Minute)
	o, err := h.service.TriggerRound(ctx, call, "s", round.SearchAuto)
	if err != nil || o.Scheduler != "s" || o.Actor != "op" || !o.Ended.IsZero() || o.Begun {
		t.Fatalf("%+v, %v", o, err)
	}
	o, err = h.service.WaitOperation(ctx, o.ID)
	if err != nil || o.Ended.IsZero() || o.Err != nil || o.Round != 1 || !strings.Contains(o.Outcome, "as revision 2") {
		t.Fatalf("ended: %+v, %v", o, err)
	}
	if s, _, _ := h.service.Scheduler("s"); s.Round != 0 || s.OfferedRevision != 2 {
		t.Errorf("round %d, revision %d", s.Round, s.OfferedRevision)
	}
	all := h.log()
	if last := all[len(all)-1]; last.Actor != "op" || last.Verb != "TriggerRound" || last.RevisionAfter != 2 {
		t.Errorf("audit: %+v", last)
	}
	h.submit("s", 61*time.Minute) // the round that is due
	h.rounds("s", 2)
	if s, _, _ := h.service.Scheduler("s"); s.Round != 1 {
		t.Errorf("the round after it has number %d", s.Round)
	}
	if r, err := h.service.Round("s", 1); err != nil || r.Input.At != 30*time.Minute || r.Input.Urgent {
		t.Errorf("record: %+v, %v", r, err)
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = true; return nil })
	if _, err := h.service.TriggerRound(ctx, call, "s", round.SearchAuto); !errors.Is(err, rollout.ErrState) {
		t.Errorf("while it is paused: %v", err)
	}
}

func TestCancelOperation(t *testing.T) {
	ctx := context.Background()
	began := make(chan struct{}, 10)
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		began <- struct{}{}
		<-ctx.Done()
		return round.Decision{}, ctx.Err()
	})
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	o, err := h.service.TriggerRound(ctx, controller.Call{}, "s", round.SearchAuto)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	if _, err := h.service.TriggerRound(ctx, controller.Call{}, "s", round.SearchAuto); !errors.Is(err,
		controller.ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if all := h.service.Operations("s"); len(all) != 1 || all[0].ID != o.ID || !all[0].Begun ||
		len(h.service.Operations("other")) != 0 {
		t.Errorf("listed: %+v", all)
	}
	soon, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	if got, err := h.service.WaitOperation(soon, o.ID); err != nil || !got.Ended.IsZero() {
		t.Errorf("waited for a moment: %+v, %v", got, err)
	}
	if got, err := h.service.CancelOperation(ctx, controller.Call{DryRun: true}, o.ID); err != nil ||
		!got.Ended.IsZero() {
		t.Errorf("a dry run: %+v, %v", got, err)
	}
	for range 2 {
		got, err := h.service.CancelOperation(ctx, controller.Call{}, o.ID)
		if err != nil || !errors.Is(got.Err, controller.ErrCanceled) || got.Ended.IsZero() {
			t.Fatalf("cancelled: %+v, %v", got, err)
		}
	}
	h.rounds("s", 1)
	next, err := h.service.TriggerRound(ctx, controller.Call{}, "s", round.SearchAuto)
	if err != nil {
		t.Fatalf("after the cancelled one: %v", err)
	}
	<-began
	if _, err := h.service.CancelOperation(ctx, controller.Call{}, next.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := h.service.Operation("none"); !errors.Is(err, controller.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if c := h.current("s"); c.Revision != 1 {
		t.Errorf("a cancelled round published revision %d", c.Revision)
	}
}

// A triggered round that waits ends, undecided, when its scheduler is deleted.
func TestTriggeredRoundOfDeletedScheduler(t *testing.T) {
	ctx := context.Background()
	began := make(chan struct{}, 10)
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		began <- struct{}{}
		<-ctx.Done()
		return round.Decision{}, ctx.Err()
	})
	h.register("s", controller.Auto)
	h.submit("s", 0)
	h.submit("s", 61*time.Minute)
	select {
	case <-began: // the round that is due
	case <-time.After(2 * time.Minute):
		t.Fatal("no round began")
	}
	o, err := h.service.TriggerRound(ctx, controller.Call{}, "s", round.SearchAuto)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.service.Delete(ctx, controller.Call{}, "s",
		func(*controller.Scheduler) error { return nil }); err != nil {
		t.Fatal(err)
	}
	soon, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	o, err = h.service.WaitOperation(soon, o.ID)
	if err != nil || !errors.Is(o.Err, rollout.ErrState) || !strings.Contains(o.Err.Error(), "is deleted") {
		t.Errorf("ended: %+v, %v", o, err)
	}
	if len(began) > 0 {
		t.Error("a round of a deleted scheduler was begun")
	}
}

// Operations are there after a restart: as they ended, or as interrupted.
func TestOperationsSurviveRestart(t *testing.T) {
	ctx, call := context.Background(), controller.Call{Origin: audit.Origin{Actor: "op", Verb: "TriggerRound"}}
	began := make(chan struct{}, 10)
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		began <- struct{}{}
		<-ctx.Done()
		return round.Decision{}, ctx.Err()
	})
	h.register("s", controller.Recommend)
	h.submit("s", 30*time.Minute)
	var ids []string
	for range 2 {
		o, err := h.service.TriggerRound(ctx, call, "s", round.SearchAuto)
		for errors.Is(err, controller.ErrBusy) { // the cancelled one has yet to note it
			o, err = h.service.TriggerRound(ctx, call, "s", round.SearchAuto)
		}
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, o.ID); len(ids) == 1 {
			<-began
			if _, err := h.service.CancelOperation(ctx, call, o.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-began
	var noted []string
	for _, r := range h.log() {
		for _, f := range r.Fields {
			if id, ok := strings.CutPrefix(f.Name, "operations/"); ok {
				noted = append(noted, r.Actor+" "+id+" "+f.After)
			}
		}
	}
	want := []string{"op " + ids[0] + ` "REQUESTED"`, "op " + ids[0] + ` "CANCELED"`, "op " + ids[1] + ` "REQUESTED"`}
	if !slices.Equal(noted, want) {
		t.Errorf("audit log: %q, want %q", noted, want)
	}
	for range 2 {
		h.close()
		h.open()
		for i, want := range []error{controller.ErrCanceled, controller.ErrInterrupted} {
			o, err := h.service.WaitOperation(ctx, ids[i])
			if err != nil || !errors.Is(o.Err, want) || o.Scheduler != "s" || o.Actor != "op" || o.Ended.IsZero() {
				t.Errorf("operation %d after a restart: %+v, %v", i, o, err)
			}
		}
	}
}
