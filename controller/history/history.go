// Package history keeps the events of a scheduler that count: it recognises repeated ones, bounds the event clock, and
// folds events into a ledger. Times are event times since the scheduler's Zero. The package has no locks,
// goroutines or I/O.
package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// History is derived from a scheduler's events and rebuilt at startup.
type History struct {
	ids     map[uint64]identity // of events since the horizon, by the hash of their id
	cluster workload.Cluster    // of the ledger, as registered
	ledger  *workload.Ledger
	clock   clock
	events  int64
	last    time.Duration    // latest time of an event
	pending []workload.Event // registered, but not yet in the ledger
	applied time.Duration    // event time before the first of them
	written string           // the cursor of the last of them
	cursor  string           // of the last event in the ledger
	trimmed time.Duration    // the horizon of the last Trim
}

// New returns the history of a scheduler without events.
func New(c workload.Cluster) *History {
	return &History{ids: map[uint64]identity{}, cluster: c, ledger: workload.NewLedger(c)}
}

// Ledger returns the ledger of the events up to Cursor.
func (h *History) Ledger() *workload.Ledger { return h.ledger }

// Cluster returns the cluster that the ledger was made for.
func (h *History) Cluster() workload.Cluster { return h.cluster }

// Running reports whether there was an event, before which the clock shows nothing.
func (h *History) Running() bool { return h.clock.running }

// Now returns the event time: that of the latest event, or the one that the clock was set to.
func (h *History) Now() time.Duration { return h.clock.latest }

// Known returns the event time up to which the ledger has the events: Now, unless some wait for Apply.
func (h *History) Known() time.Duration {
	if len(h.pending) > 0 {
		return h.applied
	}
	return h.clock.latest
}

// Events returns the number of events that count.
func (h *History) Events() int64 { return h.events }

// Applied returns the number of events in the ledger.
func (h *History) Applied() int64 { return h.events - int64(len(h.pending)) }

// Last returns the latest time of an event.
func (h *History) Last() time.Duration { return h.last }

// Cursor returns the place in the store of the last event in the ledger.
func (h *History) Cursor() string { return h.cursor }

// Remembered returns the number of event ids by which repeated events are recognised.
func (h *History) Remembered() int { return len(h.ids) }

// register registers a new event everywhere except in the ledger. It reports false for a known one.
func (h *History) register(e *workload.Event) bool {
	id := hashID(e.ID)
	if _, dup := h.ids[id]; dup {
		return false
	}
	h.ids[id] = identify(e)
	h.clock.advance(e.Time)
	if h.events == 0 || e.Time > h.last {
		h.last = e.Time
	}
	h.events++
	return true
}

// Append registers stored events, the last of which is at a cursor. They enter the ledger with Apply.
func (h *History) Append(events []workload.Event, cursor string) {
	h.applied = h.Known()
	for i := range events {
		if h.register(&events[i]) {
			h.pending = append(h.pending, events[i])
		}
	}
	h.written = cursor
}

// Apply brings the ledger up to date.
func (h *History) Apply() {
	for i := range h.pending {
		h.ledger.Apply(h.pending[i])
	}
	h.pending, h.cursor = nil, h.written
}

// Replay registers an event read from the store and applies it. Replayed must follow the last one.
func (h *History) Replay(e *workload.Event) {
	if h.register(e) {
		h.ledger.Apply(*e)
	}
}

// Replayed ends a replay up to a cursor: the clock is at least at end, and events before the horizon are forgotten.
func (h *History) Replayed(cursor string, end, horizon time.Duration) {
	h.cursor, h.written = cursor, cursor
	if h.clock.running {
		h.clock.latest = max(h.clock.latest, end)
		h.ledger.Forget(horizon)
		h.Forget(horizon)
	}
}

// Forget drops the ids of events before the horizon. Such events are late, known or not.
func (h *History) Forget(horizon time.Duration) {
	before := minutes(horizon)
	for id, known := range h.ids {
		if known.at < before {
			delete(h.ids, id)
		}
	}
}

// trimEvery is the event time between two calls of Trim that do anything, each of which takes time for all that is
// remembered.
const trimEvery = round.Retention / 8

// Trim forgets the events before the horizon, and the jobs that ended before it, now and then. The ledger must not be
// in use.
func (h *History) Trim(horizon time.Duration) {
	if h.clock.running && horizon >= h.trimmed+trimEvery {
		h.trimmed = horizon
		h.ledger.Forget(horizon)
		h.Forget(horizon)
	}
}

