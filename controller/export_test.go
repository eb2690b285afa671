package controller

import (
	"context"
	"encoding/json"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Remembered is the number of event ids kept to recognise duplicates.
func (s *Service) Remembered(id string) int {
	m, err := s.readable(id)
	if err != nil {
		return -1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history.Remembered()
}

// Idle reports whether no task of a scheduler is under way.
func (s *Service) Idle(id string) bool {
	m, err := s.readable(id)
	if err != nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agenda.task == nil
}

// Waiting is the number of callers whose events wait to be ingested.
func (s *Service) Waiting(id string) int {
	m, err := s.readable(id)
	if err != nil {
		return -1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.inbox.calls)
}

// Digest is that of a round.
func (x *RoundInput) Digest(in *round.Input) (string, error) {
	return x.digest(context.Background(), in)
}

// MaxRequests bounds the ids of requests that are remembered of a scheduler.
const MaxRequests = maxRequests

// Preload remembers requests that no store has.
func (s *Service) Preload(all []Request) {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	for _, r := range all {
		s.requests.put(r)
	}
}

// AskedZero is the clock's beginning of AskedWaits.
var AskedZero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// AskedWaits is why a job of a scheduler with a space waits at an instant of a ledger, by the simulation.
func AskedWaits(ctx context.Context, scheduler string, of *space.Space, l *workload.Ledger, job string,
	at time.Duration) (out Waits, err error) {
	h, _ := l.Job(job, at)
	if out.Waits, err = l.Waits(ctx, &h, at); err != nil {
		return out, err
	}
	v := &snapshot{Scheduler: Scheduler{Registration: Registration{Type: scheduler}, Zero: AskedZero}, space: of}
	return out, out.ask(ctx, nil, v, l, job)
}

// Derived is all that is derived of a scheduler's events.
func (s *Service) Derived(id string) (string, error) {
	m, err := s.readable(id)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h, end := m.history, m.history.Now()+1
	text, err := json.Marshal([]any{h.Events(), h.Applied(), h.Now(), h.Last(), h.Cursor(), h.Remembered(),
		h.Ledger().State(h.Now()), h.Ledger().Finishes(0, end), h.Ledger().Arrivals(0, end), h.Ledger().Spells(0, end)})
	return string(text), err
}
