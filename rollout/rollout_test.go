package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/space"
)

var testSpace = func() *space.Space {
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		panic(err)
	}
	return sp
}()

func values(n int) space.Config { return testSpace.Default().With("n", space.Int(n)) }

func at(step int) time.Time { return time.Date(2024, 1, 1, 0, step, 0, 0, time.UTC) }

// offer and propose are the actions of a round in mode AUTO and RECOMMEND.
func offer(n int) Event   { return Publish{Config: values(n), Origin: FromTuning} }
func propose(n int) Event { return Publish{Config: values(n), Origin: FromTuning, Propose: true} }

func ack(revision int64, state AckState) Event {
	return Acknowledge{Revision: revision, Ack: Ack{State: state}}
}

// revert is the action of the judge, within the day before at(24*60).
func revert(revision, good int64, propose bool) Event {
	return Revert{Incident: Incident{At: at(0), Revision: revision, Good: good, Until: at(24 * 60)}, Propose: propose}
}

// registered is a scheduler's state after its registration.
func registered() State {
	s, _, _ := Step(State{Scheduler: "s"}, Publish{Config: values(0), Origin: FromDefault}, at(0))
	return s
}

// summary writes a state as its revisions, with their values and state, then
// the offered (>) and the acknowledged (=) one.
func summary(s State) string {
	var parts []string
	for _, c := range s.Configurations {
		parts = append(parts, fmt.Sprintf("%d:%g %s", c.Revision, c.Config.Get("n").Float(), c.State))
	}
	return fmt.Sprintf("%s >%d =%d", strings.Join(parts, ", "), s.OfferedRevision, s.AcknowledgedRevision)
}

// TestSupersededProposalsAreDropped: as many as Keep stay (N8), and so do the one that waits, ones an operator
// decided about, and ones that the scheduler answered.
func TestSupersededProposalsAreDropped(t *testing.T) {
	s := registered()
	s.Keep = 2
	for i, e := range []Event{propose(1), Reject{Revision: 2}, propose(2), Approve{Revision: 3, Applied: true},
		propose(3), ack(4, AckFailed), propose(4), propose(5), propose(6), propose(7)} {
		var err error
		if s, _, err = Step(s, e, at(i+1)); err != nil {
			t.Fatal(i, err)
		}
	}
	const want = "1:0 superseded, 2:1 rejected, 3:2 rolled_out, 4:3 superseded, 6:5 superseded, 7:6 superseded, " +
		"8:7 proposed >3 =3"
	if got := summary(s); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if _, _, err := Step(s, Approve{Revision: 5}, at(20)); !errors.Is(err, ErrNotFound) {
		t.Errorf("a dropped one is approved: %v", err)
	}
	s.Configurations = s.Configurations[1:]
	if s.refersTo(6) || !s.refersTo(8) {
		t.Error("without the record of the defaults, a superseded one is referred to, or the last is not")
	}
}

func TestStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []Event
		want   string
		err    error // of the last event
	}{
		{"registration offers the defaults", nil, "1:0 published >1 =0", nil},
		{"offer", []Event{offer(1)}, "1:0 superseded, 2:1 published >2 =0", nil},
		{"offers after acknowledgements", []Event{ack(1, AckApplied), offer(1), ack(2, AckApplied)},
			"1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"what runs stays in force until another is applied",
			[]Event{ack(1, AckApplied), offer(1)}, "1:0 rolled_out, 2:1 published >2 =1", nil},
		{"a proposal is not offered", []Event{propose(1)}, "1:0 published, 2:1 proposed >1 =0", nil},
		{"a newer proposal supersedes the last",
			[]Event{propose(1), propose(2)}, "1:0 published, 2:1 superseded, 3:2 proposed >1 =0", nil},

		{"approve", []Event{propose(1), Approve{Revision: 2}}, "1:0 superseded, 2:1 published >2 =0", nil},
		{"approve twice", []Event{propose(1), Approve{Revision: 2}, Approve{Revision: 2}}, "1:0 superseded, 2:1 published >2 =0", nil},
		{"approve nothing", []Event{Approve{Revision: 2}}, "1:0 published >1 =0", ErrNotFound},
		{"approve history", []Event{propose(1), propose(2), Approve{Revision: 2}},
			"1:0 published, 2:1 superseded, 3:2 proposed >1 =0", ErrState},
		{"propose parked values", []Event{offer(1), ack(2, AckRejected), propose(1)},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =0", ErrRefused},
		{"approve parked values", []Event{propose(1), ack(2, AckRejected), Approve{Revision: 2}},
			"1:0 published, 2:1 rejected >1 =0", ErrState},
		{"approve what an operator put in force", []Event{propose(1), Approve{Revision: 2, Applied: true}},
			"1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"a proposal is not approved by a scheduler that applies it", []Event{propose(1), ack(2, AckApplied)},
			"1:0 published, 2:1 proposed >1 =2", nil},
		{"nor by an event", []Event{propose(1), Confirm{Revision: 2}}, "1:0 published, 2:1 proposed >1 =2", nil},
		{"what was applied without approval is not gone back to",
			[]Event{propose(1), ack(2, AckApplied), offer(2), ack(3, AckRejected)},
			"1:0 superseded, 2:1 superseded, 3:2 rejected, 4:0 published >4 =2", nil},

		{"reject a proposal", []Event{propose(1), Reject{Revision: 2}, Reject{Revision: 2}},
			"1:0 published, 2:1 rejected >1 =0", nil},
		{"reject what is offered", []Event{offer(1), Reject{Revision: 2}},
			"1:0 superseded, 2:1 published >2 =0", ErrState},
		{"reject nothing", []Event{Reject{Revision: 2}}, "1:0 published >1 =0", ErrNotFound},
		{"park a proposal, twice", []Event{propose(1), ParkProposal{Revision: 2}, ParkProposal{Revision: 2}},
			"1:0 published, 2:1 parked >1 =0", nil},
		{"park what is offered", []Event{offer(1), ParkProposal{Revision: 2}},
			"1:0 superseded, 2:1 published >2 =0", ErrState},
		{"park nothing", []Event{ParkProposal{Revision: 2}}, "1:0 published >1 =0", ErrNotFound},
		{"approve a parked proposal", []Event{propose(1), ParkProposal{Revision: 2}, Approve{Revision: 2}},
			"1:0 superseded, 2:1 published >2 =0", nil},
		{"reject a parked proposal", []Event{propose(1), ParkProposal{Revision: 2}, Reject{Revision: 2}},
			"1:0 published, 2:1 rejected >1 =0", nil},
		{"a parked proposal outlives another, and not another offer",
			[]Event{propose(1), ParkProposal{Revision: 2}, propose(2), ParkProposal{Revision: 3}, propose(3)},
			"1:0 published, 2:1 parked, 3:2 parked, 4:3 proposed >1 =0", nil},
		{"another offer supersedes a parked proposal",
			[]Event{propose(1), ParkProposal{Revision: 2}, propose(2), Approve{Revision: 3}},
			"1:0 superseded, 2:1 superseded, 3:2 published >3 =0", nil},
		{"a parked proposal is refused by a scheduler that was given it",
			[]Event{propose(1), ParkProposal{Revision: 2}, ack(2, AckRejected)},
			"1:0 published, 2:1 rejected >1 =0", nil},
		{"a parked proposal waits again", []Event{propose(1), ParkProposal{Revision: 2}, Unpark{2}},
			"1:0 published, 2:1 proposed >1 =0", nil},
		{"a parked proposal waits again, by another revision with its values",
			[]Event{offer(1), offer(2), propose(1), ParkProposal{Revision: 4}, Unpark{2}},
			"1:0 superseded, 2:1 superseded, 3:2 published, 4:1 proposed >3 =0", nil},
		{"unpark a proposal while another waits",
			[]Event{propose(1), ParkProposal{Revision: 2}, propose(2), Unpark{2}},
			"1:0 published, 2:1 parked, 3:2 proposed >1 =0", ErrState},
		{"a parked proposal that waits again is older than the offer of another one",
			[]Event{propose(1), ParkProposal{Revision: 2}, propose(2), ParkProposal{Revision: 3}, Unpark{2},
				Approve{Revision: 3}},
			"1:0 superseded, 2:1 superseded, 3:2 published >3 =0", nil},
		{"unpark", []Event{offer(1), ack(2, AckRejected), Unpark{2}, offer(1)},
			"1:0 superseded, 2:1 superseded, 3:0 superseded, 4:1 published >4 =0", nil},
		{"unpark twice", []Event{offer(1), ack(2, AckRejected), Unpark{2}, Unpark{2}},
			"1:0 superseded, 2:1 superseded, 3:0 published >3 =0", ErrNotFound},
		{"forget nothing", []Event{Forget{"gone"}}, "1:0 published >1 =0", ErrNotFound},
		{"unpark nothing", []Event{Unpark{2}}, "1:0 published >1 =0", ErrNotFound},

		{"failed", []Event{offer(1), ack(2, AckFailed)}, "1:0 superseded, 2:1 published >2 =0", nil},
		{"partially applied", []Event{offer(1), ack(2, AckPartial)}, "1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"acknowledged late", []Event{offer(1), offer(2), ack(2, AckApplied)},
			"1:0 superseded, 2:1 rolled_out, 3:2 published >3 =2", nil},
		{"gone back by itself", []Event{offer(1), ack(2, AckApplied), ack(1, AckApplied)},
			"1:0 rolled_out, 2:1 published >2 =1", nil},
		{"acknowledge nothing", []Event{ack(2, AckApplied)}, "1:0 published >1 =0", ErrNotFound},

		{"refused before anything was acknowledged",
			[]Event{offer(1), ack(2, AckRejected)}, "1:0 superseded, 2:1 rejected, 3:0 published >3 =0", nil},
		{"refused: what runs is offered again",
			[]Event{ack(1, AckApplied), offer(1), ack(2, AckRejected)}, "1:0 rolled_out, 2:1 rejected, 3:0 published >3 =1", nil},
		{"refused while a later one is offered", []Event{offer(1), offer(2), ack(2, AckRejected)},
			"1:0 superseded, 2:1 rejected, 3:2 published >3 =0", nil},
		{"refused after it was applied", []Event{ack(1, AckApplied), offer(1), ack(2, AckApplied), ack(2, AckRejected)},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =2", nil},
		{"refused late, after its values came back", []Event{offer(1), ack(2, AckApplied), offer(2), ack(3, AckApplied),
			Rollback{}, ack(2, AckRejected)},
			"1:0 superseded, 2:1 rejected, 3:2 rolled_out, 4:1 rejected, 5:2 published >5 =3", nil},
		{"the defaults refused", []Event{ack(1, AckRejected)}, "1:0 published >1 =0", nil},
		{"the defaults refused, and other values are good",
			[]Event{offer(1), ack(2, AckApplied), Rollback{}, ack(3, AckRejected)},
			"1:0 superseded, 2:1 rolled_out, 3:0 superseded, 4:1 published >4 =2", nil},
		{"a new offer after the defaults were refused",
			[]Event{ack(1, AckRejected), offer(1)}, "1:0 superseded, 2:1 published >2 =0", nil},
		{"the defaults applied after all", []Event{ack(1, AckRejected), ack(1, AckApplied)},
			"1:0 rolled_out >1 =1", nil},
		{"applied after it was refused", []Event{offer(1), ack(2, AckRejected), ack(2, AckApplied)},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =2", nil},

		{"confirm", []Event{offer(1), Confirm{Revision: 2}}, "1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"confirm what is history", []Event{offer(1), ack(2, AckApplied), Confirm{Revision: 1}},
			"1:0 rolled_out, 2:1 published >2 =1", nil},
		{"confirm what was in force before", []Event{offer(1), Acknowledge{2, Ack{State: AckApplied, Applied: at(9)}},
			Confirm{Revision: 1, At: at(8)}}, "1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"confirm what was refused", []Event{offer(1), ack(2, AckRejected), Confirm{Revision: 2}},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =2", nil},
		{"confirm nothing", []Event{Confirm{Revision: 2}}, "1:0 published >1 =0", ErrNotFound},

		{"roll back to the defaults", []Event{offer(1), Rollback{}},
			"1:0 superseded, 2:1 superseded, 3:0 published >3 =0", nil},
		{"roll back to what was applied",
			[]Event{offer(1), ack(2, AckApplied), offer(2), ack(3, AckApplied), Rollback{}},
			"1:0 superseded, 2:1 superseded, 3:2 rolled_out, 4:1 published >4 =3", nil},
		{"roll back twice", []Event{offer(1), Rollback{}, Rollback{}},
			"1:0 superseded, 2:1 superseded, 3:0 published >3 =0", nil},
		{"roll back and park later", []Event{offer(1), Rollback{}, Rollback{Park: true}},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =0", nil},
		{"roll back and park what runs",
			[]Event{ack(1, AckApplied), offer(1), ack(2, AckApplied), Rollback{Park: true}},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =2", nil},
		{"roll back and park the defaults",
			[]Event{offer(1), ack(2, AckApplied), Rollback{To: 1}, Rollback{To: 2, Park: true}},
			"1:0 superseded, 2:1 rolled_out, 3:0 published >3 =2", ErrState},
		{"roll back to parked values", []Event{offer(1), Rollback{Park: true}, Rollback{To: 2}},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =0", ErrRefused},
		{"roll back to what is offered", []Event{offer(1), Rollback{To: 2}}, "1:0 superseded, 2:1 published >2 =0",
			nil},
		{"roll back to nothing", []Event{Rollback{}}, "1:0 published >1 =0", ErrState},
		{"roll back to no revision", []Event{Rollback{To: 9}}, "1:0 published >1 =0", ErrNotFound},
		{"roll back from what is not offered", []Event{offer(1), Rollback{From: 1}},
			"1:0 superseded, 2:1 published >2 =0", ErrChanged},
		{"roll back further without a revision", []Event{offer(1), Rollback{}, Rollback{From: 3}},
			"1:0 superseded, 2:1 superseded, 3:0 published >3 =0", ErrState},

		{"the judge goes back", []Event{offer(1), ack(2, AckApplied), revert(2, 1, false)},
			"1:0 superseded, 2:1 rolled_out, 3:0 published >3 =2", nil},
		{"the judge proposes to go back", []Event{offer(1), ack(2, AckApplied), revert(2, 1, true)},
			"1:0 superseded, 2:1 rolled_out, 3:0 proposed >2 =2", nil},
		{"the judge goes back from what is not offered", []Event{offer(1), revert(1, 2, false)},
			"1:0 superseded, 2:1 published >2 =0", ErrChanged},
		{"the judge goes back to no revision", []Event{offer(1), revert(2, 9, false)},
			"1:0 superseded, 2:1 published >2 =0", ErrNotFound},
		{"the judge goes back to what is parked by now",
			[]Event{ack(1, AckApplied), offer(1), ack(2, AckApplied), offer(2), ack(3, AckApplied), ack(2, AckRejected),
				revert(3, 2, false)}, "1:0 superseded, 2:1 rejected, 3:2 rolled_out, 4:0 published >4 =3", nil},
		{"the way back is refused: not what did worse, but the defaults",
			[]Event{offer(1), ack(2, AckApplied), offer(2), ack(3, AckApplied), revert(3, 2, false),
				ack(4, AckRejected)},
			"1:0 superseded, 2:1 rejected, 3:2 rolled_out, 4:1 rejected, 5:0 published >5 =3", nil},
		{"roll back after the judge did", []Event{offer(1), ack(2, AckApplied), revert(2, 1, false), Rollback{}},
			"1:0 superseded, 2:1 rolled_out, 3:0 published >3 =2", nil},
		{"roll back to what did worse", []Event{offer(1), ack(2, AckApplied), revert(2, 1, false), Rollback{To: 2}},
			"1:0 superseded, 2:1 rolled_out, 3:0 superseded, 4:1 published >4 =2", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := registered()
			var err error
			for i, e := range c.events {
				if err != nil {
					t.Fatalf("event %d: %v", i, err)
				}
				s, _, err = Step(s, e, at(i+1))
			}
			if got := summary(s); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%s, %v\nwant %s, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestCheckAdoption(t *testing.T) {
	after := func(events ...Event) State {
		s := registered()
		for i, e := range events {
			var err error
			if s, _, err = Step(s, e, at(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	for _, c := range []struct {
		s     State
		n     int
		basis Basis
		want  string
	}{
		{after(), 1, Basis{1, 1}, ""},
		{after(), 0, Basis{1, 1}, "revision 1, which is on offer, has these values"},
		{after(offer(1)), 2, Basis{1, 1}, "what ran changed while the round was decided"},
		{after(offer(1), ack(2, AckApplied)), 2, Basis{2, 1}, "what ran changed while the round was decided"},
		{after(offer(1), ack(2, AckRejected)), 1, Basis{3, 1},
			"values are parked: those of revision 2, refused by the scheduler"},
		{after(offer(1), ack(2, AckApplied), Rollback{}, ack(3, AckRejected)), 0, Basis{4, 2},
			"the scheduler refuses these values"},
		{after(propose(1)), 1, Basis{1, 1}, "revision 2 proposes the same"},
		{after(propose(1), ParkProposal{Revision: 2}), 1, Basis{1, 1},
			"revision 2, which is parked, proposes the same"},
		{after(propose(1), ParkProposal{Revision: 2}), 2, Basis{1, 1}, ""},
		{after(ack(1, AckRejected)), 1, Basis{1, 1}, ""},
	} {
		got := ""
		if err := c.s.CheckAdoption(Publish{Config: values(c.n), At: at(0)}, c.basis); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s, values %d: %q, want %q", summary(c.s), c.n, got, c.want)
		}
	}
}

// TestParkProposal: rounds learn which values are parked, and a list who parked them, why and when, until a decision.
func TestParkProposal(t *testing.T) {
	s := registered()
	for i, c := range []struct {
		event Event
		want  []Park
	}{
		{propose(1), nil},
		{ParkProposal{Revision: 2, Actor: "ann", Why: "after the release"}, []Park{{Hash: values(1).Hash(), Revision: 2,
			Actor: "ann", Why: "after the release", Since: at(1), Proposal: true}}},
		{Unpark{2}, nil},
		{ParkProposal{Revision: 2}, []Park{{Hash: values(1).Hash(), Revision: 2, Actor: Operator, Since: at(3),
			Proposal: true}}},
		{Approve{Revision: 2, Actor: "bob"}, nil},
	} {
		var err error
		if s, _, err = Step(s, c.event, at(i)); err != nil {
			t.Fatal(err)
		}
		if got := s.ListParked(at(i)); !slices.Equal(got, c.want) || len(s.Parked(at(i))) != len(c.want) {
			t.Errorf("%#v: parked %+v, rounds avoid %v", c.event, got, s.Parked(at(i)))
		}
	}
	if r := s.Configuration(2).Review; r == nil || !r.Approved || r.Parked || r.Actor != "bob" {
		t.Errorf("review %+v", r)
	}
}

// TestUnparkOneOfTwo: of two parked proposals of the same values the one that is named waits again.
func TestUnparkOneOfTwo(t *testing.T) {
	s := registered()
	for i, e := range []Event{offer(1), ack(2, AckApplied), offer(2), ack(3, AckApplied), propose(1),
		ParkProposal{Revision: 4}, revert(3, 2, true), ParkProposal{Revision: 5}} {
		var err error
		if s, _, err = Step(s, e, at(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ unpark, waits int64 }{{4, 4}, {5, 5}, {2, 4}} { // revision 2 has them, too
		if next, _, err := Step(s, Unpark{c.unpark}, at(9)); err != nil || next.Proposal() != c.waits {
			t.Errorf("%d: %s, %v", c.unpark, summary(next), err)
		}
	}
}

// TestParkEnds: values that did worse are parked until an instant, unless an operator goes
// back to them or the event clock is set back.
func TestParkEnds(t *testing.T) {
	s := registered()
	for i, e := range []Event{offer(1), ack(2, AckApplied), revert(2, 1, false), ack(3, AckApplied)} {
		var err error
		if s, _, err = Step(s, e, at(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		at   time.Time
		want bool
	}{{at(-1), false}, {at(0), true}, {at(24*60 - 1), true}, {at(24 * 60), false}} {
		err := s.CheckAdoption(Publish{Config: values(1), At: c.at}, Basis{3, 3})
		if parked := len(s.Parked(c.at)) > 0; parked != c.want || (err != nil) != c.want {
			t.Errorf("at %v: parked %v, %v", c.at, parked, err)
		}
	}
	chosen, changed, err := Step(s, Rollback{To: 2}, at(9))
	if err != nil || len(changed) != 2 || len(chosen.Parked(at(10))) > 0 || len(s.Parked(at(10))) != 1 {
		t.Errorf("an operator's choice is parked: %s, %v", summary(chosen), err)
	}
}

// TestAlarm: a revision that did worse keeps its state, is not parked, and is the last good one of those after it.
func TestAlarm(t *testing.T) {
	s := registered()
	for i, e := range []Event{offer(1), ack(2, AckApplied)} {
		var err error
		if s, _, err = Step(s, e, at(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	alarm := Alarm{Incident{At: at(3), Actor: Judge, Revision: 2, Good: 1}}
	next, changed, err := Step(s, alarm, at(3))
	if err != nil || len(changed) != 1 || changed[0].Revision != 2 || !changed[0].Alarmed() ||
		changed[0].State != RolledOut || !next.Records.Equal(&s.Records) || s.Configuration(2).Incident != nil {
		t.Fatalf("%s, %v", summary(next), err)
	}
	if next.LastIncident() != changed[0] || len(next.ListParked(at(4))) > 0 || next.Wait() != "" {
		t.Errorf("parked %v, waits %q", next.ListParked(at(4)), next.Wait())
	}
	if good := next.LastGood(&Configuration{}); good == nil || good.Revision != 2 {
		t.Errorf("the last good one is %+v", good)
	}
	if _, _, err := Step(s, Alarm{Incident{Revision: 3}}, at(3)); !errors.Is(err, ErrNotFound) {
		t.Errorf("revision 3: %v", err)
	}
}

// TestPromise keeps the prediction with the evidence of the revision.
func TestPromise(t *testing.T) {
	found := Publish{Config: values(1), Origin: FromTuning, Evidence: &Evidence{Round: 7}}
	s, _, err := Step(registered(), found, at(1))
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := Step(s, Promise{Revision: 2, Prediction: []byte("{}")}, at(2))
	e := next.Configuration(2).Evidence
	if err != nil || string(e.Prediction) != "{}" || e.Round != 7 || s.Configuration(2).Evidence.Prediction != nil {
		t.Errorf("%+v, %v", e, err)
	}
	for _, revision := range []int64{1, 3} {
		if _, _, err := Step(s, Promise{Revision: revision}, at(2)); !errors.Is(err, ErrNotFound) {
			t.Errorf("revision %d: %v", revision, err)
		}
	}
}

// The configuration that the scheduler applied is in force, and none if that is outside the space.
func TestEffective(t *testing.T) {
	for _, c := range []struct {
		n    float64
		want string
	}{{3, ""}, {99, "values outside the registered space: "}} {
		partial := Ack{State: AckPartial, Effective: map[string]space.Value{"n": space.Num(c.n), "other": space.Num(1)}}
		s, _, err := Step(registered(), Acknowledge{Revision: 1, Ack: partial}, at(1))
		if err != nil {
			t.Fatal(err)
		}
		config, err := s.Effective(s.Configuration(1))
		incumbent, again := s.Incumbent(values(5))
		if c.want == "" && (err != nil || again != nil || !config.Equal(values(3)) || !incumbent.Equal(values(3))) {
			t.Errorf("%g: %s, %v; %s, %v", c.n, config, err, incumbent, again)
		}
		if c.want != "" && (err == nil || again == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%g: %v, %v", c.n, err, again)
		}
		if condition, why := s.Condition(&s.Instances[0], at(1), time.Hour); (condition == Degraded) != (c.want != "") {
			t.Errorf("%g: %s: %s", c.n, condition, why)
		}
	}
}

// TestIncumbentOfMost: a manual change of one instance is not in force while most run their offer.
func TestIncumbentOfMost(t *testing.T) {
	s := registered()
	for i, n := range []float64{7, 0, 0, 7, 7} { // 0: as offered
		a := Ack{Instance: fmt.Sprint("i", i), State: AckApplied}
		if n > 0 {
			a.State, a.Effective = AckPartial, map[string]space.Value{"n": space.Num(n)}
		}
		var err error
		if s, _, err = Step(s, Acknowledge{Revision: 1, Ack: a}, at(i+1)); err != nil {
			t.Fatal(err)
		}
		want := []int{7, 7, 0, 7, 7}[i] // the first of equals
		if got, err := s.Incumbent(values(5)); err != nil || !got.Equal(values(want)) {
			t.Errorf("of %d: %s, want %d, %v", i+1, got, want, err)
		}
	}
}
