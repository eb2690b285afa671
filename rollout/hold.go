package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones of QuietHours, whatever the machine has

	"github.com/autosched/autosched/internal/units"
)

// Limits bound the changes of tuning itself: neither operators nor the judge, nor values that are only
// proposed. All times are event times. The zero Limits bound nothing.
type Limits struct {
	// ChangesPerDay is the most changes by tuning in any 24 hours, 0 any number.
	ChangesPerDay int `json:"changes_per_day"`
	// FlapWindow is the time after which values that were left may return. Within it tuning
	// returns to values once; 0 is any number of times.
	FlapWindow time.Duration `json:"flap_window"`
	// RollbackHold is how long tuning changes nothing after an operator's rollback.
	RollbackHold time.Duration `json:"rollback_hold"`
	// QuietHours are the hours in which tuning changes nothing.
	QuietHours []QuietHours `json:"quiet_hours,omitempty"`
}

// DefaultLimits apply to a registration without limits.
func DefaultLimits() Limits {
	return Limits{ChangesPerDay: 6, FlapWindow: 24 * time.Hour, RollbackHold: 24 * time.Hour}
}

// QuietHours are a part of every day.
type QuietHours struct {
	// Start and End are times of the day since midnight, by the clock of Zone. An End before
	// Start is on the next day.
	Start time.Duration `json:"start"`
	End   time.Duration `json:"end"`
	// Zone is a name of the IANA time zone database; empty is UTC.
	Zone string `json:"zone,omitempty"`
}

// ParseQuietHours reads times of the day such as 22:00 and the name of a time zone. 24:00 is the
// end of the day.
func ParseQuietHours(start, end, zone string) (q QuietHours, err error) {
	q.Zone = zone
	if q.Start, err = parseTimeOfDay(start); err != nil {
		return q, fmt.Errorf("start %w", err)
	}
	if q.End, err = parseTimeOfDay(end); err != nil {
		return q, fmt.Errorf("end %w", err)
	}
	switch _, err := time.LoadLocation(zone); {
	case q.Start == 24*time.Hour:
		return q, errors.New("start 24:00 is the end of a day: want 00:00 to 23:59")
	case q.Start == q.End:
		return q, fmt.Errorf("start and end are both %s: for the whole day say 00:00 to 24:00", start)
	case err != nil || zone == "Local":
		return q, fmt.Errorf("time zone %q is not known: want a name such as Europe/Berlin", zone)
	}
	return q, nil
}

func parseTimeOfDay(text string) (time.Duration, error) {
	if text == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, fmt.Errorf("%q is not a time of the day such as 22:00", text)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// Clock is a time of the day as ParseQuietHours reads it.
func Clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d/time.Hour), int(d/time.Minute)%60)
}

// String is such as 22:00 to 06:00 Europe/Berlin.
func (q QuietHours) String() string {
	zone := q.Zone
	if zone == "" {
		zone = "UTC"
	}
	return fmt.Sprintf("%s to %s %s", Clock(q.Start), Clock(q.End), zone)
}

// include reports whether an instant is in them. In a zone that is not known they are all day.
func (q QuietHours) include(at time.Time) bool {
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		return true
	}
	at = at.In(zone)
	clock := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute +
		time.Duration(at.Second())*time.Second + time.Duration(at.Nanosecond())
	if q.Start < q.End {
		return q.Start <= clock && clock < q.End
	}
	return q.Start <= clock || clock < q.End
}

// Freeze keeps everything but operators from changing the offer, and but a scheduler that
// refuses it: parked values are not offered.
type Freeze struct {
	Reason  string    `json:"reason"`
	Actor   string    `json:"actor,omitempty"`
	Created time.Time `json:"created"`
	// Until is the event time at which it ends; zero is never.
	Until time.Time `json:"until,omitzero"`
}

// String says until when and why.
func (f *Freeze) String() string {
	text := "tuning is frozen"
	if !f.Until.IsZero() {
		text += " until " + stamp(f.Until)
	}
	if f.Actor != "" {
		text += " by " + f.Actor
	}
	return text + ": " + f.Reason
}

// Frozen returns the freeze in force at an event time, that of a pin included, nil if there is none.
func (s *State) Frozen(at time.Time) *Freeze {
	if p := s.Pinned(at); p != nil {
		return p.freeze()
	}
	if f := s.Freeze; f != nil && (f.Until.IsZero() || at.Before(f.Until)) {
		return f
	}
	return nil
}

// budgetOver is the time over which changes count.
const budgetOver = 24 * time.Hour

// since reports whether an event time is less than d after another. It is not if the event clock
// was set back since.
func since(from, at time.Time, d time.Duration) bool {
	return !from.IsZero() && !at.Before(from) && at.Before(from.Add(d))
}

// offers are the revisions that were offered, in order. The first one was, before any event.
func (s *State) offers() []*Configuration {
	return slices.DeleteFunc(slices.Clone(s.Configurations), func(c *Configuration) bool {
		return c.State == Lost || c.OfferedAt.IsZero() && c.Revision > 1
	})
}

// Hold says why tuning changes nothing at an event time, "" if it may.
func (s *State) Hold(at time.Time) string {
	if f := s.Frozen(at); f != nil {
		return f.String()
	}
	limits, offers := &s.Limits, s.offers()
	for _, c := range slices.Backward(offers) {
		if c.byOperator() && since(c.OfferedAt, at, limits.RollbackHold) {
			return fmt.Sprintf("an operator went back to revision %d: tuning changes nothing until %s", c.Revision,
				stamp(c.OfferedAt.Add(limits.RollbackHold)))
		}
	}
	for _, q := range limits.QuietHours {
		if q.include(at) {
			return fmt.Sprintf("quiet hours are %s", q)
		}
	}
	var changes []*Configuration
	for _, c := range offers {
		if c.Origin == FromTuning && since(c.OfferedAt, at, budgetOver) {
			changes = append(changes, c)
		}
	}
	if most := limits.ChangesPerDay; most > 0 && len(changes) >= most {
		var revisions []string
		for _, c := range changes {
			revisions = append(revisions, fmt.Sprint(c.Revision))
		}
		return fmt.Sprintf("changes by tuning in 24 hours: %d of %d (revision %s); the next one may come at %s",
			len(changes), most, strings.Join(revisions, ", "),
			stamp(changes[len(changes)-most].OfferedAt.Add(budgetOver)))
	}
	return ""
}

// flaps says why values may not return at an event time, "" if they may or do not return.
func (s *State) flaps(hash string, at time.Time) string {
	window := s.Limits.FlapWindow
	left := map[string]time.Time{}
	var now, returned *Configuration
	for _, c := range s.offers() {
		if now != nil && now.Hash != c.Hash {
			left[now.Hash] = c.OfferedAt
			if c.Origin == FromTuning && since(left[c.Hash], c.OfferedAt, window) && since(c.OfferedAt, at, window) {
				returned = c
			}
		}
		now = c
	}
	if returned == nil || !since(left[hash], at, window) {
		return ""
	}
	return fmt.Sprintf("these values were left at %s, and revision %d returned to earlier values already: tuning does so "+
		"once in %s", stamp(left[hash]), returned.Revision, units.Duration(window.Seconds()))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