// SetClock sets the clock of a replayed history to the time on which strays agree, or to its latest event beyond.
func (h *History) SetClock(to time.Duration) {
	if h.clock.running {
		to = max(to, h.clock.latest)
	}
	h.clock = clock{running: h.clock.running, latest: to}
}

// TakeClock takes the clock of the history that this one replaces.
func (h *History) TakeClock(before *History) { h.clock = before.clock }

// Until counts events up to an instant, none before the first event of the history.
func (h *History) Until(events []workload.Event, at time.Duration) (n int64) {
	if h.events == 0 {
		return 0
	}
	for i := range events {
		if events[i].Time <= at {
			n++
		}
	}
	return n
}

// Kind is the outcome of an event.
type Kind uint8

// The outcomes.
const (
	Accepted  Kind = iota
	Duplicate      // known, with the same content
	Late           // before the horizon
	Rejected
)

// Outcome is that of one event of a batch.
type Outcome struct {
	Kind Kind
	Err  error // of a rejected event: "field: why"
}

// Batch is a batch of events, classified. Fresh events count; Stray ones are valid and do not fit the clock.
type Batch struct {
	Events       []workload.Event
	Outcomes     []Outcome
	Fresh, Stray []workload.Event
}

// errConflict is the error of an event whose id is known with other content.
var errConflict = errors.New("event_id: is that of an earlier event with other content")

// Classify sorts a batch: events are fresh, duplicates, late, or rejected because they are invalid, refused by check,
// or too far beyond the clock.
func (h *History) Classify(events []workload.Event, zero time.Time, horizon time.Duration,
	check func(*workload.Event) error) *Batch {
	b := &Batch{Events: events, Outcomes: make([]Outcome, len(events))}
	var unknown []int // indices
	var times []time.Duration
	seen := map[uint64]identity{}
	for i := range events {
		e := &events[i]
		id := hashID(e.ID)
		before, dup := h.ids[id]
		if !dup {
			before, dup = seen[id]
		}
		if dup && before != identify(e) {
			b.Outcomes[i] = Outcome{Rejected, errConflict}
		} else if dup {
			b.Outcomes[i].Kind = Duplicate
		} else if err := cmp.Or(e.Validate(), check(e)); err != nil {
			b.Outcomes[i] = Outcome{Rejected, err}
		} else {
			seen[id] = identify(e)
			unknown, times = append(unknown, i), append(times, e.Time)
		}
	}
	if len(unknown) == 0 {
		return b
	}
	from, end := h.clock.window(times, horizon)
	for _, i := range unknown {
		switch e := events[i]; {
		case e.Time > end:
			b.Outcomes[i] = Outcome{Rejected, fmt.Errorf(
				"time: is more than %d days after the latest event, %s: is a clock wrong?",
				MaxAhead/(24*time.Hour), zero.Add(end).Format(time.RFC3339))}
			b.Stray = append(b.Stray, e)
		case e.Time < from:
			b.Outcomes[i].Kind = Late
			b.Stray = append(b.Stray, e)
		default:
			b.Fresh = append(b.Fresh, e)
		}
	}
	return b
}

// Agreed returns the time to set the clock to, once enough stray events in a row agree on it. Fresh events end the row.
func (h *History) Agreed(b *Batch) (to time.Duration, enough bool) {
	switch {
	case len(b.Fresh) > 0:
		h.clock.strays = strays{}
	case len(b.Stray) > 0:
		return h.clock.stray(b.Stray)
	}
	return 0, false
}

// FirstZero returns the Zero of a scheduler whose first events these are, with times since the Unix epoch.
func FirstZero(events []workload.Event) time.Time {
	times := make([]time.Duration, len(events))
	for i := range events {
		times[i] = events[i].Time
	}
	return time.Unix(0, int64(begin(times))).UTC().Truncate(24 * time.Hour)
}

// SinceZero turns times since the Unix epoch into times since zero.
func SinceZero(events []workload.Event, zero time.Time) {
	offset := time.Duration(zero.UnixNano())
	for i := range events {
		e := &events[i]
		e.Time -= offset
		shift(e, offset)
		e.Active = slices.Clone(e.Active)
		for k := range e.Active {
			e.Active[k].Job.Submit -= offset
			shift(&e.Active[k], offset)
		}
	}
}

// shift moves the instants that an event names by an offset.
func shift(e *workload.Event, offset time.Duration) {
	if e.LeaseUntil != 0 {
		e.LeaseUntil -= offset
	}
	if e.HoldUntil != 0 {
		e.HoldUntil -= offset
	}
	if e.Job.Deadline != 0 {
		e.Job.Deadline = workload.DeadlineAt(e.Job.Deadline - offset)
	}
}
