package history

import (
	"slices"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// An event clock bounds how far one event may move it, so that a single wrong
// clock does not stop the rounds:
//
//   - An event more than MaxAhead beyond the latest is rejected, and one before the
//     horizon, to which no later round looks back, is late.
//   - If several such events in a row agree on another time, it is the clock that
//     is wrong, or the scheduler was away: the clock is set to their time. To set
//     it back takes as many as hold it where it is, so that a backfill does not.
//
// Events beyond a clock that was set back no longer count.
const (
	// MaxAhead is how far one event moves the clock at most.
	MaxAhead = 7 * 24 * time.Hour
	agreeing = 10   // events that set the clock: more than one that is repeated or a stray few
	holding  = 1000 // the most it takes to set it back
)

// clock is a scheduler's event time, that of its latest event. It is a
// value: no clock but its own. Times count from the scheduler's Zero.
type clock struct {
	running bool          // there was an event
	latest  time.Duration // of the events; before the first, the time that the clock was set to
	held    int           // events that agree with latest
	strays  strays
}

// strays are events in a row that do not fit the clock and agree on another
// time, within MaxAhead from one to the next.
type strays struct {
	ids         map[string]struct{} // at most holding
	first, last time.Duration
}

// advance moves the clock by an event that counts.
func (c *clock) advance(at time.Duration) {
	switch {
	case !c.running || at > c.latest+MaxAhead:
		c.held = 1
	case at >= c.latest-MaxAhead:
		c.held++
	}
	if !c.running || at > c.latest {
		c.latest = at
	}
	c.running = true
}

// window returns the times that count, from the horizon to the end, in a batch
// of events at the times given. The first batch of all sets both.
func (c *clock) window(times []time.Duration, horizon time.Duration) (from, end time.Duration) {
	now := c.latest
	if !c.running {
		now = begin(times)
		horizon = now - round.Retention
	}
	return horizon, Reach(now, times)
}

// stray notes events in a row that do not fit the clock, and reports the time
// they agree on once there are enough to set the clock to it.
func (c *clock) stray(events []workload.Event) (to time.Duration, enough bool) {
	for i := range events {
		s, at := &c.strays, events[i].Time
		if len(s.ids) == 0 || at < s.first-MaxAhead || at > s.last+MaxAhead {
			*s = strays{ids: map[string]struct{}{}, first: at, last: at}
		}
		s.first, s.last = min(s.first, at), max(s.last, at)
		if len(s.ids) < holding {
			s.ids[events[i].ID] = struct{}{}
		}
	}
	need := agreeing
	if c.strays.last < c.latest {
		need = min(max(need, c.held), holding)
	}
	return c.strays.last, len(c.strays.ids) >= need
}

// Reach returns the time to which the times given move a clock: in order, each counts if it is no more than MaxAhead
// beyond the clock by then.
func Reach(clock time.Duration, times []time.Duration) time.Duration {
	for _, at := range slices.Sorted(slices.Values(times)) {
		if at > clock+MaxAhead {
			break
		}
		clock = max(clock, at)
	}
	return clock
}

// begin finds the first of the times that a first batch agrees on, which no
// gap of more than MaxAhead parts from the median.
func begin(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	i := (len(times) - 1) / 2
	for i > 0 && times[i]-times[i-1] <= MaxAhead {
		i--
	}
	return times[i]
}
