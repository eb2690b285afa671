package rollout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/space"
)

func testSpaceOf(low, high, def int) *space.Space {
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: float64(low), Max: float64(high),
		Default: space.Int(def)}}, nil)
	if err != nil {
		panic(err)
	}
	return sp
}

// testSpaces are the spaces before and after a change. values(2) is in all of them.
var testSpaces = []*space.Space{testSpace, testSpaceOf(1, 9, 2), testSpaceOf(0, 2, 0), testSpaceOf(2, 9, 3)}

func respace(low, high, def int) Event { return Respace{Space: testSpaceOf(low, high, def), Number: 2} }

func TestRespace(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"values inside stay on offer", []Event{offer(4), ack(2, AckApplied), respace(0, 4, 0)},
			"1:0 superseded, 2:4 rolled_out >2 =2"},
		{"values outside are projected", []Event{offer(4), ack(2, AckApplied), respace(0, 3, 0)},
			"1:0 superseded, 2:4 rolled_out, 3:3 published >3 =2"},
		{"proposals are withdrawn", []Event{propose(4), respace(0, 9, 0)}, "1:0 published, 2:4 superseded >1 =0"},
		{"other defaults are kept, not offered", []Event{respace(0, 9, 5)}, "1:0 published, 2:5 superseded >1 =0"},
		{"defaults outside follow their projection", []Event{respace(2, 9, 5)}, "1:0 superseded, 2:5 superseded, 3:2 published >3 =0"},
		{"parked projections give way to the defaults", []Event{offer(3), ack(2, AckRejected), offer(4),
			respace(0, 3, 1)},
			"1:0 superseded, 2:3 rejected, 3:0 superseded, 4:4 superseded, 5:1 superseded, 6:1 published >6 =0"},
		{"the new defaults are not parked", []Event{offer(3), ack(2, AckRejected), respace(0, 9, 3)},
			"1:0 superseded, 2:3 superseded, 3:0 published >3 =0"},
		{"a refusal falls back inside", []Event{ack(1, AckApplied), offer(8), ack(2, AckApplied), respace(3, 9,
			5), offer(9),
			Acknowledge{Revision: 4, Ack: Ack{State: AckRejected}}},
			"1:0 superseded, 2:8 rolled_out, 3:5 superseded, 4:9 rejected, 5:8 published >5 =2"},
	} {
		s := registered()
		for i, e := range c.events {
			next, _, err := Step(s, e, at(i+1))
			if err != nil {
				t.Fatalf("%s: %#v: %v", c.name, e, err)
			}
			s = next
		}
		if got := summary(s); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Values outside of the space are neither offered again nor a reference.
func TestOutsideSpace(t *testing.T) {
	s := registered()
	for _, e := range []Event{ack(1, AckApplied), offer(7), ack(2, AckApplied), respace(0, 5, 1)} {
		s, _, _ = Step(s, e, at(1))
	}
	if why := s.Wait(); !strings.Contains(why, "outside the registered space") {
		t.Errorf("rounds are decided while values outside the space run: %q", why)
	}
	if got := s.Offered(); got.Origin != FromSpace || !strings.Contains(got.Reason, "n 7 becomes 5") {
		t.Errorf("projected: %+v", got)
	}
	if _, _, err := Step(s, Rollback{To: 2}, at(2)); !errors.Is(err, ErrState) ||
		!strings.Contains(err.Error(), "revision 2 of scheduler \"s\" has values outside") {
		t.Errorf("rollback to values outside the space: %v", err)
	}
	if _, _, err := Step(s, offer(7), at(2)); !errors.Is(err, ErrState) {
		t.Errorf("an offer outside the space: %v", err)
	}
	s, _, err := Step(s, ack(s.OfferedRevision, AckApplied), at(3))
	if err != nil || s.Wait() != "" {
		t.Errorf("rounds wait once it is applied: %q, %v", s.Wait(), err)
	}
	if c := s.LastGood(s.Offered()); c == nil || !s.inSpace(c) {
		t.Errorf("last good: %+v", c)
	}
	s.Instances = []Instance{{Revision: s.OfferedRevision, Effective: map[string]space.Value{"n": space.Int(7)}}}
	if condition, _ := s.Condition(&s.Instances[0], at(3), time.Hour); condition != Degraded {
		t.Errorf("an instance with values outside the space is %s", condition)
	}
}

// A space without the values of a canary ends the canary: no other instance gets values near to them,
// which none has tried.
func TestRespaceDuringWave(t *testing.T) {
	for _, c := range []struct {
		name  string
		space Event
		want  string
		n     int
	}{
		{"the canary is outside", respace(0, 3, 0), "3 3 3 3 3", 0},
		{"both are outside", respace(1, 3, 2), "4 4 4 4 4", 1}, // revision 3 has the defaults
		{"both are inside", respace(0, 9, 0), "2 1 1 1 1", 4},
	} {
		s := fleet(t, Waves{Canary: true}, offer(4), answers("a", 2, AckApplied))
		if got := desired(s); got != "2 1 1 1 1" {
			t.Fatalf("no canary: %s", got)
		}
		s, _, err := Step(s, c.space, at(9))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got, n := desired(s), s.Offered().Config.Get("n").Int(); got != c.want || n != c.n {
			t.Errorf("%s: instances should run %s with n = %d, want %s with %d: %s", c.name, got, n, c.want, c.n,
				s.Offered().Reason)
		}
	}
}
