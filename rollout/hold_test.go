package rollout

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseQuietHours(t *testing.T) {
	for _, c := range []struct{ start, end, zone, want string }{
		{"22:00", "06:00", "Europe/Berlin", "22:00 to 06:00 Europe/Berlin"},
		{"00:00", "24:00", "", "00:00 to 24:00 UTC"},
		{"9:00", "10:00", "", `start "9:00" is not a time of the day such as 22:00`},
		{"09:00", "25:00", "", `end "25:00" is not a time of the day such as 22:00`},
		{"09:00", "09:00", "", "start and end are both 09:00: for the whole day say 00:00 to 24:00"},
		{"24:00", "09:00", "", "start 24:00 is the end of a day: want 00:00 to 23:59"},
		{"09:00", "10:00", "Mars", `time zone "Mars" is not known: want a name such as Europe/Berlin`},
		{"09:00", "10:00", "Local", `time zone "Local" is not known: want a name such as Europe/Berlin`},
	} {
		q, err := ParseQuietHours(c.start, c.end, c.zone)
		got := q.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s-%s %s: %s, want %s", c.start, c.end, c.zone, got, c.want)
		}
	}
}

// TestQuietHoursFollowTheClock: they begin and end by the clock of their zone, across midnight and
// when clocks are set to summer time and back.
func TestQuietHoursFollowTheClock(t *testing.T) {
	q, err := ParseQuietHours("22:00", "02:30", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day, err := ParseQuietHours("09:00", "24:00", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at    string
		night bool
		day   bool
	}{
		{"2024-01-10T20:59:59Z", false, true},
		{"2024-01-10T21:00:00Z", true, true},
		{"2024-01-11T01:29:59Z", true, false},
		{"2024-01-11T01:30:00Z", false, false},
		{"2024-07-10T20:00:00Z", true, true},
		{"2024-03-31T00:59:59Z", true, false}, // 01:59:59, the hour from 2 to 3 is left out
		{"2024-03-31T01:00:00Z", false, false},
		{"2024-10-27T00:29:00Z", true, false}, // 02:29 for the first time
		{"2024-10-27T01:29:00Z", true, false}, // and again
		{"2024-10-27T01:30:00Z", false, false},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if q.include(at) != c.night || day.include(at) != c.day {
			t.Errorf("%s: %v and %v, want %v and %v", c.at, q.include(at), day.include(at), c.night, c.day)
		}
	}
}

// hour is an event time.
func hour(n float64) time.Time { return at(0).Add(time.Duration(n * float64(time.Hour))) }

// tune is a round's winner at an hour, acknowledged at once.
func tune(n int, h float64) []Event {
	return []Event{Publish{Config: values(n), Origin: FromTuning, At: hour(h)}}
}

func TestHold(t *testing.T) {
	noon := QuietHours{Start: 12 * time.Hour, End: 13 * time.Hour}
	back := func(to int64, h float64) []Event { return []Event{Rollback{To: to, At: hour(h)}} }
	for _, c := range []struct {
		name   string
		limits Limits
		events [][]Event
		n      int
		at     float64
		want   string
	}{
		{"nothing is limited", Limits{}, [][]Event{tune(1, 1), tune(0, 2), tune(1, 3), back(1, 3.5)}, 1, 4, ""},
		{"fewer changes than allowed", Limits{ChangesPerDay: 2}, [][]Event{tune(1, 1)}, 2, 2, ""},
		{"as many as allowed", Limits{ChangesPerDay: 2}, [][]Event{tune(1, 1), tune(2, 2)}, 3, 24.9,
			"changes by tuning in 24 hours: 2 of 2 (revision 2, 3); the next one may come at 2024-01-02T01:00:00Z"},
		{"a day later", Limits{ChangesPerDay: 2}, [][]Event{tune(1, 1), tune(2, 2)}, 3, 25, ""},
		{"the clock was set back", Limits{ChangesPerDay: 1}, [][]Event{tune(1, 100)}, 2, 2, ""},
		{"an operator's rollback is no change by tuning", Limits{ChangesPerDay: 2},
			[][]Event{tune(1, 1), back(1, 2)}, 2, 3, ""},
		{"an approved proposal is one", Limits{ChangesPerDay: 1},
			[][]Event{{propose(1), Approve{Revision: 2, At: hour(1)}}}, 2, 2,
			"changes by tuning in 24 hours: 1 of 1 (revision 2); the next one may come at 2024-01-02T01:00:00Z"},
		{"after a rollback", Limits{RollbackHold: 6 * time.Hour}, [][]Event{tune(1, 1), back(1, 2)}, 2, 7.9,
			"an operator went back to revision 3: tuning changes nothing until 2024-01-01T08:00:00Z"},
		{"the hold of a rollback is over", Limits{RollbackHold: 6 * time.Hour}, [][]Event{tune(1, 1), back(1, 2)}, 2, 8, ""},
		{"quiet hours", Limits{QuietHours: []QuietHours{noon}}, nil, 1, 12, "quiet hours are 12:00 to 13:00 UTC"},
		{"after quiet hours", Limits{QuietHours: []QuietHours{noon}}, nil, 1, 13, ""},
		{"the first return", Limits{FlapWindow: 24 * time.Hour}, [][]Event{tune(1, 1)}, 0, 2, ""},
		{"the second return", Limits{FlapWindow: 24 * time.Hour}, [][]Event{tune(1, 1), tune(0, 2)}, 1, 3,
			"these values were left at 2024-01-01T02:00:00Z, and revision 3 returned to earlier values already: " +
				"tuning does so once in 24 h"},
		{"new values are no return", Limits{FlapWindow: 24 * time.Hour}, [][]Event{tune(1, 1), tune(0, 2)}, 2, 3, ""},
		{"a return a day later", Limits{FlapWindow: 24 * time.Hour}, [][]Event{tune(1, 1), tune(0, 2)}, 1, 26, ""},
		{"an operator's return does not count", Limits{FlapWindow: 24 * time.Hour},
			[][]Event{tune(1, 1), back(1, 2)}, 1, 3, ""},
	} {
		s := registered()
		s.Limits = c.limits
		for i, events := range c.events {
			for _, e := range events {
				var err error
				if s, _, err = Step(s, e, at(i)); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
			}
		}
		for _, proposal := range []bool{false, true} {
			got, want := "", c.want
			e := Publish{Config: values(c.n), Origin: FromTuning, At: hour(c.at), Propose: proposal}
			if err := s.CheckAdoption(e, s.Basis()); err != nil {
				got = err.Error()
			}
			if proposal {
				want = "" // changes nothing
			}
			if got != want {
				t.Errorf("%s, proposed %v: %s\nwant %s", c.name, proposal, got, want)
			}
		}
	}
}

// TestHoldsUnderNoise: rounds that find another best configuration at random all the time, with
// operators who roll back now and then, change no more than the limits allow.
func TestHoldsUnderNoise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		begin := time.Duration(rapid.IntRange(0, 23).Draw(t, "quiet from")) * time.Hour
		limits := Limits{ChangesPerDay: rapid.IntRange(1, 8).Draw(t, "changes"), FlapWindow: 24 * time.Hour,
			RollbackHold: time.Duration(rapid.IntRange(1, 30).Draw(t, "hold")) * time.Hour,
			QuietHours: []QuietHours{{Start: begin, End: (begin + 5*time.Hour) % (24 * time.Hour),
				Zone: rapid.SampledFrom([]string{"", "America/New_York", "Asia/Kolkata"}).Draw(t, "zone")}}}
		s := registered()
		s.Limits = limits
		type change struct {
			at   time.Time
			hash string
		}
		offered := []change{{hash: s.Offered().Hash}} // all
		var tuned, returns []time.Time
		var rolledBack time.Time
		apply := func(e Event, now time.Time) {
			var err error
			if s, _, err = Step(s, e, now); err != nil {
				t.Fatal(err)
			}
			if c := s.Offered(); c.Hash != offered[len(offered)-1].hash {
				offered = append(offered, change{now, c.Hash})
			}
			if s, _, err = Step(s, ack(s.OfferedRevision, AckApplied), now); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rapid.IntRange(24, 24*8).Draw(t, "rounds") {
			now := hour(float64(i) / 2)
			if rng.Float64() < .01 && s.OfferedRevision > 1 {
				last := s.LastRevision
				apply(Rollback{To: 1 + rng.Int64N(s.LastRevision), At: now}, now)
				if s.LastRevision > last {
					rolledBack = now
				}
				continue
			}
			noise := [4]float64{}
			best := 0
			for n := range noise {
				if noise[n] = rng.NormFloat64(); noise[n] > noise[best] {
					best = n
				}
			}
			e := Publish{Config: values(best), Origin: FromTuning, At: now}
			if s.CheckAdoption(e, s.Basis()) != nil {
				continue
			}
			hash := e.Config.Hash()
			for k := range offered[:len(offered)-1] {
				if offered[k].hash == hash && now.Sub(offered[k+1].at) < 24*time.Hour {
					returns = append(returns, now)
					break
				}
			}
			apply(e, now)
			tuned = append(tuned, now)
			if limits.QuietHours[0].include(now) {
				t.Fatalf("changed at %v, in quiet hours %v", now, limits.QuietHours[0])
			}
			if !rolledBack.IsZero() && now.Sub(rolledBack) < limits.RollbackHold {
				t.Fatalf("changed at %v, after a rollback at %v", now, rolledBack)
			}
		}
		for i := range tuned {
			if k := i - limits.ChangesPerDay; k >= 0 && tuned[i].Sub(tuned[k]) < 24*time.Hour {
				t.Fatalf("%d changes from %v to %v", limits.ChangesPerDay+1, tuned[k], tuned[i])
			}
		}
		for i := 1; i < len(returns); i++ {
			if returns[i].Sub(returns[i-1]) < 24*time.Hour {
				t.Fatalf("values returned at %v and %v", returns[i-1], returns[i])
			}
		}
	})
}

