package rollout

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// instances of the properties; the last one never acknowledges anything.
var instances = []string{"", "a", "b", "c", "silent"}

// anyEvent draws an event about revisions and instances that there may be.
var anyEvent = rapid.Custom(func(t *rapid.T) Event {
	revision := rapid.Int64Range(1, 6)
	instance := rapid.SampledFrom(instances[:4])
	n := rapid.IntRange(0, 3).Draw(t, "values")
	switch rapid.IntRange(0, 18).Draw(t, "kind") {
	case 0:
		return propose(n)
	case 1:
		return Confirm{Revision: revision.Draw(t, "confirmed"), At: at(0)}
	case 2:
		return Approve{Revision: revision.Draw(t, "approved"), Applied: rapid.Bool().Draw(t, "by hand")}
	case 3:
		return Rollback{To: rapid.Int64Range(0, 6).Draw(t, "to"), From: rapid.Int64Range(0, 6).Draw(t, "from"),
			Park: rapid.Bool().Draw(t, "park")}
	case 4, 5, 6, 7:
		state := rapid.SampledFrom([]AckState{AckApplied, AckApplied, AckPartial, AckRejected, AckFailed})
		return Acknowledge{Revision: revision.Draw(t, "acknowledged"),
			Ack: Ack{State: state.Draw(t, "ack"), Instance: instance.Draw(t, "instance")}}
	case 8:
		return revert(revision.Draw(t, "worse"), revision.Draw(t, "good"), rapid.Bool().Draw(t, "propose"))
	case 9:
		return Reject{Revision: revision.Draw(t, "rejected")}
	case 10:
		return Unpark{Revision: revision.Draw(t, "unparked")}
	case 11:
		return Forget{Instance: instance.Draw(t, "forgotten")}
	case 12:
		return Respace{Space: rapid.SampledFrom(testSpaces).Draw(t, "space"), Number: 2}
	case 13:
		return PinValues{Config: values(n), At: at(0), Pin: Pin{Reason: "test"}}
	case 14:
		return UnpinValues{}
	case 15:
		return ParkProposal{Revision: revision.Draw(t, "parked")}
	case 16, 17:
		return Tick{At: at(rapid.IntRange(0, 300).Draw(t, "event time"))}
	}
	return offer(n)
})

// reload is a state as a restart finds it.
func reload(t *rapid.T, s State) State {
	b, err := json.Marshal(s.Records)
	if err != nil {
		t.Fatal(err)
	}
	s.Records = Records{}
	if err := json.Unmarshal(b, &s.Records); err != nil {
		t.Fatal(err)
	}
	s.Upgrade()
	return s
}

func written(t *rapid.T, s State) string {
	b, err := json.Marshal(s.Records)
	if err != nil {
		t.Fatal(err)
	}
	return summary(s) + " " + string(b)
}

// Any events leave a state of which these hold: the offer is one revision, newer than
// the one before, in the space and not parked, to each instance; at most one rollout is under
// way; a poller and a watcher of an instance agree;
// equal inputs have equal results; and a restart between any two events changes nothing.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := registered()
		s.Waves, s.Keep = anyWaves.Draw(t, "waves"), rapid.IntRange(0, 2).Draw(t, "keep")
		watched := map[string]int64{}
		for i, e := range rapid.SliceOfN(anyEvent, 1, 30).Draw(t, "events") {
			before, was := summary(s), s
			next, changed, err := Step(s, e, at(i+1))
			if summary(was) != before {
				t.Fatalf("%#v changed the state it was given: %s to %s", e, before, summary(was))
			}
			if err != nil && (len(changed) > 0 || !next.Records.Equal(&s.Records) || summary(next) != before) {
				t.Fatalf("%#v failed (%v) and changed %s to %s", e, err, before, summary(next))
			}
			again, _, _ := Step(reload(t, s), e, at(i+1))
			if got, want := written(t, again), written(t, next); got != want {
				t.Fatalf("%#v after a restart: %s\nwant %s", e, got, want)
			}
			checkRevisions(t, e, &s, &next, changed, i+1)
			checkOffers(t, e, &next, watched)
			s = next
		}
	})
}

// anyWaves draws the steps of rollouts.
var anyWaves = rapid.Custom(func(t *rapid.T) Waves {
	return Waves{Canary: rapid.Bool().Draw(t, "canary"),
		Share: rapid.SampledFrom([]float64{0, .5, .7}).Draw(t, "share"),
		Soak:  rapid.SampledFrom([]time.Duration{-1, 0}).Draw(t, "soak")}
})

