package controller_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func TestRefusedValuesAreParked(t *testing.T) {
	h := start(t, adopt(func(in round.Input) int {
		if in.Round < 4 {
			return 7
		}
		if len(in.Refused) != 1 || in.Refused[0].Get("queues").Int() != 7 {
			return 9
		}
		return 8
	}))
	h.register("s", controller.Auto)
	w, err := h.service.Watch("s", "")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h.ack("s", 1, rollout.AckApplied)
	h.submit("s", 0)
	h.submit("s", time.Hour+1)
	h.rounds("s", 1)
	<-w.Changed()
	if c := w.Current(); c.Revision != 2 {
		t.Fatalf("watcher sees revision %d", c.Revision)
	}
	if now := h.ack("s", 2, rollout.AckFailed); now != 2 {
		t.Errorf("a failure took the offer back: %d", now)
	}
	for range 2 {
		if now := h.ack("s", 2, rollout.AckRejected); now != 3 || h.current("s").Config.Get("queues").Int() != 3 {
			t.Errorf("after the refusal %d is current, want a new revision with the last good values", now)
		}
	}
	<-w.Changed()
	if c := w.Current(); c != h.current("s") {
		t.Errorf("watchers see revision %d", c.Revision)
	}
	h.submit("s", 2*time.Hour+1)
	if st := h.rounds("s", 2); !strings.Contains(st.LastDecision, "refused") {
		t.Errorf("decision %q", st.LastDecision)
	}
	// Parked for ever, also after a restart.
	h.close()
	h.open()
	h.submit("s", 3*time.Hour+1)
	if st := h.rounds("s", 1); !strings.Contains(st.LastDecision, "refused") {
		t.Errorf("decision %q", st.LastDecision)
	}
	h.submit("s", 4*time.Hour+1)
	h.rounds("s", 2)
	if c := h.current("s"); c.Revision != 4 || c.Config.Get("queues").Int() != 8 {
		t.Errorf("current is revision %d, %s", c.Revision, c.Config)
	}
	if parked, err := h.service.Parked("s"); err != nil || len(parked) != 1 || parked[0].Revision != 2 ||
		parked[0].Actor != rollout.Scheduler {
		t.Errorf("parked: %+v, %v", parked, err)
	}
	if c, err := h.service.Unpark(context.Background(), controller.Call{}, "s", 2, nil); err != nil ||
		c.State != rollout.Superseded {
		t.Errorf("unparked: %+v, %v", c, err)
	}
	if parked, _ := h.service.Parked("s"); len(parked) > 0 {
		t.Errorf("still parked: %+v", parked)
	}
}

func TestRefusalAfterAnotherInstanceApplied(t *testing.T) {
	h := start(t, adopt(byRound))
	h.register("s", controller.Auto)
	h.ack("s", 1, rollout.AckApplied)
	h.submit("s", 0)
	h.submit("s", time.Hour+1)
	h.rounds("s", 1)
	h.ack("s", 2, rollout.AckApplied)
	if now := h.ack("s", 2, rollout.AckRejected); now != 3 {
		t.Fatalf("%d is current, want a new revision", now)
	}
	one, _ := h.service.Configuration("s", 1)
	if c := h.current("s"); c.Hash != one.Hash || c.Origin != rollout.FromRestore || c.State != rollout.Published {
		t.Errorf("current is %+v", c)
	}
	// Everything refused: the defaults stay on offer, and the status says so.
	h.ack("s", 3, rollout.AckRejected)
	if _, st, err := h.service.Scheduler("s"); h.current("s").Revision != 3 ||
		st.Degraded != "the scheduler refuses revision 3" {
		t.Errorf("everything was refused, current is %d, degraded %q, %v", h.current("s").Revision, st.Degraded,
			err)
	}
	// Tuning goes on from the defaults.
	h.submit("s", 4*time.Hour+1)
	h.rounds("s", 2)
	if c := h.current("s"); c.Revision != 4 || c.Config.Get("queues").Int() != 5 {
		t.Errorf("current is revision %d, %s", c.Revision, c.Config)
	}
}

func TestPartialApplicationIsTheIncumbent(t *testing.T) {
	var seen atomic.Int64
	h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
		seen.Store(int64(in.Incumbent.Get("queues").Int()))
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	})
	h.register("s", controller.Auto)
	_, _, err := h.service.Acknowledge(context.Background(), controller.Call{}, "s",
		1, rollout.Ack{State: rollout.AckPartial, Effective: map[string]space.Value{"queues": space.Int(2)}})
	if err != nil {
		t.Fatal(err)
	}
	h.submit("s", 0)
	h.submit("s", time.Hour+1)
	h.rounds("s", 1)
	if seen.Load() != 2 {
		t.Errorf("the round compared with %d queues, the scheduler runs 2", seen.Load())
	}
}

