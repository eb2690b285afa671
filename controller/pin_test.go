package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

func (h *harness) pin(n int, until time.Time, dryRun bool) (*rollout.Configuration, error) {
	return h.service.Pin(context.Background(), controller.Call{DryRun: dryRun}, "s", rollout.Pin{Reason: "test",
		Actor: "op", Until: until}, nil,
		func(_ *space.Space, base space.Config) (space.Config, error) {
			return base.With("queues", space.Int(n)), nil
		})
}

// A pinned configuration stays on offer, over a restart too, until the pin ends; rounds are decided
// meanwhile and say why they change nothing.
func TestPin(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	if c, err := h.pin(7, time.Time{}, true); err != nil || queues(c) != 7 || h.current("s").Revision != 1 {
		t.Fatalf("validate only: %+v, %v", c, err)
	}
	if _, err := h.pin(99, time.Time{}, false); !errors.Is(err, controller.ErrOutsideSpace) {
		t.Errorf("outside the space: %v", err)
	}
	if _, err := h.pin(7, origin, false); !errors.Is(err, rollout.ErrState) {
		t.Errorf("ends before it begins: %v", err)
	}
	for range 2 { // sent again it changes nothing
		c, err := h.pin(7, origin.Add(2*time.Hour+30*time.Minute), false)
		if err != nil || c.Revision != 2 || c.Origin != rollout.FromPin || c.State != rollout.Published {
			t.Fatalf("pinned: %+v, %v", c, err)
		}
	}
	h.ack("s", 2, rollout.AckApplied)
	h.close()
	h.open()
	h.submit("s", 61*time.Minute)
	if st := h.rounds("s", 1); !strings.Contains(st.LastDecision, "revision 2 is pinned: test") ||
		!strings.Contains(st.Hold, "by op") || h.current("s").Revision != 2 {
		t.Errorf("a round while it is pinned: %+v", st)
	}
	h.submit("s", 121*time.Minute)
	h.rounds("s", 2)
	h.submit("s", 181*time.Minute) // the pin is over
	h.rounds("s", 3)
	if c := h.current("s"); c.Revision != 3 || queues(c) != 8 {
		t.Errorf("after the pin: %+v", c)
	}
	if _, err := h.pin(5, time.Time{}, false); err != nil {
		t.Fatal(err)
	}
	if err := h.service.Unpin(context.Background(), controller.Call{}, "s"); err != nil {
		t.Fatal(err)
	}
	if s, st, _ := h.service.Scheduler("s"); s.Pin != nil || st.Hold != "" || queues(h.current("s")) != 5 {
		t.Errorf("unpinned: %+v, %+v", s.Pin, st)
	}
}

// An offer by an operator or after a refusal ends a pin.
func TestPinEnds(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	for name, end := range map[string]func(revision int64){
		"rollback": func(int64) {
			if _, err := h.service.Rollback(context.Background(), controller.Call{}, "s",
				rollout.Rollback{To: 1}); err != nil {
				t.Fatal(err)
			}
		},
		"refusal": func(revision int64) { h.ack("s", revision, rollout.AckRejected) },
	} {
		c, err := h.pin(map[string]int{"rollback": 5, "refusal": 6}[name], time.Time{}, false)
		if err != nil {
			t.Fatal(err)
		}
		if s, _, _ := h.service.Scheduler("s"); s.Pin == nil || s.Pin.Revision != c.Revision {
			t.Errorf("%s: not pinned: %+v", name, s.Pin)
		}
		end(c.Revision)
		if s, _, _ := h.service.Scheduler("s"); s.Pin != nil {
			t.Errorf("%s: still pinned", name)
		}
	}
	if _, err := h.pin(6, time.Time{}, false); !errors.Is(err, rollout.ErrRefused) {
		t.Errorf("refused values: %v", err)
	}
}
