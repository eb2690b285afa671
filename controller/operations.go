package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
)

// ErrCanceled is how an operation ended that a caller cancelled.
var ErrCanceled = errors.New("the operation was cancelled")

// maxOperations bounds the operations that are known. The oldest that ended is forgotten first.
const maxOperations = 1000

// Operation is work that a caller asked for and that goes on after the answer. Operations are kept in
// memory: a restart forgets them, and what was under way.
type Operation struct {
	ID        string
	Scheduler string
	Actor     string    // who asked for it
	Created   time.Time // of the service's clock
	Ended     time.Time // zero before
	Err       error     // why it failed, nil if it did not
	// Round is the record of the round that was decided, 0 for none; Outcome what it decided.
	Round   int64
	Outcome string
}

// running is an Operation with what its end needs. Its Operation is guarded by operations.mu.
type running struct {
	Operation
	origin  audit.Origin
	started bool
	done    chan struct{} // closed at its end
}

// operations are those of a service. mu is taken after managed.mu.
type operations struct {
	mu  sync.Mutex
	all []*running // oldest first
}

func (o *operations) add(r *running) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) >= maxOperations {
		oldest := slices.IndexFunc(o.all, func(r *running) bool { return !r.Ended.IsZero() })
		if oldest < 0 {
			return fmt.Errorf("%d operations are under way: %w", len(o.all), ErrBusy)
		}
		o.all = slices.Delete(o.all, oldest, oldest+1)
	}
	o.all = append(o.all, r)
	return nil
}

// end notes the end of an operation, unless it ended before.
func (o *operations) end(r *running, at time.Time, err error, round int64, outcome string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Ended.IsZero() {
		r.Ended, r.Err, r.Round, r.Outcome = at, err, round, outcome
		close(r.done)
	}
}

func (o *operations) find(id string) (*running, Operation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.all {
		if r.ID == id {
			return r, r.Operation, nil
		}
	}
	return nil, Operation{}, fmt.Errorf("operation %q: %w", id, ErrNotFound)
}

// TriggerRound asks for a round at the latest event time, beside those that are due. One may wait
// or be under way for each scheduler.
func (s *Service) TriggerRound(ctx context.Context, id string) (Operation, error) {
	m, err := s.whole(id)
	if err != nil {
		return Operation{}, err
	}
	origin := audit.FromContext(ctx)
	r := &running{Operation: Operation{ID: s.o.NewID(), Scheduler: id, Actor: origin.Actor, Created: s.now()},
		origin: origin, done: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	if why := m.untriggered(); why != "" {
		return Operation{}, fmt.Errorf("%w: no round of scheduler %q can be decided: %s", rollout.ErrState, id, why)
	}
	if m.triggered != nil {
		return Operation{}, fmt.Errorf("operation %q of scheduler %q: %w", m.triggered.ID, id, ErrBusy)
	}
	if err := s.operations.add(r); err != nil {
		return Operation{}, err
	}
	m.triggered = r
	s.o.Log.InfoContext(ctx, "round triggered", "scheduler", id, "operation", r.ID)
	asked := r.Operation // it may end at once
	s.startRound(m)
	return asked, nil
}

// untriggered says why no round can be decided now, "" if one can. mu is held.
func (m *managed) untriggered() string {
	v := m.snapshot.Load()
	select {
	case <-m.ready:
	default:
		return "its events are still being read"
	}
	switch {
	case v.Type == External:
		return "it is not simulated"
	case !v.Deleted.IsZero():
		return "the scheduler is deleted"
	case v.Paused:
		return "tuning is paused"
	case v.Zero.IsZero() || !m.history.clock.running:
		return "it has no events yet"
	}
	return v.held(m.history.clock.latest)
}

// startTriggered starts the round that a caller asked for. mu is held.
func (s *Service) startTriggered(m *managed) {
	r := m.triggered
	if r == nil || r.started || m.setting {
		return
	}
	if why := m.untriggered(); why != "" {
		m.triggered = nil
		s.operations.end(r, s.now(), fmt.Errorf("%w: %s", rollout.ErrState, why), 0, "")
		return
	}
	r.started = true
	v := m.snapshot.Load()
	due := roundID{number: v.Round, interval: v.Policy.UpdateInterval, clockSet: v.ClockSet, origin: &r.origin,
		mark: m.history.clock.latest}
	s.start(m, func() func() {
		before := m.recorded
		note := s.finishRound(m, due)
		sequence := m.recorded // of this goroutine, which has the turn
		if sequence == before {
			sequence = 0
		}
		return func() {
			note()
			m.triggered = nil
			err := error(nil)
			if m.status.LastError != "" {
				err = errors.New(m.status.LastError)
			}
			s.operations.end(r, s.now(), err, sequence, m.status.LastDecision)
		}
	})
}

// Operation returns an operation.
func (s *Service) Operation(id string) (Operation, error) {
	_, o, err := s.operations.find(id)
	return o, err
}

// Operations returns the operations of a scheduler, or of all if it is "", newest first.
func (s *Service) Operations(scheduler string) (out []Operation) {
	s.operations.mu.Lock()
	defer s.operations.mu.Unlock()
	for _, r := range slices.Backward(s.operations.all) {
		if scheduler == "" || r.Scheduler == scheduler {
			out = append(out, r.Operation)
		}
	}
	return out
}

// WaitOperation returns an operation once it ended, or unchanged when the context ends.
func (s *Service) WaitOperation(ctx context.Context, id string) (Operation, error) {
	r, _, err := s.operations.find(id)
	if err != nil {
		return Operation{}, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	case <-s.ctx.Done():
		return Operation{}, ErrClosed
	}
	return s.Operation(id)
}

// CancelOperation ends an operation. To cancel one that ended changes nothing.
func (s *Service) CancelOperation(ctx context.Context, id string) (Operation, error) {
	r, o, err := s.operations.find(id)
	if err != nil || !o.Ended.IsZero() {
		return o, err
	}
	if m, err := s.find(o.Scheduler); err == nil {
		m.mu.Lock()
		if m.triggered == r && !r.started {
			m.triggered = nil
		} else if m.triggered == r {
			s.queue.Cancel(m.id, dropped(ErrCanceled.Error()))
		}
		m.mu.Unlock()
	}
	s.operations.end(r, s.now(), ErrCanceled, 0, "")
	s.o.Log.InfoContext(ctx, "operation cancelled", "scheduler", o.Scheduler, "operation", id)
	return s.Operation(id)
}
