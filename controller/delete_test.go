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

// reopen restarts the service by a clock.
func (h *harness) reopen(now func() time.Time) {
	h.t.Helper()
	h.service.Close()
	var err error
	h.service, err = controller.NewService(controller.Options{Store: h.repo, Decide: h.decide, Workers: 1, Now: now})
	if err != nil {
		h.t.Fatal(err)
	}
	run(h.service, h.hooks())
	<-h.service.Rebuilt()
}

// A deleted scheduler does nothing, and does it again once it is undeleted, across restarts.
func TestDeleteAndUndelete(t *testing.T) {
	begun := make(chan bool, 4)
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		begun <- true
		<-ctx.Done()
		return better(context.WithoutCancel(ctx), in)
	})
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	h.submit("s", time.Hour+time.Minute)
	<-begun
	w, err := h.service.Watch("s", "")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	any := func(*controller.Scheduler) error { return nil }
	ctx := context.Background()
	dry, err := h.service.Delete(ctx, controller.Call{DryRun: true}, "s", any)
	if now, _, again := h.service.Scheduler("s"); err != nil || again != nil || dry.Deleted.IsZero() ||
		!now.Deleted.IsZero() || w.Err() != nil {
		t.Errorf("a dry run: %v, %v, deleted %v, watch %v", dry.Deleted, err, now.Deleted, w.Err())
	}
	got, err := h.service.Delete(ctx, controller.Call{}, "s", any)
	if err != nil || got.Expires.Sub(got.Deleted) != controller.DeletedFor {
		t.Fatalf("%v, %v", got.Expires, err)
	}
	if again, err := h.service.Delete(ctx, controller.Call{}, "s", any); err != nil ||
		!again.Expires.Equal(got.Expires) {
		t.Errorf("deleted again: %v, %v", again.Expires, err)
	}
	<-w.Changed()
	st := h.rounds("s", 1) // under way when it was deleted
	if !strings.Contains(st.LastDecision, "deleted") || !errors.Is(w.Err(), controller.ErrDeleted) {
		t.Errorf("%q, %v", st.LastDecision, w.Err())
	}
	for range 2 {
		for name, call := range map[string]func() error{
			"current": func() error { _, err := h.service.Current("s", ""); return err },
			"watch":   func() error { _, err := h.service.Watch("s", ""); return err },
			"ingest": func() error {
				_, err := h.service.Ingest(ctx, controller.Call{}, "s", []workload.Event{submission("x", 3*time.Hour)})
				return err
			},
			"acknowledge": func() error {
				_, _, err := h.service.Acknowledge(ctx, controller.Call{}, "s", 1,
					rollout.Ack{State: rollout.AckApplied})
				return err
			},
			"modify": func() error {
				_, err := h.service.Modify(ctx, controller.Call{}, "s", func(s *controller.Scheduler) error {
					s.DisplayName = "x"
					return nil
				})
				return err
			},
		} {
			if err := call(); !errors.Is(err, controller.ErrDeleted) {
				t.Errorf("%s: %v", name, err)
			}
		}
		h.reopen(nil)
	}
	if len(begun) > 0 {
		t.Error("a round of a deleted scheduler began")
	}
	if _, err := h.service.Undelete(ctx, controller.Call{}, "s",
		func(*controller.Scheduler) error { return nil }); err != nil {
		t.Fatal(err)
	}
	<-begun // the round that was dropped
	h.submit("s", time.Hour+2*time.Minute)
	if h.current("s").Revision != 1 {
		t.Error("it has another configuration")
	}
}

