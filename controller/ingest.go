package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/controller/history"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// The write path of events: Ingest validates and classifies a batch, appends fresh
// events to the store, and then to the scheduler's history and ledger.

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

// maxGroup is how many events may be ingested together: more are no faster per event.
const maxGroup = 1000

// ingestCall is one caller's batch, waiting to be ingested together with others.
type ingestCall struct {
	ctx    context.Context
	call   Call // who sent them
	events []workload.Event
	done   chan struct{} // closed once all below is set
	result IngestResult
	err    error
}

// Look is a finding of the judge about an adopted configuration.
type Look struct {
	Revision    int64
	Applied, At time.Time // in event time
	Verdict     round.Verdict
}

// Ingest stores events and returns when they are durable. Times in events are
// since the Unix epoch. Duplicate and late events are counted, and invalid ones
// reported, without holding up the others. Concurrent callers share a commit, in the
// order in which they came. It waits until Run has read the scheduler's history. If the
// context ends first, the events may have been stored.
func (s *Service) Ingest(ctx context.Context, call Call, id string, events []workload.Event) (IngestResult, error) {
	m, err := s.active(id)
	if err != nil {
		return IngestResult{}, err
	}
	if err := cmp.Or(s.await(ctx, s.launched), s.await(ctx, m.ready)); err != nil {
		return IngestResult{}, err
	}
	if len(events) == 0 {
		return IngestResult{}, nil
	}
	one := &ingestCall{ctx: ctx, call: call, events: events, done: make(chan struct{})}
	if !s.enqueue(m, one) {
		return IngestResult{}, ErrClosed
	}
	select {
	case <-one.done:
		return one.result, one.err
	case <-ctx.Done():
		return IngestResult{}, ctx.Err()
	}
}

// enqueue adds a call, and starts ingestCalls unless it runs. It reports false if the
// service is closed.
func (s *Service) enqueue(m *schedulerState, call *ingestCall) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	if m.inbox.add(call) {
		s.wg.Go(func() { s.ingestCalls(m) }) // Close sets closed before it waits
	}
	return true
}

// ingestCalls ingests calls until none waits. Calls that come while a group is written make
// up the next one.
func (s *Service) ingestCalls(m *schedulerState) {
	for {
		m.mu.Lock()
		group := m.inbox.take()
		m.mu.Unlock()
		if len(group) == 0 {
			return
		}
		if err := s.ingestGroup(m, group); err != nil {
			for _, c := range group {
				c.result, c.err = IngestResult{}, err
			}
		}
		for _, c := range group {
			close(c.done)
		}
	}
}

// ingestGroup ingests the events of calls as if they were one batch.
func (s *Service) ingestGroup(m *schedulerState, group []*ingestCall) (err error) {
	m.ingesting.Lock()
	defer m.ingesting.Unlock()
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("ingest panicked", "scheduler", m.id, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("controller: ingest panicked: %v", p)
		}
	}()
	var events []workload.Event
	for _, c := range group {
		events = append(events, c.events...)
	}
	// Callers wait for the group.
	ctx, span := s.o.Tracer.Start(context.WithoutCancel(s.ctx), ingestSpan, trace.WithLinks(linksTo(group)...),
		trace.WithAttributes(schedulerKey.String(m.id), eventsKey.Int(len(events)), callsKey.Int(len(group))))
	defer func() { endSpan(span, err) }()
	call := Call{Origin: audit.Origin{Actor: eventsActor, Verb: "SetClock"}} // of several callers
	zero := m.snapshot.Load().Zero
	if zero.IsZero() {
		zero = history.FirstZero(events)
	}
	history.SinceZero(events, zero)
	b := s.classify(m, events, zero)
	if to, agreed := m.history.Agreed(b); agreed {
		if err := s.setClock(ctx, call, m, to); err != nil {
			return err
		}
		b = s.classify(m, events, zero)
	}
	if len(b.Fresh) > 0 {
		if !m.history.Running() {
			if err := s.initClock(ctx, call, m, zero, b.Fresh); err != nil {
				return err
			}
		}
		if err := s.o.Store.AppendEvents(ctx, m.id, b.Fresh); err != nil {
			return err
		}
		cursor, err := s.o.Store.Cursor(m.id)
		if err != nil { // rounds cannot be decided again from the store
			s.o.Log.Warn("no cursor of events", "scheduler", m.id, "err", err)
		}
		for i := range b.Fresh {
			if e := &b.Fresh[i]; e.Kind == workload.TakenSnapshot && !slices.ContainsFunc(e.Active,
				func(one workload.Event) bool { return one.Kind.OfJob() }) {
				s.o.Log.Warn("a snapshot without jobs: all that were active are taken for gone", "scheduler", m.id,
					"event", e.ID)
			}
		}
		s.hook().Events(m.id, b.Fresh)
		late := m.lateFor(b.Fresh)
		m.append(b.Fresh, cursor, late, zero, s.now())
	}
	from := 0
	for _, c := range group {
		to := from + len(c.events)
		c.result = resultOf(b, from, to)
		s.ackFromEvents(context.WithoutCancel(c.ctx), c.call, m, events[from:to], b.Outcomes[from:to])
		from = to
	}
	if len(b.Fresh) > 0 {
		if err := s.tick(s.ctx, Call{Origin: audit.Origin{Actor: tuningActor, Verb: "Rollout"}}, m); err != nil {
			s.o.Log.Error("rollout waits", "scheduler", m.id, "err", err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		s.wake(m)
	}
	return nil
}

// lateFor counts events that belong to a round which has begun already.
func (m *schedulerState) lateFor(events []workload.Event) (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.snapshot.Load()
	begun := time.Duration(dueRound(m.watermark(v), v.Policy.UpdateInterval)) * v.Policy.UpdateInterval
	return m.history.Until(events, begun)
}

// resultOf is the result of the events from one place to another.
func resultOf(b *history.Batch, from, to int) (out IngestResult) {
	for i, o := range b.Outcomes[from:to] {
		switch o.Kind {
		case history.Accepted:
			out.Accepted++
		case history.Duplicate:
			out.Duplicates++
		case history.Late:
			out.Late++
		case history.Rejected:
			out.Rejected = append(out.Rejected, RejectedEvent{Index: i, ID: b.Events[from+i].ID, Err: o.Err})
		}
	}
	return out
}

// classify sorts a batch by the scheduler's history.
func (s *Service) classify(m *schedulerState, events []workload.Event, zero time.Time) *history.Batch {
	m.mu.Lock() // ids are forgotten when a task ends
	defer m.mu.Unlock()
	horizon := m.snapshot.Load().horizon(m.history.Now())
	return m.history.Classify(events, zero, horizon, func(e *workload.Event) error {
		return s.checkOffer(m, e)
	})
}

// initClock begins a scheduler's event time with its first events.
func (s *Service) initClock(ctx context.Context, call Call, m *schedulerState, zero time.Time,
	events []workload.Event) error {
	first := slices.MinFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) }).Time
	_, err := s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		next := v.Scheduler
		next.Zero = zero
		next.Round = dueRound(first, next.Policy.UpdateInterval)
		return &Change{Scheduler: next}, nil
	})
	return err
}

