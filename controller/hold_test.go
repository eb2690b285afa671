package controller_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// alternate adopts 4 and 5 queues in turn.
var alternate = adopt(func(in round.Input) int { return 4 + in.Round%2 })

// hourly submits a job after each hour, from one to another, and acknowledges offers. It
// returns the revisions that were offered at the end of each.
func (h *harness) hourly(from, to int) (offered []int64) {
	h.t.Helper()
	_, st, err := h.service.Scheduler("s")
	if err != nil {
		h.t.Fatal(err)
	}
	for n := from; n <= to; n++ {
		h.submit("s", time.Duration(n)*time.Hour+time.Minute)
		h.rounds("s", st.Rounds+int64(1+n-from))
		c := h.current("s")
		h.ack("s", c.Revision, rollout.AckApplied)
		offered = append(offered, c.Revision)
	}
	return offered
}

func (h *harness) limit(l rollout.Limits) {
	h.t.Helper()
	h.modify("s", func(s *controller.Scheduler) error { s.Policy.Limits = l; return nil })
}

func (h *harness) status() controller.Status {
	h.t.Helper()
	_, st, err := h.service.Scheduler("s")
	if err != nil {
		h.t.Fatal(err)
	}
	return st
}

// TestOperatorsRollbackHolds: rounds do not undo it, until its hold is over, across restarts too.
func TestOperatorsRollbackHolds(t *testing.T) {
	h := start(t, adopt(func(round.Input) int { return 5 }))
	h.register("s", controller.Auto)
	h.ack("s", 1, rollout.AckApplied)
	h.submit("s", 30*time.Minute)
	h.hourly(1, 1)
	back, err := h.service.Rollback(context.Background(), controller.Call{}, "s", rollout.Rollback{})
	if err != nil || back.Revision != 3 {
		t.Fatalf("%+v, %v", back, err)
	}
	h.hourly(2, 10)
	h.close()
	h.open()
	h.hourly(11, 24)
	if c, st := h.current("s"), h.status(); c.Revision != 3 ||
		st.LastDecision != "kept: an operator went back to revision 3: tuning changes nothing until 2017-10-02T01:01:00Z" ||
		"kept: "+st.Hold != st.LastDecision {
		t.Errorf("revision %d: %s, held: %s", c.Revision, st.LastDecision, st.Hold)
	}
	h.hourly(25, 26)
	if c, st := h.current("s"), h.status(); c.Revision != 4 || queues(c) != 5 || st.Hold != "" {
		t.Errorf("a day later: revision %d: %s, held: %s", c.Revision, st.LastDecision, st.Hold)
	}
}

// TestAlternatingDecisions: rounds that find two configurations better in turn change the default
// policy's number of times, and return once.
func TestAlternatingDecisions(t *testing.T) {
	h := start(t, alternate)
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	if last := h.hourly(1, 24); last[23] != 4 || !strings.Contains(h.status().LastDecision, "revision 4 returned") {
		t.Errorf("%v: %s", last, h.status().LastDecision)
	}
	h.limit(rollout.Limits{ChangesPerDay: 3})
	if last := h.hourly(25, 29); last[4] != 7 ||
		!strings.Contains(h.status().LastDecision, "changes by tuning in 24 hours: 3 of 3 (revision 5, 6, 7)") {
		t.Errorf("%v: %s", last, h.status().LastDecision)
	}
	h.limit(rollout.Limits{})
	if last := h.hourly(31, 34); last[3] != 11 {
		t.Errorf("without limits: %v", last)
	}
}

// TestPolicyWithoutLimits: one that was stored before there were limits has the default ones.
func TestPolicyWithoutLimits(t *testing.T) {
	for text, want := range map[string]rollout.Limits{`{"min_ratio": 1.02}`: rollout.DefaultLimits(),
		`{"limits": {"changes_per_day": 0, "flap_window": 0, "rollback_hold": 0}}`: {}} {
		var p controller.Policy
		if err := json.Unmarshal([]byte(text), &p); err != nil || !reflect.DeepEqual(p.Limits, want) {
			t.Errorf("%s: %+v, %v", text, p.Limits, err)
		}
	}
}

