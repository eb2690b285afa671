package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// Future is one of the futures of a round.
type Future struct {
	// Round is the sequence of the round whose future it is; 0 for one that would be decided on the latest events.
	Round int64 `json:"round,omitempty"`
	// Index is its place among the futures of the round, from 0.
	Index int `json:"index"`
	// Seed is that of the scheduler's rounds; nil, in a request, for theirs.
	Seed *uint64 `json:"seed,omitempty"`
	// At is the event time at which it begins.
	At      time.Time     `json:"at"`
	Horizon time.Duration `json:"horizon"`
	Active  int           `json:"active"` // jobs at the beginning
}

// Future samples a future as a round does, as a workload (round.Snapshot.Workload). Of f, Round, Index and Seed say
// which.
func (s *Service) Future(ctx context.Context, id string, f Future) (w *workload.Workload, out Future, err error) {
	m, err := s.active(id)
	if err != nil {
		return nil, f, err
	}
	if m.snapshot.Load().Type == External {
		return nil, f, fmt.Errorf("%w: scheduler %q is not simulated, and has no futures", rollout.ErrState, id)
	}
	if f.Round > 0 {
		r, err := s.Round(id, f.Round)
		if err == nil {
			err = r.Damage
		}
		if err != nil {
			return nil, f, err
		}
		err = s.again(ctx, m, r, func(ctx context.Context, _ *snapshot, in round.Input) error {
			f.At = r.Input.Zero.Add(r.Input.At)
			w, f, err = sample(ctx, in, f)
			return err
		})
		return w, f, err
	}
	err = s.borrow(ctx, m, func(ctx context.Context, _ round.Turn, v *snapshot, ledger *workload.Ledger) error {
		if v.Zero.IsZero() {
			return noEvents(id)
		}
		m.mu.Lock()
		at := m.history.Now()
		m.mu.Unlock()
		in, _, err := s.roundInput(m, v, ledger, roundID{number: v.Round, interval: v.Policy.UpdateInterval,
			clockSet: v.ClockSet, asked: &running{}, mark: at}) // as one that is triggered
		if err != nil {
			return err
		}
		f.At = v.Zero.Add(at)
		w, f, err = sample(ctx, in, f)
		return err
	})
	return w, f, err
}

func noEvents(id string) error {
	return fmt.Errorf("%w: scheduler %q has no events yet: its client sends them, or 'autosched scheduler emulate'",
		rollout.ErrState, id)
}

// sample samples the futures of a round and returns one.
func sample(ctx context.Context, in round.Input, f Future) (*workload.Workload, Future, error) {
	if f.Seed != nil {
		in.Seed = *f.Seed
	}
	if !in.State.HasNode() {
		return nil, f, fmt.Errorf("%w: %w", rollout.ErrState, round.ErrNoNode)
	}
	all, err := round.Futures(ctx, in)
	if err != nil {
		return nil, f, err
	}
	if f.Index >= len(all) {
		return nil, f, fmt.Errorf("future %d: %w: the round samples %d, from 0", f.Index, ErrNotFound, len(all))
	}
	x := &all[f.Index]
	seed := in.Seed
	f.Seed, f.Horizon, f.Active = &seed, in.WithDefaults().Horizon, len(x.Left)
	w, err := in.Workload(x)
	if err == nil && w.Len() == 0 {
		err = fmt.Errorf("%w: there is no active job and no arrival is expected", rollout.ErrState)
	}
	return w, f, err
}

// EndedJobs are the jobs of a scheduler that were submitted in [from, to) and ended, as far as rounds look back. A
// zero time is no bound.
func (s *Service) EndedJobs(ctx context.Context, id string, from, to time.Time) (w *workload.Workload, err error) {
	m, err := s.active(id)
	if err != nil {
		return nil, err
	}
	err = s.borrow(ctx, m, func(_ context.Context, _ round.Turn, v *snapshot, ledger *workload.Ledger) error {
		if v.Zero.IsZero() {
			return noEvents(id)
		}
		m.mu.Lock()
		at := m.history.Now()
		m.mu.Unlock()
		begin, end := at-round.ArrivalMemory, at+1
		if !from.IsZero() {
			begin = max(begin, from.Sub(v.Zero))
		}
		if !to.IsZero() {
			end = min(end, to.Sub(v.Zero))
		}
		seen := v.at(ledger, at)
		if w, err = seen.EndedJobs(begin, end); err == nil && w.Len() == 0 {
			err = fmt.Errorf("%w: no job of scheduler %q was submitted then and has ended", rollout.ErrState, id)
		}
		return err
	})
	return w, err
}