// TestConverges: whatever happened, restarts between any two events included, instances that follow
// their offers all end with one revision.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := registered()
		s.Waves = anyWaves.Draw(t, "waves")
		step := func(e Event) {
			if next, _, err := Step(reload(t, s), e, at(1)); err == nil {
				s = next
			}
		}
		for _, e := range rapid.SliceOfN(anyEvent, 1, 30).Draw(t, "events") {
			step(e)
		}
		for n := 0; n == 0 || s.Wave != nil; n++ {
			if n > 4 {
				t.Fatalf("%s: %s", summary(s), s.Waiting())
			}
			for _, i := range s.Instances {
				step(Acknowledge{Revision: s.Desired(i.ID).Revision, Ack: Ack{State: AckApplied, Instance: i.ID}})
			}
			step(Tick{At: hour(float64(100 + 2*n))})
			step(Tick{At: hour(float64(101 + 2*n))})
		}
		for _, i := range s.Instances {
			step(Acknowledge{Revision: s.Desired(i.ID).Revision, Ack: Ack{State: AckApplied, Instance: i.ID}})
		}
		for _, i := range s.Instances {
			if i.Revision != s.OfferedRevision {
				t.Fatalf("%s: instance %q runs revision %d", summary(s), i.ID, i.Revision)
			}
		}
	})
}

func checkRevisions(t *rapid.T, e Event, s, next *State, changed []*Configuration, now int) {
	proposed, last, spare := 0, int64(0), 0
	for _, c := range next.Configurations {
		isNew := s.Configuration(c.Revision) != c
		if isNew != slices.Contains(changed, c) {
			t.Fatalf("%#v: revision %d is new: %v, and reported as changed: %v", e, c.Revision, isNew, !isNew)
		}
		if isNew && !c.Updated.Equal(at(now)) {
			t.Fatalf("%#v: revision %d was updated at %v", e, c.Revision, c.Updated)
		}
		if c.Revision <= last || c.Hash != c.Config.Hash() {
			t.Fatalf("%#v: revision %d stands after %d", e, c.Revision, last)
		}
		if last = c.Revision; c.neverMattered() && !next.refersTo(c.Revision) {
			spare++
		}
		if (c.State == Rejected) != (next.parked(c.Hash) != nil) {
			t.Fatalf("%#v: %s, revision %d parked by %v", e, summary(*next), c.Revision, next.parked(c.Hash))
		}
		if c.State == Proposed {
			proposed++
		}
		if c.undecided() {
			if c.Revision < next.OfferedRevision {
				t.Fatalf("%#v: %s: approving revision %d would go back", e, summary(*next), c.Revision)
			}
		}
	}
	if next.LastRevision != last || proposed > 1 {
		t.Fatalf("%#v: %s: last %d, %d proposals", e, summary(*next), next.LastRevision, proposed)
	}
	added := next.LastRevision > s.LastRevision
	if next.Keep == 0 && int64(len(next.Configurations)) != last || next.Keep > 0 && added && spare > next.Keep {
		t.Fatalf("%#v: %s: %d superseded proposals, keep %d", e, summary(*next), spare, next.Keep)
	}
	for _, c := range s.Configurations {
		gone := next.Configuration(c.Revision) == nil
		if gone && (!added || c.wasOffered() || c.State == Rejected || c.Review != nil) {
			t.Fatalf("%#v: revision %d was dropped: %s", e, c.Revision, summary(*s))
		}
	}
}

// checkOffers compares the results of polls with the messages to watchers, by instance.
func checkOffers(t *rapid.T, e Event, s *State, watched map[string]int64) {
	if w := s.Wave; w != nil && (w.Stable >= s.OfferedRevision || s.Offered().Origin != FromTuning ||
		s.Offered().State == RolledOut || s.underWay() == nil) {
		t.Fatalf("%#v: %s, wave %+v", e, summary(*s), *w)
	}
	if p := s.Pin; p != nil && (p.Revision != s.OfferedRevision || s.Wave != nil) {
		t.Fatalf("%#v: %s, pinned %+v, wave %+v", e, summary(*s), *p, s.Wave)
	}
	for _, id := range instances {
		c := s.Desired(id)
		switch {
		case c == nil:
			t.Fatalf("%#v: %s offers nothing to %q", e, summary(*s), id)
		case c.Revision < watched[id]:
			t.Fatalf("%#v: %s goes back from revision %d to %d for %q", e, summary(*s), watched[id], c.Revision, id)
		case s.parked(c.Hash) != nil || !s.inSpace(c) || c.Config.Space().Check(c.Config) != nil ||
			!c.wasOffered() || c.undecided():
			t.Fatalf("%#v: %s offers revision %d to %q", e, summary(*s), c.Revision, id)
		}
		watched[id] = c.Revision // a watcher is sent every revision above its last
	}
}
