package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// better adopts queues 4, then 5, and so on: one more each round.
func better(_ context.Context, in round.Input) (round.Decision, error) {
	n := in.Incumbent.Get("queues").Int()
	return round.Decision{Config: in.Incumbent.With("queues", space.Int(n+1)), Adopt: true, Reason: "more queues",
		Ratio: 1.2}, nil
}

func queues(c *rollout.Configuration) int { return c.Config.Get("queues").Int() }

func (h *harness) modify(id string, f func(*controller.Scheduler) error) controller.Scheduler {
	h.t.Helper()
	s, err := h.service.Modify(context.Background(), controller.Call{}, id, f)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func TestApproveAProposal(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Recommend)
	ctx := context.Background()
	h.submit("s", 30*time.Minute)
	h.submit("s", 61*time.Minute)
	h.rounds("s", 1)
	if c := h.current("s"); c.Revision != 1 {
		t.Fatalf("revision %d is offered before anyone approved it", c.Revision)
	}
	w, err := h.service.Watch("s", "")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for range 2 { // to say it again changes nothing
		got, err := h.service.Approve(ctx, controller.Call{}, "s", rollout.Approve{Revision: 2}, nil)
		if err != nil || got.State != rollout.Published || h.current("s").Revision != 2 {
			t.Fatalf("approved: %+v, %v", got, err)
		}
	}
	select {
	case <-w.Changed():
	default:
		t.Error("a watcher was not told")
	}
	if first, _ := h.service.Configuration("s", 1); first.State != rollout.Superseded {
		t.Errorf("revision 1 is %s", first.State)
	}
	if _, err := h.service.Approve(ctx, controller.Call{}, "s", rollout.Approve{Revision: 1}, nil); !errors.Is(err,
		rollout.ErrState) {
		t.Errorf("a superseded revision was approved: %v", err)
	}
	if _, err := h.service.Approve(ctx, controller.Call{}, "s", rollout.Approve{Revision: 9},
		nil); !errors.Is(err, controller.ErrNotFound) {
		t.Errorf("revision 9: %v", err)
	}
	h.close()
	h.open()
	if c := h.current("s"); c.Revision != 2 || c.State != rollout.Published {
		t.Errorf("after a restart: revision %d, %s", c.Revision, c.State)
	}
}

