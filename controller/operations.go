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
	"github.com/autosched/autosched/round"
)

// ErrCanceled is how an operation ended that a caller cancelled.
var ErrCanceled = errors.New("the operation was cancelled")

// ErrInterrupted is how an operation ended that was under way when the service stopped.
var ErrInterrupted = errors.New("the service restarted before the operation ended; ask again")

// The bounds of known operations: in all, and in the record of a scheduler. The oldest that
// ended is forgotten first.
const (
	maxOperations       = 1000
	schedulerOperations = 20
)

// Operation is work that a caller asked for and that goes on after the answer. The latest of each
// scheduler are stored with it.
type Operation struct {
	ID        string    `json:"id"`
	Scheduler string    `json:"-"`
	Actor     string    `json:"actor,omitempty"` // who asked for it
	Created   time.Time `json:"created"`         // of the service's clock
	Ended     time.Time `json:"ended,omitzero"`  // zero before
	Err       error     `json:"-"`               // why it failed, nil if it did not
	Failure   *Failure  `json:"failure,omitempty"`
	// Round is the record of the round that was decided, 0 for none; Outcome is its decision.
	Round   int64  `json:"round,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Begun   bool   `json:"-"` // it has had its turn
}

// Failure is an error of an operation as it is stored.
type Failure struct {
	Text string `json:"text"`
	// Kind is the place in failures of the error that it is, from 1; 0 for another.
	Kind int `json:"kind,omitempty"`
}

// failures are the errors of operations that a restart keeps apart. Their order is part of the store's
// format.
var failures = []error{ErrCanceled, ErrInterrupted, rollout.ErrState}

func (f *Failure) Error() string { return f.Text }

func (f *Failure) Unwrap() error {
	if f.Kind > 0 && f.Kind <= len(failures) {
		return failures[f.Kind-1]
	}
	return nil
}

// ended is the operation with its end.
func (o Operation) ended(at time.Time, err error, round int64, outcome string) Operation {
	o.Ended, o.Err, o.Round, o.Outcome = at, err, round, outcome
	if err != nil {
		o.Failure = &Failure{Text: err.Error(),
			Kind: 1 + slices.IndexFunc(failures, func(is error) bool { return errors.Is(err, is) })}
	}
	return o
}

// restoredOperations are the operations of a saved scheduler; ones under way ended with the service.
func restoredOperations(id string, all []Operation, now time.Time) []Operation {
	all = slices.Clone(all)
	for i := range all {
		o := &all[i]
		if o.Scheduler = id; o.Ended.IsZero() {
			*o = o.ended(now, ErrInterrupted, 0, "")
		} else if o.Failure != nil {
			o.Err = o.Failure
		}
	}
	return all
}

// running is an Operation under way. Its Operation is guarded by operations.mu.
type running struct {
	Operation
	origin  audit.Origin
	search  round.Search
	started bool
	done    chan struct{} // closed at its end
}

// operations has the operations of a service. mu is taken after schedulerState.mu.
type operations struct {
	mu  sync.Mutex
	all []*running // oldest first
}

func (o *operations) add(r *running) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) >= maxOperations {
		if oldest := slices.IndexFunc(o.all, func(r *running) bool { return !r.Ended.IsZero() }); oldest >= 0 {
			o.all = slices.Delete(o.all, oldest, oldest+1)
		}
	}
	o.all = append(o.all, r)
}

// restore adds the operations of saved schedulers.
func (o *operations) restore(all []Operation) {
	slices.SortStableFunc(all, func(a, b Operation) int { return a.Created.Compare(b.Created) })
	for _, one := range all {
		r := &running{Operation: one, done: make(chan struct{})}
		close(r.done)
		o.add(r)
	}
}

// begin notes that an operation has its turn.
func (o *operations) begin(r *running) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Begun = true
}

// end notes the end of an operation, unless it ended before.
func (o *operations) end(r *running, ended *Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Ended.IsZero() {
		r.Operation = *ended
		close(r.done)
	}
}

// keepEnd stores the end of an operation and returns how it ended: as it was stored first. That it
// cannot be stored is logged.
func (s *Service) keepEnd(ctx context.Context, call Call, m *schedulerState, ended Operation) Operation {
	kept, err := s.keepOperation(ctx, call, m, ended)
	if err != nil && s.ctx.Err() == nil {
		s.o.Log.Warn("the end of an operation is not stored", "scheduler", m.id, "operation", ended.ID, "err", err)
	}
	return kept
}

// keepOperation stores the state of an operation with its scheduler, unless one that ended is there, and
// returns the stored one.
func (s *Service) keepOperation(ctx context.Context, call Call, m *schedulerState, o Operation) (kept Operation,
	err error) {
	kept = o
	_, err = s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		i := slices.IndexFunc(v.Operations, func(x Operation) bool { return x.ID == o.ID })
		if i >= 0 && !v.Operations[i].Ended.IsZero() {
			kept = v.Operations[i]
			return nil, nil
		}
		c := &Change{Scheduler: v.Scheduler}
		c.Scheduler.Operations = slices.Clone(v.Operations)
		if i >= 0 {
			c.Scheduler.Operations[i] = o
		} else {
			all := append(c.Scheduler.Operations, o)
			c.Scheduler.Operations = all[max(0, len(all)-schedulerOperations):]
		}
		return c, nil
	})
	return kept, err
}

// of is an operation as it is now.
func (o *operations) of(r *running) Operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return r.Operation
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

// TriggerRound asks for a round at the latest event time, beside due ones, with a search. One may
// wait or be under way for each scheduler.
func (s *Service) TriggerRound(ctx context.Context, call Call, id string, search round.Search) (Operation, error) {
	m, err := s.active(id)
	if err != nil {
		return Operation{}, err
	}
	origin := call.By()
	r := &running{Operation: Operation{ID: s.o.NewID(), Scheduler: id, Actor: origin.Actor, Created: s.now()},
		origin: origin, search: search, done: make(chan struct{})}
	r.started = true // until it is stored
	if err := m.trigger(r, call.DryRun); err != nil || call.DryRun {
		return r.Operation, err
	}
	s.RequestRecord(call, id).SetName("operations/" + r.ID)
	_, err = s.keepOperation(ctx, call, m, r.Operation)
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.started = false; err != nil {
		m.agenda.triggered = nil
		return Operation{}, err
	}
	asked := r.Operation // it may end at once
	s.operations.add(r)
	s.o.Log.InfoContext(ctx, "round triggered", "scheduler", id, "operation", r.ID)
	s.wake(m)
	return asked, nil
}

// trigger makes an operation the one that asks for a round, if no other does and one can be decided; or checks only
// whether it can be.
func (m *schedulerState) trigger(r *running, check bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why := m.untriggered(); why != "" {
		return fmt.Errorf("%w: no round of scheduler %q can be decided: %s", rollout.ErrState, m.id, why)
	}
	return m.agenda.trigger(r, check)
}

// untriggered says why no round can be decided now, "" if one can. The caller must hold mu.
func (m *schedulerState) untriggered() string {
	v := m.snapshot.Load()
	switch {
	case !m.isReady():
		return "its events are still being read"
	case v.Type == External:
		return "it is not simulated"
	case !v.Deleted.IsZero():
		return "the scheduler is deleted"
	case v.Paused:
		return "tuning is paused"
	case v.Zero.IsZero() || !m.history.Running():
		return "it has no events yet"
	}
	return v.held()
}

// endTriggered stores the end of a triggered round and returns a function that notes it with mu held.
func (s *Service) endTriggered(m *schedulerState, r *running, err error, sequence int64, outcome string) func() {
	if s.ctx.Err() != nil {
		return func() {} // ErrInterrupted after the restart
	}
	ended := s.keepEnd(s.ctx, Call{}, m, s.operations.of(r).ended(s.now(), err, sequence, outcome))
	return func() {
		m.agenda.triggered = nil
		s.operations.end(r, &ended)
	}
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
func (s *Service) CancelOperation(ctx context.Context, call Call, id string) (Operation, error) {
	r, o, err := s.operations.find(id)
	if err != nil || !o.Ended.IsZero() || call.DryRun {
		return o, err
	}
	ended := o.ended(s.now(), ErrCanceled, 0, "")
	m, err := s.readable(o.Scheduler)
	if err == nil { // before its round ends, which is dropped then
		ended = s.keepEnd(ctx, call, m, ended)
	}
	s.operations.end(r, &ended)
	if err == nil {
		m.mu.Lock()
		if m.agenda.triggered == r && !r.started {
			m.agenda.triggered = nil
		} else if m.agenda.triggered == r {
			s.queue.Cancel(m.id, dropped(ErrCanceled.Error()))
		}
		m.mu.Unlock()
	}
	s.o.Log.InfoContext(ctx, "operation cancelled", "scheduler", o.Scheduler, "operation", id)
	return s.Operation(id)
}
