package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// answers is an instance's acknowledgement.
func answers(instance string, revision int64, state AckState) Event {
	return Acknowledge{Revision: revision, Ack: Ack{State: state, Instance: instance}}
}

// fleet is a state after instances a to d applied the defaults, and then some events.
func fleet(t *testing.T, w Waves, events ...Event) State {
	t.Helper()
	s := registered()
	s.Waves = w
	var first []Event
	for _, id := range []string{"a", "b", "c", "d"} {
		first = append(first, answers(id, 1, AckApplied))
	}
	for i, e := range append(first, events...) {
		var err error
		if s, _, err = Step(s, e, at(i+1)); err != nil {
			t.Fatalf("%#v: %v", e, err)
		}
	}
	return s
}

// desired are the revisions of instances a to d and of one that is not known.
func desired(s State) string {
	var out []string
	for _, id := range []string{"a", "b", "c", "d", "new"} {
		out = append(out, fmt.Sprint(s.Desired(id).Revision))
	}
	return strings.Join(out, " ")
}

func TestWaves(t *testing.T) {
	all := Waves{Canary: true, Share: .5}
	canary := []Event{offer(1), answers("a", 2, AckApplied), Tick{hour(1)}}
	half := append(canary[:3:3], Tick{hour(2)})
	last := append(half[:4:4], answers("b", 2, AckApplied), Tick{hour(3)}, Tick{hour(4)})
	for _, c := range []struct {
		name   string
		waves  Waves
		events []Event
		want   string
		state  string
	}{
		{"no waves", Waves{}, []Event{offer(1)}, "2 2 2 2 2", "1:0 rolled_out, 2:1 published >2 =1"},
		{"the canary", all, []Event{offer(1), Tick{hour(9)}}, "2 1 1 1 1", "1:0 rolled_out, 2:1 published >2 =1"},
		{"it soaks", all, append(canary[:3:3], Tick{hour(1.9)}), "2 1 1 1 1", "1:0 rolled_out, 2:1 published >2 =1"},
		{"the share", all, half, "2 2 1 1 1", "1:0 rolled_out, 2:1 published >2 =1"},
		{"all", all, last, "2 2 2 2 2", "1:0 rolled_out, 2:1 published >2 =1"},
		{"most run it", Waves{Share: .75}, []Event{offer(1), answers("a", 2, AckApplied), answers("b", 2, AckApplied),
			answers("c", 2, AckApplied)}, "2 2 2 1 1", "1:0 published, 2:1 published >2 =2"},
		{"no soak", Waves{Canary: true, Soak: -1}, canary, "2 2 2 2 2", "1:0 rolled_out, 2:1 published >2 =1"},
		{"failed", all, append(canary[:1:1], answers("a", 2, AckFailed), Tick{hour(1)}, Tick{hour(9)}), "2 1 1 1 1",
			"1:0 rolled_out, 2:1 published >2 =1"},
		{"it went back by itself", all, append(canary[:3:3], answers("a", 1, AckApplied), Tick{hour(2)},
			answers("a", 2, AckApplied), Tick{hour(3)}), "2 1 1 1 1", "1:0 rolled_out, 2:1 published >2 =1"},
		{"the canary refuses", all, []Event{offer(1), answers("a", 2, AckRejected)}, "3 3 3 3 3",
			"1:0 rolled_out, 2:1 rejected, 3:0 published >3 =1"},
		{"one of the share refuses", all, append(half[:4:4], answers("b", 2, AckRejected)), "3 3 3 3 3",
			"1:0 rolled_out, 2:1 rejected, 3:0 published >3 =1"},
		{"the judge goes back", all, append(half[:4:4], revert(2, 1, false)), "3 3 3 3 3",
			"1:0 rolled_out, 2:1 superseded, 3:0 published >3 =1"},
		{"an operator goes back", all, append(half[:4:4], Rollback{}), "3 3 3 3 3",
			"1:0 rolled_out, 2:1 superseded, 3:0 published >3 =1"},
		{"the canary is forgotten", all, append(canary[:1:1], Forget{"a"}, Tick{hour(1)}), "2 2 1 1 1",
			"1:0 rolled_out, 2:1 published >2 =1"},
		{"approved", all, []Event{propose(1), Approve{Revision: 2}}, "2 1 1 1 1",
			"1:0 rolled_out, 2:1 published >2 =1"},
		{"put in force by hand", all, []Event{propose(1), Approve{Revision: 2}, Approve{Revision: 2, Applied: true}},
			"2 2 2 2 2", "1:0 superseded, 2:1 rolled_out >2 =2"},
		{"what others run is refused", all, []Event{offer(1), Rollback{}, offer(2), Tick{hour(1)},
			answers("a", 4, AckApplied), answers("b", 3, AckRejected)}, "4 3 3 3 3",
			"1:0 rolled_out, 2:1 superseded, 3:0 published, 4:2 published >4 =1"},
	} {
		s := fleet(t, c.waves, c.events...)
		if got := desired(s); got != c.want || summary(s) != c.state {
			t.Errorf("%s: %s, %s\nwant %s, %s", c.name, got, summary(s), c.want, c.state)
		}
	}
}

