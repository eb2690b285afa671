package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/workload"
)

// The write path of events: Ingest validates and classifies a batch, appends what
// counts to the store, and then to the scheduler's history and ledger.

// IngestResult is the outcome of a batch of events.
type IngestResult struct {
	Accepted, Duplicates int
	// Late are events before the horizon, known or not.
	Late     int
	Rejected []RejectedEvent // by index
}

// RejectedEvent is an invalid event.
type RejectedEvent struct {
	Index int
	ID    string
	Err   error // "field: why"
}

// Ingest stores events and returns when they are durable. Times in events are
// since the Unix epoch. Duplicate and late events are counted, and invalid ones
// reported, without holding up the others. It waits until the scheduler's history
// is read.
func (s *Service) Ingest(ctx context.Context, id string, events []workload.Event) (IngestResult, error) {
	m, err := s.whole(id)
	if err != nil {
		return IngestResult{}, err
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		return IngestResult{}, ctx.Err()
	case <-s.ctx.Done():
		return IngestResult{}, ErrClosed
	}
	m.ingesting.Lock()
	defer m.ingesting.Unlock()
	if len(events) == 0 {
		return IngestResult{}, nil
	}
	zero := m.snapshot.Load().Zero
	if zero.IsZero() {
		zero = firstZero(events)
	}
	events = sinceZero(events, zero)
	result, fresh, stray := m.classify(events, zero)
	clock := &m.history.clock
	if len(fresh) > 0 {
		clock.strays = strays{}
	} else if len(stray) > 0 {
		if to, enough := clock.stray(stray); enough {
			if err := s.setClock(ctx, m, to); err != nil {
				return IngestResult{}, err
			}
			result, fresh, _ = m.classify(events, zero)
		}
	}
	slices.SortFunc(result.Rejected, func(a, b RejectedEvent) int { return cmp.Compare(a.Index, b.Index) })
	if len(fresh) == 0 {
		return result, nil
	}
	if !m.history.clock.running {
		if err := s.initClock(ctx, m, zero, fresh); err != nil {
			return IngestResult{}, err
		}
	}
	if err := s.o.Store.AppendEvents(ctx, id, fresh); err != nil {
		return IngestResult{}, err
	}
	result.Accepted = len(fresh)
	m.append(fresh)
	s.ackFromEvents(ctx, m, fresh)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.startRound(m)
	return result, nil
}

// firstZero is the Zero of a scheduler whose first events these are.
func firstZero(events []workload.Event) time.Time {
	times := make([]time.Duration, len(events))
	for i := range events {
		times[i] = events[i].Time
	}
	return time.Unix(0, int64(begin(times))).UTC().Truncate(24 * time.Hour)
}

// sinceZero returns events since the Unix epoch with times since zero.
func sinceZero(events []workload.Event, zero time.Time) []workload.Event {
	events = slices.Clone(events)
	offset := time.Duration(zero.UnixNano())
	for i := range events {
		e := &events[i]
		e.Time -= offset
		if e.LeaseUntil != 0 {
			e.LeaseUntil -= offset
		}
		if e.Job.Deadline != 0 {
			e.Job.Deadline = workload.DeadlineAt(e.Job.Deadline - offset)
		}
	}
	return events
}

// classify sorts a batch by the scheduler's history: fresh events count,
// duplicates are known, whatever else they say, and stray ones do not fit the
// clock. Those are late or rejected, as invalid events are.
func (m *managed) classify(events []workload.Event, zero time.Time) (out IngestResult, fresh, stray []workload.Event) {
	m.mu.Lock() // ids are forgotten when a round ends
	defer m.mu.Unlock()
	reject := func(i int, err error) {
		out.Rejected = append(out.Rejected, RejectedEvent{Index: i, ID: events[i].ID, Err: err})
	}
	var unknown []int // indices
	var times []time.Duration
	batch := map[string]bool{}
	for i := range events {
		e := &events[i]
		if _, dup := m.history.ids[e.ID]; dup || batch[e.ID] {
			out.Duplicates++
		} else if err := e.Validate(); err != nil {
			reject(i, err)
		} else {
			batch[e.ID] = true
			unknown, times = append(unknown, i), append(times, e.Time)
		}
	}
	if len(unknown) == 0 {
		return out, nil, nil
	}
	from, end := m.history.clock.window(times, m.snapshot.Load().horizon())
	for _, i := range unknown {
		switch e := events[i]; {
		case e.Time > end:
			reject(i, fmt.Errorf("time: is more than %d days after the latest event, %s: is a clock wrong?",
				maxAhead/(24*time.Hour), zero.Add(end).Format(time.RFC3339)))
			stray = append(stray, e)
		case e.Time < from:
			out.Late++
			stray = append(stray, e)
		default:
			fresh = append(fresh, e)
		}
	}
	return out, fresh, stray
}

// initClock begins a scheduler's event time with its first events.
func (s *Service) initClock(ctx context.Context, m *managed, zero time.Time, events []workload.Event) error {
	first := slices.MinFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) }).Time
	return s.commit(ctx, m, func(v *snapshot) (*Change, error) {
		next := v.Scheduler
		next.Zero = zero
		next.Round = dueRound(first, next.Policy.UpdateInterval)
		return &Change{Scheduler: next}, nil
	})
}

