package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// offer and propose are what a round does in mode AUTO and RECOMMEND.
func offer(n int) Event   { return Publish{Config: values(n), Origin: FromTuning} }
func propose(n int) Event { return Publish{Config: values(n), Origin: FromTuning, Propose: true} }

func ack(revision int64, state AckState) Event {
	return Acknowledge{Revision: revision, Ack: Ack{State: state}}
}

// revert is what the judge does, within the day before at(24*60).
func revert(revision, good int64, propose bool) Event {
	return Revert{Incident: Incident{At: at(0), Revision: revision, Good: good, Until: at(24 * 60)}, Propose: propose}
}

// registered is a scheduler's state after its registration.
func registered() State {
	s, _, _ := Step(State{Scheduler: "s"}, Publish{Config: values(0), Origin: FromDefault}, at(0))
	return s
}

// summary writes a state as its revisions, with their values and state, then
// what is offered (>) and acknowledged (=).
func summary(s State) string {
	var parts []string
	for _, c := range s.Configurations {
		parts = append(parts, fmt.Sprintf("%d:%g %s", c.Revision, c.Config.Get("n").Float(), c.State))
	}
	return fmt.Sprintf("%s >%d =%d", strings.Join(parts, ", "), s.OfferedRevision, s.AcknowledgedRevision)
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
		{"approve parked values", []Event{offer(1), ack(2, AckRejected), propose(1), Approve{Revision: 3}},
			"1:0 published, 2:1 rejected, 3:1 proposed >1 =0", ErrRefused},
		{"a proposal applied by hand", []Event{propose(1), ack(2, AckApplied)}, "1:0 superseded, 2:1 rolled_out >2 =2",
			nil},

		{"failed", []Event{offer(1), ack(2, AckFailed)}, "1:0 superseded, 2:1 published >2 =0", nil},
		{"partially applied", []Event{offer(1), ack(2, AckPartial)}, "1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"acknowledged late", []Event{offer(1), ack(2, AckApplied), ack(1, AckApplied)},
			"1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"acknowledge nothing", []Event{ack(2, AckApplied)}, "1:0 published >1 =0", ErrNotFound},

		{"refused before anything was acknowledged",
			[]Event{offer(1), ack(2, AckRejected)}, "1:0 published, 2:1 rejected >1 =0", nil},
		{"refused: what runs is offered again",
			[]Event{ack(1, AckApplied), offer(1), ack(2, AckRejected)}, "1:0 rolled_out, 2:1 rejected >1 =1", nil},
		{"refused while a later one is offered", []Event{offer(1), offer(2), ack(2, AckRejected)},
			"1:0 superseded, 2:1 rejected, 3:2 published >3 =0", nil},
		{"refused by another instance", []Event{ack(1, AckApplied), offer(1), ack(2, AckApplied), ack(2, AckRejected)},
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =1", nil},
		{"everything refused", []Event{ack(1, AckRejected)}, "1:0 rejected >0 =0", nil},
		{"a new offer after everything was refused",
			[]Event{ack(1, AckRejected), offer(1)}, "1:0 rejected, 2:1 published >2 =0", nil},
		{"applied after it was refused", []Event{offer(1), ack(2, AckRejected), ack(2, AckApplied)},
			"1:0 published, 2:1 rejected >1 =0", ErrRefused},

		{"confirm", []Event{offer(1), Confirm{Revision: 2}}, "1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"confirm what is history", []Event{offer(1), ack(2, AckApplied), Confirm{Revision: 1}},
			"1:0 superseded, 2:1 rolled_out >2 =2", nil},
		{"confirm what was refused", []Event{offer(1), ack(2, AckRejected), Confirm{Revision: 2}},
			"1:0 published, 2:1 rejected >1 =0", ErrRefused},
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
			"1:0 superseded, 2:1 rejected, 3:0 published >3 =1", nil},
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
		{"roll back when everything was refused", []Event{ack(1, AckRejected), Rollback{}}, "1:0 rejected >0 =0",
			ErrNoCurrent},

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
			"1:0 published, 2:1 superseded, 3:2 rolled_out, 4:1 rejected >1 =3", nil},
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
		{after(), 0, Basis{1, 1}, "the best configuration is the one offered already"},
		{after(offer(1)), 2, Basis{1, 1}, "what ran changed while the round was decided"},
		{after(offer(1), ack(2, AckApplied)), 2, Basis{2, 1}, "what ran changed while the round was decided"},
		{after(offer(1), ack(2, AckRejected)), 1, Basis{1, 1}, "the scheduler refused these values before"},
		{after(propose(1)), 1, Basis{1, 1}, "revision 2 proposes the same"},
		{after(ack(1, AckRejected)), 1, Basis{0, 0}, ""},
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
	if !s.IncidentWithin(at(59), time.Hour) || s.IncidentWithin(at(60), time.Hour) || s.GoingBack() != nil {
		t.Error("the hour after the incident is not its first")
	}
	chosen, changed, err := Step(s, Rollback{To: 2}, at(9))
	if err != nil || len(changed) != 2 || len(chosen.Parked(at(10))) > 0 || len(s.Parked(at(10))) != 1 {
		t.Errorf("an operator's choice is parked: %s, %v", summary(chosen), err)
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

func TestEffective(t *testing.T) {
	for _, c := range []struct {
		state AckState
		n     float64
		want  int
	}{{AckApplied, 3, 1}, {AckPartial, 3, 3}, {AckPartial, 99, 1}} {
		cfg := Configuration{Config: values(1),
			Ack: &Ack{State: c.state, Effective: map[string]space.Value{"n": space.Num(c.n), "other": space.Num(1)}}}
		if got := cfg.Effective(testSpace); !got.Equal(values(c.want)) {
			t.Errorf("%s with %g: %s, want %d", c.state, c.n, got, c.want)
		}
	}
}

// Any events leave a state of which these hold.
func TestInvariants(t *testing.T) {
	revision := rapid.Int64Range(1, 6)
	event := rapid.Custom(func(t *rapid.T) Event {
		n := rapid.IntRange(0, 3).Draw(t, "values")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return propose(n)
		case 1:
			return Confirm{Revision: revision.Draw(t, "confirmed"), At: at(0)}
		case 2:
			return Approve{Revision: revision.Draw(t, "approved")}
		case 3:
			return Rollback{To: rapid.Int64Range(0, 6).Draw(t, "to"), From: rapid.Int64Range(0, 6).Draw(t, "from"),
				Park: rapid.Bool().Draw(t, "park")}
		case 4:
			return ack(revision.Draw(t, "acknowledged"),
				rapid.SampledFrom([]AckState{AckApplied, AckPartial, AckRejected, AckFailed}).Draw(t, "ack"))
		}
		if rapid.Bool().Draw(t, "revert") {
			return revert(revision.Draw(t, "worse"), revision.Draw(t, "good"), rapid.Bool().Draw(t, "propose"))
		}
		return offer(n)
	})
	rapid.Check(t, func(t *rapid.T) {
		s := registered()
		for i, e := range rapid.SliceOfN(event, 1, 20).Draw(t, "events") {
			before, was := summary(s), s
			next, changed, err := Step(s, e, at(i+1))
			if summary(was) != before {
				t.Fatalf("%#v changed the state it was given: %s to %s", e, before, summary(was))
			}
			if err != nil && (len(changed) > 0 || summary(next) != before) {
				t.Fatalf("%#v failed (%v) and changed %s to %s", e, err, before, summary(next))
			}
			for k, c := range next.Configurations {
				isNew := k >= len(s.Configurations) || s.Configurations[k] != c
				if isNew != slices.Contains(changed, c) {
					t.Fatalf("%#v: revision %d is new: %v, and reported as changed: %v", e, c.Revision, isNew, !isNew)
				}
				if isNew && !c.Updated.Equal(at(i+1)) {
					t.Fatalf("%#v: revision %d was updated at %v", e, c.Revision, c.Updated)
				}
				if c.Revision != int64(k+1) || c.Hash != c.Config.Hash() {
					t.Fatalf("%#v: revision %d stands at %d", e, c.Revision, k+1)
				}
			}
			proposed := 0
			for _, c := range next.Configurations {
				if c.State == Proposed {
					proposed++
				}
			}
			switch offered := next.Offered(); {
			case next.LastRevision != int64(len(next.Configurations)):
				t.Fatalf("%#v: %s has %d revisions, the last is %d",
					e, summary(next), len(next.Configurations), next.LastRevision)
			case proposed > 1:
				t.Fatalf("%#v: %s has %d proposals", e, summary(next), proposed)
			case offered == nil && next.OfferedRevision != 0,
				offered != nil && (offered.State == Rejected || offered.State == Proposed):
				t.Fatalf("%#v: %s offers revision %d", e, summary(next), next.OfferedRevision)
			}
			s = next
		}
	})
}
