package controller_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// narrowed has at most some queues.
func narrowed(most float64) func(*controller.Scheduler) error {
	return func(s *controller.Scheduler) error {
		s.Params = append([]space.Param(nil), s.Params...)
		s.Params[0].Max = most
		return nil
	}
}

// Another space, cluster or objective is a revision that rounds and configurations name, also
// after a restart; an offer outside the space is replaced, and is applied before the next
// round is decided.
func TestRevisionsOfASpace(t *testing.T) {
	var spaces []float64
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		p, _ := in.Space.Param("queues")
		spaces = append(spaces, p.Max, float64(in.State.Cluster.Nodes()), float64(in.Incumbent.Get("queues").Int()))
		return better(ctx, in)
	})
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	h.submit("s", 61*time.Minute)
	h.rounds("s", 1)
	h.ack("s", 2, rollout.AckApplied) // 4 queues
	got := h.modify("s", narrowed(3))
	if got.Revision != 2 || got.Generation != 2 {
		t.Fatalf("scheduler revision %d, generation %d", got.Revision, got.Generation)
	}
	c := h.current("s")
	if c.Revision != 3 || queues(c) != 3 || c.Origin != rollout.FromSpace || c.Space != 2 ||
		!strings.Contains(c.Reason, "queues 4 becomes 3") {
		t.Fatalf("on offer: %+v", c)
	}
	h.submit("s", 121*time.Minute)
	if _, st, _ := h.service.Scheduler("s"); st.Rounds != 1 || !strings.Contains(st.Watching, "outside") {
		t.Errorf("a round while values outside the space run: %+v", st)
	}
	if _, err := h.service.Rollback(context.Background(), controller.Call{}, "s", rollout.Rollback{To: 2}); err == nil {
		t.Error("rolled back to values outside the space")
	}
	h.modify("s", func(s *controller.Scheduler) error {
		s.Cluster = workload.Uniform(6, 8)
		return nil
	})
	if same := h.modify("s", narrowed(3)); same.Revision != 3 || same.Generation != 3 {
		t.Errorf("the same space: scheduler revision %d, generation %d", same.Revision, same.Generation)
	}
	for range 2 { // over a restart
		all, err := h.service.Revisions("s", 0, 10)
		if err != nil || len(all) != 3 || all[0].Cluster.Nodes() != 6 || all[1].Params[0].Max != 3 ||
			all[2].Params[0].Max != 9 || all[2].Number != 1 || all[2].Created.IsZero() {
			t.Fatalf("revisions %+v, %v", all, err)
		}
		if below, err := h.service.Revisions("s", 3, 1); err != nil || len(below) != 1 || below[0].Number != 2 {
			t.Errorf("revisions below 3: %+v, %v", below, err)
		}
		if c, err := h.service.Configuration("s", 2); err != nil || queues(c) != 4 || c.Space != 0 {
			t.Errorf("an older revision: %+v, %v", c, err)
		}
		h.close()
		h.open()
	}
	h.ack("s", 3, rollout.AckApplied)
	h.submit("s", 181*time.Minute)
	h.rounds("s", 1)
	if want := []float64{9, 4, 3, 3, 6, 3}; len(spaces) != len(want) {
		t.Errorf("rounds on %v, want %v", spaces, want)
	} else {
		for i := range want {
			if spaces[i] != want[i] {
				t.Errorf("rounds on %v, want %v", spaces, want)
				break
			}
		}
	}
	if r, err := h.service.Round("s", 2); err != nil || r.Input.SchedulerRevision != 3 {
		t.Errorf("round: %+v, %v", r, err)
	}
}

// A round under way for another space counts for nothing, and stored rounds are decided again in
// the space that they were decided in.
func TestRoundsNameTheirSpace(t *testing.T) {
	ctx := context.Background()
	c := simulate(t, controller.Auto, round.DecideOnline)
	c.until(3*time.Hour, nil)
	if _, err := c.service.Modify(ctx, controller.Call{}, simulatedID, func(s *controller.Scheduler) error {
		s.Params = append([]space.Param(nil), s.Params...)
		for i := range s.Params {
			if p := &s.Params[i]; p.ID == "queues" {
				p.Max = 4
			}
		}
		s.Cluster = workload.Uniform(s.Cluster.Nodes()+1, 8)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	c.until(5*time.Hour, nil)
	c.close()
	log, saved, all := stored(t, c.dir)
	revisions := map[int64]int{}
	for _, r := range all {
		revisions[max(1, r.Input.SchedulerRevision)]++
		got, err := controller.RepeatRound(ctx, log, saved, r, round.DecideOnline, 1)
		if err != nil || got.Difference != "" {
			t.Errorf("round %d of scheduler revision %d: %+v, %v", r.Sequence, r.Input.SchedulerRevision, got, err)
		}
	}
	if revisions[1] == 0 || revisions[2] == 0 {
		t.Errorf("rounds by scheduler revision: %v", revisions)
	}
}
