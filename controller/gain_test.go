package controller_test

import (
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// TestGain: the configuration in force is compared with the registered defaults, on what came since it took effect.
func TestGain(t *testing.T) {
	one := with(t, "queues=1", "queue_thresholds=")
	c := simulate(t, controller.Auto, adopting(one, 4, nil))
	ask := func(reason string) controller.Gain {
		t.Helper()
		g, err := c.service.Gain(t.Context(), simulatedID)
		if err != nil {
			t.Fatal(err)
		}
		if (g.Gained == nil) != (reason != "") || !strings.Contains(g.Reason, reason) {
			t.Fatalf("%+v, want the reason %q", g, reason)
		}
		return g
	}
	ask("no events yet")
	c.until(3*time.Hour, nil)
	ask("the registered defaults run")
	c.until(6*time.Hour, func() bool { return c.running == 2 })
	took := c.at
	ask("in force for less than 15m0s")
	c.until(took+time.Hour, nil)
	g := ask("")
	if _, middle, high := g.Saved(); g.Revision != 2 || g.From != took || g.Jobs < 8 || middle > 0 || high > 0 {
		t.Errorf("%+v saved %v to %v", g.Gained, middle, high)
	}
	c.until(took+90*time.Minute, nil)
	if again := ask(""); again.Gained != g.Gained {
		t.Error("what was replayed is not kept for an hour")
	}
	c.until(took+2*time.Hour+time.Minute, nil)
	again := ask("")
	if again.To <= g.To || again.From != took {
		t.Errorf("after an hour: %+v", again.Gained)
	}
	say := func(ack rollout.Ack) {
		t.Helper()
		ack.Applied = origin.Add(took)
		if _, _, err := c.service.Acknowledge(t.Context(), controller.Call{}, simulatedID, 2, ack); err != nil {
			t.Fatal(err)
		}
	}
	two := with(t, "queues=2", "queue_thresholds=3600")
	differ := map[string]space.Value{}
	for _, id := range []string{"queues", "queue_thresholds"} {
		differ[id] = two.Get(id)
	}
	say(rollout.Ack{State: rollout.AckPartial, Effective: differ})
	if other := ask(""); other.Gained == again.Gained {
		t.Error("what was replayed is kept though other values run")
	}
	say(rollout.Ack{State: rollout.AckPartial, Instance: "a", Effective: differ})
	ask("")
	say(rollout.Ack{State: rollout.AckFailed, Instance: "b"})
	ask("not all instances say that they run revision 2")
}