// checkOffer checks that an event is about a revision of this epoch with the values that it
// names: "field: why".
func (s *Service) checkOffer(m *schedulerState, e *workload.Event) error {
	if e.Epoch != (workload.Epoch{}) {
		if err := s.CheckEpoch(e.Epoch); err != nil {
			return fmt.Errorf("epoch: %w", err)
		}
	}
	if e.Hash == "" {
		return nil
	}
	revision, _ := strconv.ParseInt(e.Revision, 10, 64)
	switch c := m.snapshot.Load().config(revision); {
	case c == nil:
		return fmt.Errorf("configuration_revision: there is no revision %s", e.Revision)
	case c.Hash != e.Hash:
		return fmt.Errorf("content_hash: %.64q is not that of revision %d, %s: the instance has other values", e.Hash,
			revision, c.Hash)
	}
	return nil
}

// ackFromEvents acknowledges the revisions that the latest of a call's new events of each
// instance say are in force.
func (s *Service) ackFromEvents(ctx context.Context, call Call, m *schedulerState, events []workload.Event,
	outcomes []history.Outcome) {
	last := map[string]*workload.Event{}
	for i := range events {
		e := &events[i]
		if before := last[e.Instance]; outcomes[i].Kind == history.Accepted && e.Kind == workload.ConfigApplied &&
			(before == nil || e.Time >= before.Time) {
			last[e.Instance] = e
		}
	}
	for _, instance := range slices.Sorted(maps.Keys(last)) {
		e := last[instance]
		revision, err := strconv.ParseInt(e.Revision, 10, 64)
		if err == nil {
			_, err = s.step(ctx, call, m, rollout.Confirm{Revision: revision, Instance: instance,
				At: m.snapshot.Load().Zero.Add(e.Time)})
		}
		if err != nil { // the event itself counts
			s.o.Log.Warn("event does not acknowledge a configuration", "scheduler", m.id, "event", e.ID, "err", err)
		}
	}
}

// setClock sets a scheduler's clock to where its events agree it is, and rebuilds
// its history from disk. Rounds go on an interval later. The caller must hold ingesting.
func (s *Service) setClock(ctx context.Context, call Call, m *schedulerState, to time.Duration) error {
	m.mu.Lock()
	m.agenda.setting = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.agenda.setting = false
		s.wake(m) // for questions that came meanwhile, whether it was set or not
	}()
	_, err := s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		next := v.Scheduler
		next.Round, next.ClockSet = dueRound(to, next.Policy.UpdateInterval), next.ClockSet+1
		next.Probation = nil // its instants are of the clock before
		return &Change{Scheduler: next}, nil
	})
	if err != nil {
		return err
	}
	v := m.snapshot.Load()
	s.o.Log.Warn("event clock set by events that agree", "scheduler", m.id, "from", v.Zero.Add(m.history.Now()),
		"to", v.Zero.Add(to))
	h, err := s.readHistory(m)
	if err != nil {
		return err
	}
	h.SetClock(to)
	m.replaceHistory(h)
	return nil
}

// rebuild replaces a scheduler's ledger, which a decision may have left half
// changed, by the one on disk.
func (s *Service) rebuild(m *schedulerState) error {
	m.ingesting.Lock()
	defer m.ingesting.Unlock()
	h, err := s.readHistory(m)
	if err != nil {
		return err
	}
	h.TakeClock(m.history)
	m.replaceHistory(h)
	return nil
}

// readHistory reads a scheduler's history from disk. The caller must hold ingesting.
func (s *Service) readHistory(m *schedulerState) (*history.History, error) {
	histories, err := s.replay(m.id, map[string]*snapshot{m.id: m.snapshot.Load()})
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	return histories[m.id], nil
}

// replaceHistory puts a history read from disk in place. The caller must hold ingesting.
func (m *schedulerState) replaceHistory(h *history.History) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history, m.broken = h, false
}