// TestQuietHours: nothing is changed in them, and everything may be proposed and done by
// operators.
func TestQuietHours(t *testing.T) {
	h := start(t, adopt(func(in round.Input) int { return 1 + in.Round%9 }))
	h.register("s", controller.Auto)
	h.submit("s", 30*time.Minute)
	h.limit(rollout.Limits{QuietHours: []rollout.QuietHours{{Start: 2 * time.Hour, End: 5 * time.Hour}}})
	h.hourly(1, 4)
	if c, st := h.current("s"), h.status(); c.Revision != 2 ||
		st.LastDecision != "kept: quiet hours are 02:00 to 05:00 UTC" {
		t.Errorf("revision %d: %s", c.Revision, st.LastDecision)
	}
	ctx := context.Background()
	if c, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{}); err != nil || c.Revision != 3 {
		t.Errorf("an operator went back to %+v, %v", c, err)
	}
	h.hourly(5, 5)
	if c := h.current("s"); c.Revision != 4 {
		t.Errorf("after the quiet hours: revision %d: %s", c.Revision, h.status().LastDecision)
	}
	h.modify("s", func(s *controller.Scheduler) error {
		s.Mode = controller.Recommend
		s.Policy.Limits.QuietHours = []rollout.QuietHours{{End: 24 * time.Hour}}
		return nil
	})
	h.submit("s", 6*time.Hour+time.Minute)
	h.rounds("s", 6)
	c, err := h.service.Approve(ctx, controller.Call{}, "s", rollout.Approve{Revision: 5}, nil)
	if err != nil || !c.Config.Get("queues").Equal(space.Int(7)) ||
		h.status().Hold != "" {
		t.Errorf("a proposal: %+v, %v; held: %s", c, err, h.status().Hold)
	}
}

// TestFreeze: a frozen scheduler keeps its revision, and one that does worse raises an alarm. Operators change it
// nevertheless. A restart does not unfreeze it, the end does.
func TestFreeze(t *testing.T) {
	one := with(t, "queues=1", "queue_thresholds=")
	c := simulate(t, controller.Auto, adopting(one, 4, nil))
	freeze := func(f *rollout.Freeze) {
		t.Helper()
		_, err := c.service.Modify(context.Background(), controller.Call{}, simulatedID,
			func(s *controller.Scheduler) error {
				s.Freeze = f
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	f := &rollout.Freeze{Reason: "benchmark", Actor: "alice", Until: origin.Add(5*time.Hour + 30*time.Minute)}
	freeze(f)
	c.until(4*time.Hour+30*time.Minute, nil)
	c.restart()
	c.until(5*time.Hour+20*time.Minute, nil)
	const text = "tuning is frozen until 2017-10-01T05:30:00Z by alice: benchmark"
	if st := c.status(); len(c.revisions()) != 1 || st.LastDecision != "kept: "+text || st.Hold != text {
		t.Errorf("%s, held: %s\n%s", st.LastDecision, st.Hold, c.summary())
	}
	c.until(6*time.Hour+10*time.Minute, nil)
	if c.running != 2 || c.status().Hold != "" {
		t.Fatalf("the freeze is over: held: %s\n%s", c.status().Hold, c.summary())
	}
	freeze(&rollout.Freeze{Reason: "again"})
	c.until(9*time.Hour, c.incident)
	c.until(c.at+2*time.Hour, nil)
	if r := c.revisions(); len(r) != 2 || !r[1].Alarmed() || c.running != 2 {
		t.Fatalf("%s\n%s", c.status().LastDecision, c.summary())
	}
	if _, err := c.service.Rollback(context.Background(), controller.Call{}, simulatedID,
		rollout.Rollback{}); err != nil {
		t.Fatal(err)
	}
	c.until(c.at+10*time.Minute, nil)
	if c.running != 3 {
		t.Errorf("back:\n%s", c.summary())
	}
}
