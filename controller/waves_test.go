package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
)

// TestWavesOfARollout: the revision of a round reaches one instance, and the others once it ran there
// for an hour, across a restart; watchers of each are notified, and no round is decided meanwhile.
func TestWavesOfARollout(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := start(t, adopt(func(round.Input) int { return 5 }))
	defer func() { h.close() }()
	h.register("s", controller.Auto)
	h.modify("s", func(s *controller.Scheduler) error { s.Policy.Waves.Canary = true; return nil })
	ack := func(instance string, revision int64) {
		t.Helper()
		if _, _, err := h.service.Acknowledge(context.Background(), controller.Call{}, "s", revision,
			rollout.Ack{State: rollout.AckApplied, Instance: instance}); err != nil {
			t.Fatal(err)
		}
	}
	polled := func() string {
		t.Helper()
		var out []string
		for _, instance := range []string{"a", "b"} {
			c, err := h.service.Current("s", instance)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprint(c.Revision))
		}
		return strings.Join(out, " ")
	}
	ack("a", 1)
	ack("b", 1)
	h.submit("s", 30*time.Minute)
	h.submit("s", time.Hour+time.Minute)
	h.rounds("s", 1)
	if got := polled(); got != "2 1" {
		t.Fatalf("polls: %s", got)
	}
	ack("a", 2)
	h.close()
	h.open()
	w, err := h.service.Watch("s", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h.submit("s", 2*time.Hour)
	if st := h.status(); polled() != "2 1" || w.Current().Revision != 1 ||
		!strings.Contains(st.Watching,
			"rounds wait: revision 2 is offered to 1 of 2 instances; the next wave begins at") {
		t.Errorf("%s, %s", polled(), st.Watching)
	}
	h.submit("s", 2*time.Hour+time.Minute)
	select {
	case <-w.Changed():
	case <-time.After(patience):
		t.Fatal("no notice of the wave")
	}
	if polled() != "2 2" || w.Current().Revision != 2 {
		t.Errorf("%s, watched %d", polled(), w.Current().Revision)
	}
}