// TestPark: a parked proposal waits for no decision, rounds do not propose its values again, further proposals and a
// restart leave it as it is, and it is approved later.
func TestPark(t *testing.T) {
	queuesOf, refused := 2, 0
	h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
		refused = len(in.Refused)
		return round.Decision{Config: in.Incumbent.With("queues", space.Int(queuesOf)), Adopt: true, Ratio: 2}, nil
	})
	h.register("s", controller.Recommend)
	ctx := context.Background()
	next := func(n int64) *rollout.Configuration {
		t.Helper()
		h.submit("s", time.Duration(n)*time.Hour+time.Minute)
		h.rounds("s", n)
		all, err := h.service.Configurations("s", 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	proposed := func() int64 {
		t.Helper()
		_, st, err := h.service.Scheduler("s")
		if err != nil {
			t.Fatal(err)
		}
		return st.Proposed
	}
	h.submit("s", 30*time.Minute)
	if c := next(1); c.State != rollout.Proposed || c.Revision != 2 || proposed() != 2 {
		t.Fatalf("%+v", c)
	}
	for range 2 { // to say it again changes nothing
		c, err := h.service.Park(ctx, controller.Call{}, "s",
			rollout.ParkProposal{Revision: 2, Actor: "ann", Why: "after the release"}, nil)
		if err != nil || c.State != rollout.Parked || proposed() != 0 {
			t.Fatalf("parked: %+v, %v", c, err)
		}
	}
	if c := next(2); c.Revision != 2 || c.State != rollout.Parked || refused != 1 {
		t.Errorf("a round avoids %d configurations, and made %+v", refused, c)
	}
	queuesOf = 4
	if c := next(3); c.Revision != 3 || c.State != rollout.Proposed || proposed() != 3 {
		t.Errorf("other values: %+v", c)
	}
	h.close()
	h.open()
	parks, err := h.service.Parked("s")
	if err != nil || len(parks) != 1 || parks[0].Revision != 2 || parks[0].Actor != "ann" ||
		parks[0].Why != "after the release" || parks[0].Since.IsZero() || !parks[0].Proposal {
		t.Errorf("after a restart: %+v, %v", parks, err)
	}
	c, err := h.service.Approve(ctx, controller.Call{}, "s", rollout.Approve{Revision: 2}, nil)
	if err != nil || c.State != rollout.Published || h.current("s").Revision != 2 {
		t.Errorf("approved: %+v, %v", c, err)
	}
	if parks, err := h.service.Parked("s"); err != nil || len(parks) != 0 {
		t.Errorf("after the approval: %+v, %v", parks, err)
	}
}

// TestUnparkAnotherRevision: to unpark by another revision of the same values answers with the proposal that waits
// again, also in a dry run. A deleted scheduler refuses to, whether something would change or not.
func TestUnparkAnotherRevision(t *testing.T) {
	h := start(t, nil)
	h.register("s", controller.Recommend)
	ctx := context.Background()
	propose := func(queues int) {
		t.Helper()
		if _, err := h.service.ProposeValues(ctx, controller.Call{}, "s", "test", nil,
			func(_ *space.Space, base space.Config) (space.Config, error) {
				return base.With("queues", space.Int(queues)), nil
			}); err != nil {
			t.Fatal(err)
		}
	}
	park := func(revision int64) error {
		_, err := h.service.Park(ctx, controller.Call{}, "s", rollout.ParkProposal{Revision: revision}, nil)
		return err
	}
	propose(4)
	propose(5)
	propose(4)
	if err := park(4); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		c, err := h.service.Unpark(ctx, controller.Call{DryRun: dry}, "s", 2, nil)
		if err != nil || c.Revision != 4 || c.State != rollout.Proposed {
			t.Errorf("dry run %v: %+v, %v", dry, c, err)
		}
	}
	if err := park(4); err != nil {
		t.Fatal(err)
	}
	if _, err := h.service.Delete(ctx, controller.Call{}, "s",
		func(*controller.Scheduler) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"parked already": park(4), "not proposed": park(2),
		"no pin": h.service.Unpin(ctx, controller.Call{}, "s")} {
		if !errors.Is(err, controller.ErrDeleted) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRollbackSentAgain: a caller that did not get the answer asks again, maybe
// after the scheduler applied its offer, or the service began anew.
func TestRollbackSentAgain(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	ctx := context.Background()
	h.ack("s", 1, rollout.AckApplied)
	h.submit("s", 30*time.Minute)
	for n := int64(1); n <= 2; n++ {
		h.submit("s", time.Duration(n)*time.Hour+time.Minute)
		h.rounds("s", n)
		h.ack("s", n+1, rollout.AckApplied)
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = true; return nil })
	state := func(revision int64) rollout.RevisionState {
		t.Helper()
		c, err := h.service.Configuration("s", revision)
		if err != nil {
			t.Fatal(err)
		}
		return c.State
	}
	back := func(revision int64, park bool) {
		t.Helper()
		got, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: revision, Park: park})
		if err != nil || got.Revision != 4 || queues(got) != 4 || h.current("s") != got {
			t.Fatalf("went back to %+v, %v", got, err)
		}
	}
	back(0, false)
	back(0, false)
	h.ack("s", 4, rollout.AckApplied)
	back(0, false)
	h.close()
	h.open()
	back(0, false)
	if state(3) == rollout.Rejected {
		t.Error("revision 3 is parked, which nobody asked for")
	}
	for range 2 {
		back(0, true)
		back(2, true)
		if state(3) != rollout.Rejected || state(2) == rollout.Rejected || state(1) == rollout.Rejected {
			t.Errorf("to be parked was revision 3: they are %s, %s, %s", state(1), state(2), state(3))
		}
	}
	if further, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: 1,
		Park: true}); err != nil ||
		further.Revision != 5 || queues(further) != 3 || state(4) != rollout.Rejected {
		t.Errorf("further back: %+v, %v; revision 4 is %s", further, err, state(4))
	}
	if again, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: 1, Park: true}); err != nil ||
		again.Revision != 5 || state(1) == rollout.Rejected {
		t.Errorf("further back again: %+v, %v", again, err)
	}
}