// ackFromEvents acknowledges the revision that the latest of new events says is in
// force.
func (s *Service) ackFromEvents(ctx context.Context, m *managed, events []workload.Event) {
	var last *workload.Event
	for i := range events {
		if e := &events[i]; e.Kind == workload.ConfigApplied && (last == nil || e.Time >= last.Time) {
			last = e
		}
	}
	if last == nil {
		return
	}
	revision, err := strconv.ParseInt(last.Revision, 10, 64)
	if err == nil {
		_, err = s.step(ctx, m, rollout.Confirm{Revision: revision, At: m.snapshot.Load().Zero.Add(last.Time)})
	}
	if err != nil { // the event itself counts
		s.o.Log.Warn("event does not acknowledge a configuration", "scheduler", m.id, "event", last.ID, "err", err)
	}
}

// setClock sets a scheduler's clock to where its events agree it is, and rebuilds
// its history from disk. Rounds go on an interval later. ingesting is held.
func (s *Service) setClock(ctx context.Context, m *managed, to time.Duration) error {
	m.mu.Lock()
	m.setting = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.setting = false
	}()
	err := s.commit(ctx, m, func(v *snapshot) (*Change, error) {
		next := v.Scheduler
		next.Round, next.ClockSet = dueRound(to, next.Policy.UpdateInterval), next.ClockSet+1
		next.Probation = nil // its instants are of the clock before
		return &Change{Scheduler: next}, nil
	})
	if err != nil {
		return err
	}
	v := m.snapshot.Load()
	s.o.Log.Warn("event clock set by events that agree", "scheduler", m.id, "from", v.Zero.Add(m.history.clock.latest),
		"to", v.Zero.Add(to))
	h, err := s.readHistory(m)
	if err != nil {
		return err
	}
	latest := to
	if h.clock.running {
		latest = max(to, h.clock.latest)
	}
	h.clock = eventClock{running: h.clock.running, latest: latest}
	m.replaceHistory(h)
	return nil
}

// rebuild replaces a scheduler's ledger, which a decision may have left half
// changed, by what is on disk.
func (s *Service) rebuild(m *managed) error {
	m.ingesting.Lock()
	defer m.ingesting.Unlock()
	h, err := s.readHistory(m)
	if err != nil {
		return err
	}
	h.clock = m.history.clock
	m.replaceHistory(h)
	return nil
}

// readHistory reads a scheduler's history from disk. ingesting is held.
func (s *Service) readHistory(m *managed) (*history, error) {
	histories, err := s.replay(m.id, map[string]*snapshot{m.id: m.snapshot.Load()})
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	return histories[m.id], nil
}

// replaceHistory puts a history read from disk in place. ingesting is held.
func (m *managed) replaceHistory(h *history) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history, m.pending, m.broken = h, nil, false
}

// replay reads schedulers' histories from disk. Only one scheduler's are read unless only
// is empty.
func (s *Service) replay(only string, schedulers map[string]*snapshot) (map[string]*history, error) {
	out := map[string]*history{}
	for id, v := range schedulers {
		out[id] = newHistory(v.Cluster)
	}
	ends, damage, err := counted(s.ctx, s.o.Store, only, schedulers, func(id string, e workload.Event) error {
		if h := out[id]; h.record(&e) {
			h.ledger.Apply(e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.noteDamage(damage)
	for id, v := range schedulers {
		if h := out[id]; h.clock.running {
			h.clock.latest = max(h.clock.latest, ends[id])
			h.ledger.Forget(v.horizon())
			h.forget(v.horizon())
		}
	}
	return out, nil
}

// EventLog is what Store has of events.
type EventLog interface {
	// ReplayEvents reads the events of one scheduler, or of all if only is empty.
	ReplayEvents(only string, apply func(scheduler string, e workload.Event) error) (damage []Damage, err error)
}

// ReadEvents calls apply with the events of a scheduler that count, in the order of the
// log, those after its last round last. Times are since the scheduler's Zero.
func ReadEvents(ctx context.Context, log EventLog, s *Scheduler, apply func(workload.Event) error) (
	damage []Damage, err error) {
	_, damage, err = counted(ctx, log, s.ID, map[string]*snapshot{s.ID: {Scheduler: *s}},
		func(_ string, e workload.Event) error { return apply(e) })
	return damage, err
}

// counted calls apply with the events that count: those up to their scheduler's clock,
// which is at the last round or later, and gets as far as the events after that take it.
// It returns where the clocks are.
func counted(ctx context.Context, log EventLog, only string, schedulers map[string]*snapshot,
	apply func(id string, e workload.Event) error) (ends map[string]time.Duration, damage []Damage, err error) {
	after := map[string][]workload.Event{}
	damage, err = log.ReplayEvents(only, func(id string, e workload.Event) error {
		switch v := schedulers[id]; {
		case ctx.Err() != nil:
			return ctx.Err()
		case v == nil:
			return nil
		case e.Time > v.roundTime():
			after[id] = append(after[id], e)
			return nil
		}
		return apply(id, e)
	})
	if err != nil {
		return nil, damage, err
	}
	ends = map[string]time.Duration{}
	for id, v := range schedulers {
		times := make([]time.Duration, len(after[id]))
		for i := range after[id] {
			times[i] = after[id][i].Time
		}
		ends[id] = reach(v.roundTime(), times)
		for _, e := range after[id] {
			if e.Time > ends[id] {
				continue
			}
			if err := apply(id, e); err != nil {
				return nil, damage, err
			}
		}
	}
	return ends, damage, nil
}