// TestStableRefused: values that most instances should run still are refused while others are
// rolled out: all get the last good ones.
func TestStableRefused(t *testing.T) {
	s := fleet(t, Waves{}, offer(1), answers("a", 2, AckApplied))
	s.Waves = Waves{Canary: true}
	for _, e := range []Event{offer(2), answers("a", 3, AckApplied), answers("b", 2, AckRejected)} {
		var err error
		if s, _, err = Step(s, e, at(9)); err != nil {
			t.Fatal(err)
		}
	}
	if desired(s) != "4 4 4 4 4" || s.Offered().Hash != values(0).Hash() || s.Wave != nil {
		t.Errorf("%s: %s", desired(s), summary(s))
	}
}

// TestUnderWay: nothing is rolled out while another rollout is, and both say why.
func TestUnderWay(t *testing.T) {
	s := fleet(t, Waves{Canary: true}, offer(1))
	want := `revision 2 is offered to 1 of 4 instances; the next wave begins after instance "a" applied it`
	if got := s.Wait(); got != "rounds wait: "+want {
		t.Error(got)
	}
	err := s.CheckAdoption(Publish{Config: values(2), At: hour(1)}, s.Basis())
	_, _, published := Step(s, offer(2), at(9))
	if !errors.Is(err, ErrState) || !errors.Is(published, ErrState) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, %v", err, published)
	}
	s, _, _ = Step(s, answers("a", 2, AckApplied), at(9))
	s, _, _ = Step(s, Tick{hour(1)}, at(9))
	if got := s.Waiting(); !strings.HasSuffix(got, "the next wave begins at 2024-01-01T02:00:00Z") {
		t.Error(got)
	}
	frozen := s
	frozen.Freeze = &Freeze{}
	if next, _, err := Step(frozen, Tick{hour(9)}, at(9)); err != nil || desired(next) != "2 1 1 1 1" {
		t.Errorf("frozen: %s, %v", desired(next), err)
	}
	if s.Waves.Soak = -time.Second; s.Waves.Soaks() != 0 {
		t.Error("a wave soaks")
	}
}

// TestInstancesThatAreGone: beyond the most instances, a new one takes the place of the one that is behind and
// silent for longest; ones that run their target stay, however long ago they said so.
func TestInstancesThatAreGone(t *testing.T) {
	s := registered()
	now := at(1)
	step := func(e Event) error {
		var err error
		s, _, err = Step(s, e, now)
		return err
	}
	id := func(n int) string { return fmt.Sprintf("i-%03d", n) }
	for n := range MaxInstances {
		now = now.Add(time.Second)
		if err := step(answers(id(n), 1, AckApplied)); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(100 * goneAfter)
	if err := step(answers("new", 1, AckApplied)); !errors.Is(err, ErrInstances) {
		t.Errorf("all run what they should: %v", err)
	}
	if err := step(offer(1)); err != nil {
		t.Fatal(err)
	}
	for n := range MaxInstances {
		if n != 7 && n != 5 {
			if err := step(answers(id(n), 2, AckApplied)); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := func(id string) bool {
		_, found := s.find(id)
		return found
	}
	if err := step(answers("new", 2, AckApplied)); err != nil || known(id(5)) || !known(id(7)) || !known("new") {
		t.Errorf("%v; the one behind for longest is there: %v, the next: %v", err, known(id(5)), known(id(7)))
	}
	if err := step(answers(id(7), 2, AckFailed)); err != nil {
		t.Fatal(err)
	}
	if err := step(answers("newer", 2, AckApplied)); !errors.Is(err, ErrInstances) {
		t.Errorf("one that answered just now: %v", err)
	}
}

// TestLateRefusal: a refusal of an older revision that comes late does not hide that the offer was refused, until the
// offer is answered again (N12).
func TestLateRefusal(t *testing.T) {
	for _, state := range []AckState{AckFailed, AckRejected} {
		s := fleet(t, Waves{}, offer(1), offer(2), answers("b", 3, AckFailed))
		late := Acknowledge{Revision: 2, Ack: Ack{State: state, Instance: "b", Error: "late"}}
		for range 2 {
			next, changed, err := Step(s, late, at(20))
			if err != nil {
				t.Fatal(err)
			}
			if s.Configuration(2).Ack != nil && (len(changed) > 0 || !next.Records.Equal(&s.Records)) {
				t.Errorf("%s: sent again, it changes %v", state, changed)
			}
			s = next
			if got := s.Degradation(at(20), time.Hour); !strings.Contains(got, `"b" could not apply revision 3`) {
				t.Errorf("%s: %q", state, got)
			}
		}
		s, _, err := Step(s, answers("b", 3, AckApplied), at(21))
		if got := s.Degradation(at(21), time.Hour); err != nil || got != "" {
			t.Errorf("%s: answered again: %q, %v", state, got, err)
		}
	}
}
