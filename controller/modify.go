package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// Modify changes what may change of a scheduler after its registration: its description, its
// parameters, rules, cluster, mode, objective, policy, simulation, and whether its tuning is
// paused. Another space, cluster or objective is a new SchedulerRevision; configurations that are
// outside the space are handled by rollout.Respace. f changes a copy of the present scheduler; the rest of
// its changes is ignored, and if it returns an error nothing changes.
//
// A round under way that decides for another space, cluster, objective, simulation or other
// settings, or while tuning was not paused yet, is cancelled at once.
func (s *Service) Modify(ctx context.Context, call Call, id string, f func(*Scheduler) error) (Scheduler, error) {
	m, err := s.readable(id)
	if err != nil {
		return Scheduler{}, err
	}
	var planned Scheduler
	var before *snapshot
	at := m.eventTime()
	_, err = s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		before = v
		wanted := v.Scheduler
		if err := f(&wanted); err != nil {
			return nil, err
		}
		next := v.Scheduler
		next.DisplayName, next.Mode, next.Objective = wanted.DisplayName, wanted.Mode, wanted.Objective
		next.Policy, next.Simulation, next.Paused = wanted.Policy, wanted.Simulation, wanted.Paused
		next.Freeze, next.Labels, next.Annotations = wanted.Freeze, wanted.Labels, wanted.Annotations
		change, err := v.revise(&wanted, &next, s.now(), at)
		if err != nil {
			return nil, err
		}
		if origin := call.By(); !next.Paused {
			next.Pause = nil
		} else if !v.Paused {
			next.Pause = &Pause{Actor: origin.Actor, Reason: origin.Reason, Created: s.now()}
		}
		if next.Policy.UpdateInterval != v.Policy.UpdateInterval {
			// The last of the new rounds that is no later than the last one decided.
			next.Round = dueRound(time.Duration(v.Round)*v.Policy.UpdateInterval+1, next.Policy.UpdateInterval)
		}
		if !next.Simulation.equal(&v.Simulation) {
			next.Probation = nil // what was promised was simulated otherwise
		}
		same := next.DisplayName == v.DisplayName && next.Mode == v.Mode && next.Objective == v.Objective &&
			reflect.DeepEqual(next.Policy, v.Policy) && next.Simulation.equal(&v.Simulation) &&
			next.Paused == v.Paused && reflect.DeepEqual(next.Freeze, v.Freeze) && next.Revision == v.Revision &&
			maps.Equal(next.Labels, v.Labels) && maps.Equal(next.Annotations, v.Annotations)
		if planned = next; call.DryRun || same {
			return nil, nil
		}
		next.Generation++
		change.Scheduler = next
		return &change, nil
	})
	if err != nil || call.DryRun {
		return planned, err
	}
	s.o.Log.InfoContext(ctx, "scheduler modified", "scheduler", id, "mode", planned.Mode,
		"objective", planned.Objective, "paused", planned.Paused, "interval", planned.Policy.UpdateInterval)
	s.cancelStale(m, before)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.wake(m)
	return m.snapshot.Load().Scheduler, nil
}

// revise gives the next scheduler the parameters, rules and cluster of the one wanted. If it needs
// another revision it returns the change of the rollout.
func (v *snapshot) revise(wanted, next *Scheduler, now, at time.Time) (c Change, err error) {
	sp, err := space.New(wanted.Params, wanted.Rules)
	if err != nil {
		return c, err
	}
	sameSpace, sameCluster := sp.Digest() == v.space.Digest(), reflect.DeepEqual(wanted.Cluster, v.Cluster)
	if err := wanted.Cluster.Validate(); err != nil && !sameCluster {
		return c, fmt.Errorf("cluster: %w", err)
	}
	if sameSpace && sameCluster && next.Objective == v.Objective {
		return c, nil
	}
	before := v.revision(v.revisions[len(v.revisions)-1].Created)
	next.Revision = before.Number + 1
	next.Params, next.Rules, next.Cluster = sp.Params(), sp.Rules(), wanted.Cluster
	after := SchedulerRevision{Number: next.Revision, Created: now, Params: next.Params, Rules: next.Rules,
		Objective: next.Objective, Cluster: next.Cluster, Space: sp}
	if sameSpace {
		after.Space = v.space
	} else {
		state, changed, err := rollout.Step(v.rollout(), rollout.Respace{Space: sp, Number: after.Number, At: at}, now)
		if err != nil {
			return c, err
		}
		next.Records, c.Configurations = state.Records, changed
	}
	if !sameSpace || !sameCluster {
		next.Probation = nil // what was promised was simulated otherwise
	}
	if !sameCluster {
		next.Experience = nil
	}
	c.Revisions = []SchedulerRevision{before, after}
	return c, nil
}

// Revisions returns the revisions of a scheduler below one (all if it is 0), newest first, at most
// limit of them.
func (s *Service) Revisions(id string, below int64, limit int) ([]SchedulerRevision, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	var out []SchedulerRevision
	for _, r := range slices.Backward(m.snapshot.Load().revisions) {
		if (below == 0 || r.Number < below) && len(out) < limit {
			out = append(out, r)
		}
	}
	return out, nil
}