func TestRollback(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	ctx := context.Background()
	if _, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{}); !errors.Is(err,
		rollout.ErrState) {
		t.Errorf("went back from the defaults: %v", err)
	}
	h.ack("s", 1, rollout.AckApplied)
	h.submit("s", 30*time.Minute)
	for n := int64(1); n <= 2; n++ {
		h.submit("s", time.Duration(n)*time.Hour+time.Minute)
		h.rounds("s", n)
		h.ack("s", n+1, rollout.AckApplied)
	}
	if c := h.current("s"); c.Revision != 3 || queues(c) != 5 {
		t.Fatalf("revision %d has %d queues", c.Revision, queues(c))
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = true; return nil })

	got, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{Park: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Revision != 4 || queues(got) != 4 || got.Origin != rollout.FromRestore || h.current("s") != got {
		t.Errorf("went back to %+v", got)
	}
	if bad, _ := h.service.Configuration("s", 3); bad.State != rollout.Rejected {
		t.Errorf("revision 3 is %s, not parked", bad.State)
	}
	if _, _, err := h.service.Acknowledge(ctx, controller.Call{}, "s",
		3, rollout.Ack{State: rollout.AckApplied, Instance: "late"}); err != nil || h.current("s") != got {
		t.Errorf("a parked revision was acknowledged: %v; on offer %+v", err, h.current("s"))
	}
	if again, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: 2}); err != nil ||
		again.Revision != 4 {
		t.Errorf("to the same values: %+v, %v", again, err)
	}
	if _, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: 3}); !errors.Is(err,
		rollout.ErrRefused) {
		t.Errorf("to parked values: %v", err)
	}
	if first, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: 1}); err != nil ||
		first.Revision != 5 ||
		queues(first) != 3 {
		t.Errorf("to the defaults: %+v, %v", first, err)
	}
	// Who looked at revision 3 goes back from nothing else.
	for _, b := range []rollout.Rollback{{From: 3}, {From: 4, To: 2}, {From: 6}, {From: 3, To: 1, Park: true}} {
		if c, err := h.service.Rollback(ctx, controller.Call{}, "s", b); !errors.Is(err, rollout.ErrChanged) ||
			h.current("s").Revision != 5 {
			t.Errorf("%+v while revision 5 is on offer: %+v, %v", b, c, err)
		}
	}
	for _, b := range []rollout.Rollback{{}, {From: 4}, {From: 4, To: 1}} { // sent again
		if c, err := h.service.Rollback(ctx, controller.Call{}, "s", b); err != nil || c.Revision != 5 {
			t.Errorf("%+v while revision 5 is on offer: %+v, %v", b, c, err)
		}
	}
	for _, b := range []rollout.Rollback{{From: 5}, {From: 5, Park: true}} { // further back, but where to?
		if c, err := h.service.Rollback(ctx, controller.Call{}, "s", b); !errors.Is(err, rollout.ErrState) ||
			h.current("s").Revision != 5 {
			t.Errorf("%+v while revision 5 is on offer: %+v, %v", b, c, err)
		}
	}
	// The search hears of parked values, and nothing reaches it again.
	h.ack("s", 5, rollout.AckApplied)
	h.close()
	h.decide = func(_ context.Context, in round.Input) (round.Decision, error) {
		if len(in.Refused) != 1 || !in.Refused[0].Get("queues").Equal(space.Int(5)) {
			t.Errorf("refused: %v", in.Refused)
		}
		return round.Decision{Config: in.Refused[0], Adopt: true, Ratio: 2, Reason: "again"}, nil
	}
	h.open()
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = false; return nil })
	h.submit("s", 4*time.Hour+time.Minute)
	if st := h.rounds("s", 1); !strings.Contains(st.LastDecision, "values are parked") ||
		h.current("s").Revision != 5 {
		t.Errorf("%q, revision %d", st.LastDecision, h.current("s").Revision)
	}
}

func TestPauseAndResume(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = true; return nil })
	h.submit("s", 3*time.Hour+time.Minute)
	time.Sleep(20 * time.Millisecond)
	if _, st, _ := h.service.Scheduler("s"); st.Rounds != 0 || st.Events != 2 {
		t.Fatalf("paused: %d rounds, %d events", st.Rounds, st.Events)
	}
	h.close()
	h.open() // it stays paused
	time.Sleep(20 * time.Millisecond)
	if _, st, _ := h.service.Scheduler("s"); st.Rounds != 0 {
		t.Fatalf("%d rounds after a restart", st.Rounds)
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = false; return nil })
	h.rounds("s", 1) // one for all that passed
	if c := h.current("s"); c.Revision != 2 || c.Evidence.Round != 3 {
		t.Errorf("revision %d, round %+v", c.Revision, c.Evidence)
	}
}