// TestNoiseChangesMuch: without limits the same rounds change and return all the time.
func TestNoiseChangesMuch(t *testing.T) {
	s := registered()
	rng := rand.New(rand.NewPCG(1, 1))
	changes := 0
	for i := range 24 {
		e := Publish{Config: values(rng.IntN(4)), Origin: FromTuning, At: hour(float64(i))}
		if s.CheckAdoption(e, s.Basis()) == nil {
			changes++
			s, _, _ = Step(s, e, at(i))
		}
	}
	if changes < 12 {
		t.Errorf("%d changes in 24 rounds", changes)
	}
}

// TestOfferedAt: every offer has the event time at which it was made, or that of the last one.
func TestOfferedAt(t *testing.T) {
	s := registered()
	for _, events := range [][]Event{tune(1, 1), {ack(2, AckApplied), propose(2), Approve{Revision: 3, At: hour(2)}},
		{ack(3, AckApplied), ack(3, AckRejected)}, {Rollback{To: 1, At: hour(4)}},
		{Revert{Incident: Incident{At: hour(5), Revision: 5, Good: 4}}}} {
		for _, e := range events {
			var err error
			if s, _, err = Step(s, e, at(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for _, c := range s.Configurations {
		got = append(got, fmt.Sprintf("%d %v", c.Revision, c.OfferedAt.Sub(hour(0)).Hours()))
	}
	first := s.Configurations[0].OfferedAt
	if want := "2 1, 3 2, 4 2, 5 4, 6 5"; strings.Join(got[1:], ", ") != want || !first.IsZero() {
		t.Errorf("%v, want %s", got, want)
	}
}

// FuzzQuietHours: quiet hours that are read are written as they are read.
func FuzzQuietHours(f *testing.F) {
	f.Add("22:00", "06:00", "Europe/Berlin")
	f.Add("00:00", "24:00", "")
	f.Fuzz(func(t *testing.T, start, end, zone string) {
		q, err := ParseQuietHours(start, end, zone)
		if err != nil {
			return
		}
		again, err := ParseQuietHours(Clock(q.Start), Clock(q.End), q.Zone)
		if err != nil || again != q {
			t.Fatalf("%q to %q %q is %v, which reads as %v, %v", start, end, zone, q, again, err)
		}
		q.include(time.Date(2024, 3, 31, 2, 30, 0, 0, time.UTC))
	})
}
