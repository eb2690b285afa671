package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// A scheduler's event clock is its latest event's time. Rounds run on it, so a
// single event with a wrong time must not move it for ever:
//
//   - An event more than maxAhead beyond it is refused, and one before the
//     horizon, to which no later round looks back, is too late.
//   - If several such events in a row agree on another time, it is the clock that
//     is wrong, or the scheduler was away: the clock is set to their time. To go
//     back it takes as many as hold the clock where it is, so that a backfill does
//     not turn it back.
//
// What was taken in before the clock went back, and lies beyond it now, no longer
// counts.
const (
	maxAhead = 7 * 24 * time.Hour
	agreeing = 10   // events that set the clock: more than one that is sent again or a stray few
	holding  = 1000 // the most it takes to set it back
)

// horizon is the event time before which nothing counts any more.
func (v *view) horizon() time.Duration {
	return v.roundTime() - round.Retention
}

// roundTime is the instant of the last round. The clock is never before it.
func (v *view) roundTime() time.Duration {
	return time.Duration(v.Round) * v.Policy.UpdateInterval
}

// reach is how far a clock gets by times that are sorted: each counts if it is
// no more than maxAhead beyond it by then.
func reach(clock time.Duration, sorted []time.Duration) time.Duration {
	for _, at := range sorted {
		if at > clock+maxAhead {
			break
		}
		clock = max(clock, at)
	}
	return clock
}

// begin finds the first of the times that a first batch agrees on: those that no
// gap of more than maxAhead parts from the middle one.
func begin(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	i := (len(times) - 1) / 2
	for i > 0 && times[i]-times[i-1] <= maxAhead {
		i--
	}
	return times[i]
}

// strays are events in a row that do not fit the clock and agree on another.
type strays struct {
	ids         map[string]struct{}
	first, last time.Duration
}

// sortOut tells apart what becomes of a batch: what is fresh, and the strays
// among the events that make sense.
func (t *tuned) sortOut(v *view, zero time.Time, events []workload.Event) (out IngestResult, fresh, stray []workload.Event) {
	var new []int
	var times []time.Duration
	batch := workload.NewLedger(workload.Cluster{}) // knows what makes sense
	for i := range events {
		e := &events[i]
		t.mu.Lock()
		_, dup := t.seen[e.ID]
		t.mu.Unlock()
		isNew := false
		if !dup {
			var err error
			if isNew, err = batch.Apply(*e); err != nil {
				out.Rejected = append(out.Rejected, RejectedEvent{Index: i, ID: e.ID, Err: err})
				continue
			}
		}
		if !isNew {
			out.Duplicates++
			continue
		}
		new, times = append(new, i), append(times, e.Time)
	}
	if len(new) == 0 {
		return out, nil, nil
	}
	clock, horizon := t.latest, v.horizon()
	if t.status.Events == 0 { // any first event will do
		clock = begin(times)
		horizon = clock - round.Retention
	}
	slices.Sort(times)
	end := reach(clock, times)
	for _, i := range new {
		switch e := events[i]; {
		case e.Time > end:
			out.Rejected = append(out.Rejected, RejectedEvent{Index: i, ID: e.ID, Err: fmt.Errorf("time: is more than %d days after the latest event, %s: is a clock wrong?",
				maxAhead/(24*time.Hour), zero.Add(end).Format(time.RFC3339))})
			stray = append(stray, e)
		case e.Time < horizon:
			out.Late++
			stray = append(stray, e)
		default:
			fresh = append(fresh, e)
		}
	}
	slices.SortFunc(out.Rejected, func(a, b RejectedEvent) int { return cmp.Compare(a.Index, b.Index) })
	return out, fresh, stray
}

// strayed notes strays in a row and reports the time they agree on once they are
// enough to set the clock to it.
func (t *tuned) strayed(events []workload.Event) (to time.Duration, enough bool) {
	for i := range events {
		s, at := &t.strays, events[i].Time
		if len(s.ids) == 0 || at < s.first-maxAhead || at > s.last+maxAhead {
			*s = strays{ids: map[string]struct{}{}, first: at, last: at}
		}
		s.first, s.last = min(s.first, at), max(s.last, at)
		if len(s.ids) < holding {
			s.ids[events[i].ID] = struct{}{}
		}
	}
	need := agreeing
	if t.strays.last < t.latest {
		need = min(max(need, t.held), holding)
	}
	return t.strays.last, len(t.strays.ids) >= need
}

// setClock sets a scheduler's clock to where its events agree it is, and reads
// again from disk what is known by then. Rounds go on an interval later.
func (s *Service) setClock(ctx context.Context, t *tuned, to time.Duration) error {
	t.mu.Lock()
	t.setting = true // no round begins
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.setting = false
	}()
	err := s.update(ctx, t, func(v *view) (*Change, error) {
		next := v.Scheduler
		next.Round, next.ClockSet = dueRound(to, next.Policy.UpdateInterval), next.ClockSet+1
		return &Change{Scheduler: next}, nil
	})
	if err != nil {
		return err
	}
	v := t.view.Load()
	s.o.Log.Warn("event clock set by events that agree", "scheduler", t.id, "from", v.Zero.Add(t.latest), "to", v.Zero.Add(to))
	again := newTuned(Saved{Scheduler: v.Scheduler, Space: t.space, Configurations: v.configs})
	if err := s.replay(map[string]*tuned{t.id: again}); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strays, t.latest, t.held = strays{}, to, 0
	if again.status.Events > 0 {
		t.latest = max(to, again.latest)
	}
	t.seen, t.ledger, t.pending = again.seen, again.ledger, nil
	t.status.Events, t.status.EventTime = again.status.Events, again.status.EventTime
	return nil
}

// replay fills schedulers with their events from disk, less those that lie
// beyond their clock: it is at the last round or later, and gets as far as the
// events after that take it.
func (s *Service) replay(into map[string]*tuned) error {
	after := map[string][]workload.Event{}
	err := s.o.Store.ReplayEvents(func(id string, e workload.Event) error {
		switch t := into[id]; {
		case t == nil:
		case e.Time > t.view.Load().roundTime():
			after[id] = append(after[id], e)
		default:
			t.take(e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, t := range into {
		v := t.view.Load()
		times := make([]time.Duration, len(after[id]))
		for i := range after[id] {
			times[i] = after[id][i].Time
		}
		slices.Sort(times)
		end := reach(v.roundTime(), times)
		for _, e := range after[id] {
			if e.Time <= end {
				t.take(e)
			}
		}
		if t.status.Events > 0 {
			t.latest = max(t.latest, end)
			t.ledger.Forget(v.horizon())
			t.forget(v.horizon())
		}
	}
	return nil
}

// forget drops the ids of events before the horizon: they are too late by now,
// whether they were seen or not. t.mu is held, or the scheduler is not shared
// yet.
func (t *tuned) forget(horizon time.Duration) {
	for id, at := range t.seen {
		if at < horizon {
			delete(t.seen, id)
		}
	}
}