// Once it expired, a deleted scheduler is purged with its events: another of the same id begins
// anew. Ids of requests expire after a day.
func TestPurge(t *testing.T) {
	var clock atomic.Int64
	now := func() time.Time { return time.Unix(1_800_000_000, clock.Load()) }
	h := start(t, keep)
	h.reopen(now)
	ctx := context.Background()
	h.register("s", controller.Auto)
	h.register("other", controller.Auto)
	for _, id := range []string{"s", "other"} {
		h.submit(id, 30*time.Minute)
		h.submit(id, time.Hour+time.Minute)
		h.rounds(id, 1)
	}
	deleted, _, err := h.service.Scheduler("s")
	if err != nil {
		t.Fatal(err)
	}
	uid, kept := deleted.UID, 0
	if err := h.repo.Rounds(uid, 0, func(int64, []byte, error) bool { kept++; return true }); err != nil || kept == 0 {
		t.Fatalf("%d rounds are kept, %v", kept, err)
	}
	reg := controller.Registration{ID: "r", Type: "test", Params: serviceParams, Objective: "avg_jct",
		Cluster: workload.Uniform(4, 8), Policy: controller.DefaultPolicy(), Mode: controller.Auto}
	register := func(digest string) error {
		_, err := h.service.Once(ctx, controller.Request{ID: "request", Digest: digest, Scheduler: "r"},
			func() (string, error) {
				_, err := h.service.Register(ctx, controller.Call{Request: "request"}, reg)
				return "", err
			})
		return err
	}
	if err := register("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.service.Delete(ctx, controller.Call{}, "s",
		func(*controller.Scheduler) error { return nil }); err != nil {
		t.Fatal(err)
	}
	step := func(d time.Duration) {
		t.Helper()
		clock.Add(int64(d))
		if err := h.service.Purge(ctx); err != nil {
			t.Fatal(err)
		}
	}
	step(23 * time.Hour)
	if err := register("b"); !errors.Is(err, controller.ErrRequestReuse) {
		t.Errorf("a request id within a day: %v", err)
	}
	step(time.Hour)
	if err := register("b"); !errors.Is(err, controller.ErrExists) {
		t.Errorf("a request id after a day: %v", err)
	}
	step(controller.DeletedFor - 25*time.Hour)
	if _, _, err := h.service.Scheduler("s"); err != nil || len(h.purged) > 0 {
		t.Errorf("before it expires: %v, purged %v", err, h.purged)
	}
	step(time.Hour)
	if _, _, err := h.service.Scheduler("s"); !errors.Is(err, controller.ErrNotFound) || len(h.purged) != 1 {
		t.Errorf("after it expired: %v, purged %v", err, h.purged)
	}
	if last, err := h.service.AuditLog(0, "", 1); err != nil || last[0].Verb != "Purge" ||
		last[0].Resource != "schedulers/s" {
		t.Errorf("the audit log ends with %+v, %v", last, err)
	}
	err = h.repo.Rounds(uid, 0, func(sequence int64, _ []byte, _ error) bool {
		t.Errorf("round %d is still there", sequence)
		return false
	})
	if err != nil {
		t.Error(err)
	}
	for range 2 {
		h.reopen(now)
		if ids := h.service.Schedulers("", 10); len(ids) != 2 || ids[0] != "other" {
			t.Errorf("after a restart there are %v", ids)
		}
	}
	h.register("s", controller.Auto)
	h.reopen(now)
	if s, st, err := h.service.Scheduler("s"); err != nil || st.Events != 0 || s.LastRevision != 1 {
		t.Errorf("a scheduler of the same id has %d events and revision %d, %v", st.Events, s.LastRevision, err)
	}
	if _, st, err := h.service.Scheduler("other"); err != nil || st.Events != 2 {
		t.Errorf("another scheduler has %d events, %v", st.Events, err)
	}
}

// A quarantined scheduler is deleted without its records being written, so that a version or a backup that
// accepts them undeletes the scheduler; and it is purged, after which its id is free.
func TestDeleteQuarantined(t *testing.T) {
	for name, alter := range map[string]func(*controller.Saved){
		"all": func(s *controller.Saved) {
			*s = controller.Saved{Scheduler: controller.Scheduler{Registration: controller.Registration{ID: "s"},
				Deleted: s.Scheduler.Deleted, Expires: s.Scheduler.Expires}, Fault: errors.New("its CRC32C is wrong")}
		},
		"revision on offer": func(s *controller.Saved) { s.Configurations[1] = lose(s.Configurations[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			var expired atomic.Bool
			h := start(t, adopt(func(round.Input) int { return 2 }))
			h.now = func() time.Time {
				if expired.Load() {
					return origin.Add(controller.DeletedFor)
				}
				return origin
			}
			h.register("s", controller.Auto)
			h.submit("s", time.Minute)
			h.submit("s", time.Hour+1)
			h.rounds("s", 1)
			before, _, err := h.service.Scheduler("s")
			if err != nil {
				t.Fatal(err)
			}
			reopen := func(damaged bool) {
				h.wrap = func(s controller.Store) controller.Store {
					return &storetest.Faulty{Store: s, Alter: func(saved []controller.Saved) {
						for i := range saved {
							if damaged {
								alter(&saved[i])
							}
						}
					}}
				}
				h.close()
				h.open()
			}
			accept := func(*controller.Scheduler) error { return nil }
			reopen(true)
			if got, err := h.service.Delete(ctx, controller.Call{}, "s", accept); err != nil ||
				!got.Deleted.Equal(origin) {
				t.Fatalf("%v, %v", got.Deleted, err)
			}
			reopen(true)
			if _, err := h.service.Current("s", ""); !errors.Is(err, controller.ErrDeleted) &&
				!errors.Is(err, controller.ErrQuarantined) {
				t.Errorf("current: %v", err)
			}
			reopen(false)
			if _, err := h.service.Undelete(ctx, controller.Call{}, "s",
				func(*controller.Scheduler) error { return nil }); err != nil {
				t.Fatal(err)
			}
			reopen(false)
			after, _, err := h.service.Scheduler("s")
			if err != nil || !after.Deleted.IsZero() || !after.Records.Equal(&before.Records) ||
				h.current("s").Revision != 2 {
				t.Errorf("%+v, %v, was %+v", after, err, before)
			}
			reopen(true)
			if _, err := h.service.Delete(ctx, controller.Call{}, "s", accept); err != nil {
				t.Fatal(err)
			}
			expired.Store(true)
			if err := h.service.Purge(ctx); err != nil {
				t.Fatal(err)
			}
			reopen(false)
			if _, _, err := h.service.Scheduler("s"); !errors.Is(err, controller.ErrNotFound) {
				t.Errorf("purged: %v", err)
			}
			h.register("s", controller.Auto)
		})
	}
}