// The incumbent is the configuration that the scheduler reports, not the offered one.
func TestIncumbentIsWhatRuns(t *testing.T) {
	var seen atomic.Int64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		seen.Store(int64(in.Incumbent.Get("queues").Int()))
		return adopt(byRound)(ctx, in)
	})
	h.register("s", controller.Auto)
	h.modify("s", func(s *controller.Scheduler) error { s.Policy.Limits = rollout.Limits{}; return nil })
	round := func(n int64, revision int64, queues int64) {
		t.Helper()
		h.submit("s", time.Duration(n)*time.Hour+1)
		h.rounds("s", n)
		c := h.current("s")
		if seen.Load() != queues || c.Revision != n+1 || c.Evidence.Incumbent != revision {
			t.Errorf("round %d: compared with %d queues, published %+v with %+v; want %d queues of revision %d",
				n, seen.Load(), c, c.Evidence, queues, revision)
		}
	}
	applied := func(id string, at time.Duration, revision string) {
		t.Helper()
		r, err := h.service.Ingest(context.Background(), controller.Call{}, "s",
			[]workload.Event{{ID: id, Kind: workload.ConfigApplied, Time: time.Duration(origin.UnixNano()) + at,
				Revision: revision}})
		if err != nil || r.Accepted != 1 {
			t.Fatal(r, err)
		}
	}
	h.submit("s", 0)
	h.ack("s", 1, rollout.AckApplied)
	round(1, 1, 3) // publishes 2: 2 queues
	h.ack("s", 2, rollout.AckFailed)
	h.submit("s", 2*time.Hour+1)
	st := h.rounds("s", 2) // three queues as revision 3 are what runs, and not what is offered
	if c := h.current("s"); seen.Load() != 3 || c.Revision != 3 || c.Evidence.Incumbent != 1 {
		t.Errorf("%+v, %s", c, st.LastDecision)
	}
	_, _, err := h.service.Acknowledge(context.Background(), controller.Call{}, "s",
		3, rollout.Ack{State: rollout.AckPartial, Effective: map[string]space.Value{"queues": space.Int(8)}})
	if err != nil {
		t.Fatal(err)
	}
	applied("c3", 2*time.Hour+2, "3") // says nothing new
	round(3, 3, 8)
	applied("c4", 3*time.Hour+2, "4")
	if c := h.current("s"); c.State != rollout.RolledOut || c.Ack.State != rollout.AckApplied ||
		!c.Ack.Applied.Equal(origin.Add(3*time.Hour+2)) {
		t.Errorf("after its event %+v, %+v", c, c.Ack)
	}
	round(4, 4, 4)
	applied("c99", 4*time.Hour+2, "99") // there is none
	round(5, 4, 4)
	applied("c6", 5*time.Hour+2, "6")
	applied("c5", 5*time.Hour+1, "5") // late
	round(6, 6, 6)
	applied("c7", 6*time.Hour+2, "7")
	applied("c1", 6*time.Hour+3, "1") // it went back by itself
	if _, st, err := h.service.Scheduler("s"); err != nil ||
		st.Degraded != "the scheduler went back by itself from revision 7 to revision 1" {
		t.Errorf("degraded: %q, %v", st.Degraded, err)
	}
	round(7, 1, 3)
	// There is nothing to compare with while values outside the space are in force.
	_, _, err = h.service.Acknowledge(context.Background(), controller.Call{}, "s",
		8, rollout.Ack{State: rollout.AckPartial, Effective: map[string]space.Value{"queues": space.Int(80)}})
	if err != nil {
		t.Fatal(err)
	}
	h.submit("s", 8*time.Hour+1)
	if _, st, err := h.service.Scheduler("s"); err != nil || st.Rounds != 7 ||
		!strings.Contains(st.Degraded, "outside the registered space") ||
		!strings.Contains(st.Watching, "outside the registered space") {
		t.Errorf("%d rounds, %q, degraded %q, %v", st.Rounds, st.Watching, st.Degraded, err)
	}
	h.ack("s", 8, rollout.AckApplied)
	h.submit("s", 8*time.Hour+2)
	h.rounds("s", 8)
	if c := h.current("s"); c.Evidence.Incumbent != 8 {
		t.Errorf("compared with revision %d", c.Evidence.Incumbent)
	}
}

func TestRepeatedAcknowledgementChangesNothing(t *testing.T) {
	h := start(t, adopt(byRound))
	h.register("s", controller.Auto)
	for _, state := range []rollout.AckState{rollout.AckFailed, rollout.AckApplied, rollout.AckRejected} {
		h.ack("s", 1, state)
		c, _ := h.service.Configuration("s", 1)
		before, _, _ := h.service.Scheduler("s")
		time.Sleep(time.Millisecond)
		h.ack("s", 1, state)
		after, _, _ := h.service.Scheduler("s")
		if again, _ := h.service.Configuration("s", 1); again != c || !after.Updated.Equal(before.Updated) ||
			after.OfferedRevision != before.OfferedRevision ||
			after.AcknowledgedRevision != before.AcknowledgedRevision {
			t.Errorf("%s again: %+v became %+v", state, before, after)
		}
	}
}