// A round under way ends at once when an operator pauses, or wants another objective, simulation
// or cost, and its decision is not published.
func TestRoundsUnderWayAreDropped(t *testing.T) {
	begun := make(chan string, 4)
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		begun <- fmt.Sprint(in.Goal, in.Simulator.Protect, in.Budget)
		<-ctx.Done()
		return better(context.WithoutCancel(ctx), in)
	})
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	h.submit("s", time.Hour+time.Minute)
	<-begun
	h.modify("s", func(s *controller.Scheduler) error { s.Objective = "p99_jct"; return nil })
	if o := <-begun; o != "p99_jct {0 0s} 40" { // decided again
		t.Errorf("the round was decided for %s", o)
	}
	if h.current("s").Revision != 1 {
		t.Error("what was decided for another objective is offered")
	}
	h.modify("s", func(s *controller.Scheduler) error {
		s.Simulation = controller.Simulation{MaxPreemptions: 2, Models: simulator.DefaultModelSpec()}
		return nil
	})
	if o := <-begun; o != "p99_jct {2 0s} 40" {
		t.Errorf("the round was decided for %s", o)
	}
	if h.current("s").Revision != 1 {
		t.Error("what was decided by another simulation is offered")
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Policy.Budget = 20; return nil })
	if o := <-begun; o != "p99_jct {2 0s} 20" {
		t.Errorf("the round was decided for %s", o)
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Paused = true; return nil })
	if st := h.rounds("s", 4); !strings.Contains(st.LastDecision, "paused") || h.current("s").Revision != 1 {
		t.Errorf("%q, revision %d", st.LastDecision, h.current("s").Revision)
	}
}

func TestModify(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	ctx := context.Background()
	planned, err := h.service.Modify(ctx, controller.Call{DryRun: true}, "s", func(s *controller.Scheduler) error {
		s.Mode = controller.Recommend
		return nil
	})
	if now, _, _ := h.service.Scheduler("s"); err != nil || planned.Mode != controller.Recommend ||
		now.Mode != controller.Auto {
		t.Errorf("validate only: planned %s, now %s, %v", planned.Mode, now.Mode, err)
	}
	no := errors.New("no")
	if _, err := h.service.Modify(ctx, controller.Call{}, "s", func(*controller.Scheduler) error {
		return no
	}); !errors.Is(err, no) {
		t.Error(err)
	}
	h.submit("s", 30*time.Minute)
	h.submit("s", 2*time.Hour+time.Minute)
	h.rounds("s", 1)
	h.ack("s", 2, rollout.AckApplied)
	s := h.modify("s", func(s *controller.Scheduler) error {
		s.Policy.UpdateInterval = 90 * time.Minute
		s.ID, s.OfferedRevision = "other", 7 // not for an operator to change
		return nil
	})
	if s.ID != "s" || s.OfferedRevision != 2 || s.Round != 1 {
		t.Errorf("%s serves revision %d, round %d", s.ID, s.OfferedRevision, s.Round)
	}
	h.submit("s", 2*time.Hour+59*time.Minute) // the next is due at three o'clock
	if _, st, _ := h.service.Scheduler("s"); st.Rounds != 1 {
		t.Errorf("%d rounds before the next is due", st.Rounds)
	}
	h.submit("s", 3*time.Hour+time.Minute)
	h.rounds("s", 2)
	if c := h.current("s"); c.Evidence.Round != 2 || !c.Evidence.At.Equal(origin.Add(3*time.Hour)) {
		t.Errorf("%+v", c.Evidence)
	}
}

// TestIntervalIsChangedWhileARoundWaits: its number counts the intervals that
// there were when it became due.
func TestIntervalIsChangedWhileARoundWaits(t *testing.T) {
	begun, goOn := make(chan time.Duration, 4), make(chan struct{}, 4)
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		begun <- in.State.At
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return better(ctx, in)
	})
	for _, id := range []string{"first", "s"} {
		h.register(id, controller.Auto)
		h.submit(id, 30*time.Minute)
		h.submit(id, 3*time.Hour+time.Minute)
		if id == "first" {
			<-begun // the other waits for its turn
		}
	}
	h.modify("s", func(s *controller.Scheduler) error { s.Policy.UpdateInterval = 6 * time.Hour; return nil })
	goOn <- struct{}{}
	goOn <- struct{}{}
	if at := <-begun; at != 3*time.Hour {
		t.Errorf("decided at %v", at)
	}
	h.rounds("s", 1)
	if s, _, _ := h.service.Scheduler("s"); s.Round != 0 {
		t.Errorf("round %d of six hours counts as decided after three", s.Round)
	}
}

// TestModifyKeepsTheSimulation: it is stored, and models that are the same are no
// change.
func TestModifyKeepsTheSimulation(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	set := func(s *controller.Scheduler) error {
		s.Simulation = controller.Simulation{MinRun: time.Minute, Models: simulator.DefaultModelSpec()}
		return nil
	}
	first := h.modify("s", set)
	if again := h.modify("s", set); !again.Updated.Equal(first.Updated) {
		t.Error("the same simulation counts as a change")
	}
	h.close()
	h.open()
	if s, _, err := h.service.Scheduler("s"); err != nil || s.Simulation.MinRun != time.Minute ||
		s.Simulation.Models == nil {
		t.Errorf("after a restart %+v, %v", s.Simulation, err)
	}
}
