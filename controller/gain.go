package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Gain is what the configuration in force saved compared with the registered defaults.
type Gain struct {
	*round.Gained
	Zero     time.Time
	Revision int64  // that runs, 0 for the defaults
	Reason   string // why Gained is nil
}

// gained is the last Gain of a scheduler that was simulated.
type gained struct {
	Gain
	of    compared
	until time.Duration // event time
}

// compared identifies values that run, of the scheduler as it is registered.
type compared struct {
	revision             int64
	took                 time.Time // effect
	hash                 string
	clockSet, generation int64
}

const (
	// longestGain bounds the time that is replayed, gainJobs the jobs that arrived in it: it is halved until they are
	// no more. Less than leastGain says nothing.
	longestGain = 24 * time.Hour
	gainJobs    = 10_000
	leastGain   = 15 * time.Minute
	gainFor     = time.Hour // event time
)

// Gain replays what happened since the configuration in force took effect, at most the last day of it, with it and with
// the registered defaults. What was replayed is kept for an hour of event time, unless another one takes effect or an
// operator changes the scheduler.
func (s *Service) Gain(ctx context.Context, id string) (out Gain, err error) {
	m, err := s.active(id)
	if err != nil {
		return out, err
	}
	v := m.snapshot.Load()
	if v.Type == External {
		return Gain{Reason: round.ErrNoModel.Error()}, nil
	}
	of, _, reason := v.compared()
	if reason != "" {
		return Gain{Zero: v.Zero, Revision: v.basis().Running, Reason: reason}, nil
	}
	if kept, ok := m.lastGain(of); ok {
		return kept, nil
	}
	err = s.borrow(ctx, m, func(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger) error {
		of, applied, reason := v.compared()
		out = Gain{Zero: v.Zero, Revision: v.basis().Running, Reason: reason}
		if reason != "" {
			return nil
		}
		if kept, ok := m.lastGain(of); ok {
			out = kept
			return nil
		}
		m.mu.Lock()
		at := m.history.Known()
		m.mu.Unlock()
		seen := v.at(ledger, at)
		seen.Turn = turn
		in := round.Input{Snapshot: seen, Settings: v.settings(s.o.Workers), Scheduler: v.Type, Goal: v.goal}
		g, reason, err := v.gain(ctx, &in, &of, applied)
		if err != nil {
			return err
		}
		if out.Reason = reason; reason == "" {
			out.Gained = g
		}
		if g != nil {
			m.mu.Lock()
			m.gained = gained{out, of, at + gainFor}
			m.mu.Unlock()
		}
		return nil
	})
	return out, err
}

// compared returns the configuration in force, whose gain is asked for; the reason says why there is none to compare.
func (v *snapshot) compared() (of compared, applied space.Config, reason string) {
	state, defaults := v.rollout(), v.space.Default()
	c := state.Running()
	switch {
	case v.Zero.IsZero():
		return of, applied, "there are no events yet"
	case c == nil:
		return of, applied, "what runs is not known"
	case state.Wave != nil:
		return of, applied, "a rollout is under way: instances run different configurations"
	case slices.ContainsFunc(state.Instances, func(i rollout.Instance) bool {
		return i.Revision != c.Revision && i.Hash != c.Hash
	}):
		return of, applied, fmt.Sprintf("not all instances say that they run revision %d", c.Revision)
	}
	applied, err := state.Incumbent(defaults)
	if err != nil {
		return of, applied, "what runs is outside the space: " + err.Error()
	}
	if applied.Equal(defaults) {
		return of, applied, "the registered defaults run"
	}
	took := TookEffect(c)
	if took.IsZero() {
		return of, applied, fmt.Sprintf("when revision %d took effect is not known", c.Revision)
	}
	return compared{c.Revision, took.UTC(), applied.Hash(), v.ClockSet, v.Generation}, applied, ""
}

// gain compares values that run with the registered defaults; the reason says why the comparison does not count, or
// why there is none.
func (v *snapshot) gain(ctx context.Context, in *round.Input, of *compared, applied space.Config) (g *round.Gained,
	reason string, err error) {
	at, age := in.State.At, longestGain
	since := max(of.took.Sub(v.Zero), 0)
	for age > leastGain && len(in.Ledger.Arrivals(max(since, at-age), at)) > gainJobs {
		age /= 2
	}
	since = max(since, at-age)
	switch {
	case at-since < leastGain:
		return nil, fmt.Sprintf("revision %d is in force for less than %v of event time", of.revision, leastGain), nil
	case !in.State.HasNode():
		return nil, round.ErrNoNode.Error(), nil
	}
	g, err = round.Gain(ctx, in, since, applied, v.space.Default())
	switch {
	case err != nil:
		return nil, "", err
	case g == nil:
		return nil, "no job was there since it took effect", nil
	case !g.Ended():
		return g, "a simulation did not end within its budget of events", nil
	}
	return g, "", nil
}

// lastGain returns the kept one, if it is of the last hour and of the same values.
func (m *schedulerState) lastGain(of compared) (Gain, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gained.Gain, m.gained.of == of && m.history.Known() < m.gained.until
}
