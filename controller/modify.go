package controller

import (
	"context"
	"reflect"
	"time"
)

// Modify changes what may change of a scheduler after its registration: its
// display name, mode, objective, policy, simulation, and whether its tuning is
// paused. f changes a copy of the present scheduler; the rest of what it changes is
// ignored, and if it returns an error nothing changes. With validateOnly nothing
// is stored and what would be is returned.
//
// A round under way that decides for another objective, simulation or other settings, or
// while tuning was not paused yet, is cancelled at once.
func (s *Service) Modify(ctx context.Context, id string, validateOnly bool,
	f func(*Scheduler) error) (Scheduler, error) {
	m, err := s.find(id)
	if err != nil {
		return Scheduler{}, err
	}
	var planned Scheduler
	var before *snapshot
	err = s.commit(ctx, m, func(v *snapshot) (*Change, error) {
		before = v
		wanted := v.Scheduler
		if err := f(&wanted); err != nil {
			return nil, err
		}
		next := v.Scheduler
		next.DisplayName, next.Mode, next.Objective = wanted.DisplayName, wanted.Mode, wanted.Objective
		next.Policy, next.Simulation, next.Paused = wanted.Policy, wanted.Simulation, wanted.Paused
		next.Freeze = wanted.Freeze
		if next.Policy.UpdateInterval != v.Policy.UpdateInterval {
			// The last of the new rounds that is no later than the last one decided.
			next.Round = dueRound(time.Duration(v.Round)*v.Policy.UpdateInterval+1, next.Policy.UpdateInterval)
		}
		if !next.Simulation.equal(&v.Simulation) {
			next.Probation = nil // what was promised was simulated otherwise
		}
		same := next.DisplayName == v.DisplayName && next.Mode == v.Mode && next.Objective == v.Objective &&
			reflect.DeepEqual(next.Policy, v.Policy) && next.Simulation.equal(&v.Simulation) &&
			next.Paused == v.Paused && reflect.DeepEqual(next.Freeze, v.Freeze)
		if planned = next; validateOnly || same {
			return nil, nil
		}
		next.Generation++
		return &Change{Scheduler: next}, nil
	})
	if err != nil || validateOnly {
		return planned, err
	}
	s.o.Log.InfoContext(ctx, "scheduler modified", "scheduler", id, "mode", planned.Mode,
		"objective", planned.Objective, "paused", planned.Paused, "interval", planned.Policy.UpdateInterval)
	s.cancelStale(m, before)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.startRound(m)
	return m.snapshot.Load().Scheduler, nil
}
