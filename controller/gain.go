package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/round"
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
	until                time.Duration // event time
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
	if m.snapshot.Load().Type == External {
		return Gain{Reason: round.ErrNoModel.Error()}, nil
	}
	if kept, ok := m.lastGain(); ok {
		return kept, nil
	}
	err = s.borrow(ctx, m, func(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger) error {
		var ok bool
		if out, ok = m.lastGain(); ok {
			return nil
		}
		m.mu.Lock()
		at := m.history.Known()
		m.mu.Unlock()
		out = Gain{Zero: v.Zero, Revision: v.basis().Running}
		if v.Zero.IsZero() {
			out.Reason = "there are no events yet"
			return nil
		}
		seen := v.at(ledger, at)
		seen.Turn = turn
		in := round.Input{Snapshot: seen, Settings: v.settings(s.o.Workers), Scheduler: v.Type, Goal: v.goal}
		g, reason, err := v.gain(ctx, &in)
		if err != nil {
			return err
		}
		if out.Reason = reason; reason == "" {
			out.Gained = g
		}
		if g != nil {
			m.mu.Lock()
			m.gained = gained{out, at + gainFor, v.ClockSet, v.Generation}
			m.mu.Unlock()
		}
		return nil
	})
	return out, err
}

// gain compares the configuration in force with the registered defaults; the reason says why the comparison does not
// count, or why there is none.
func (v *snapshot) gain(ctx context.Context, in *round.Input) (g *round.Gained, reason string, err error) {
	state, defaults := v.rollout(), v.space.Default()
	c := state.Running()
	switch {
	case c == nil:
		return nil, "what runs is not known", nil
	case state.Wave != nil:
		return nil, "a rollout is under way: instances run different configurations", nil
	}
	applied, err := state.Incumbent(defaults)
	if err != nil {
		return nil, "what runs is outside the space: " + err.Error(), nil
	}
	if applied.Equal(defaults) {
		return nil, "the registered defaults run", nil
	}
	took := TookEffect(c)
	if took.IsZero() {
		return nil, fmt.Sprintf("when revision %d took effect is not known", c.Revision), nil
	}
	at, age := in.State.At, longestGain
	since := max(took.Sub(v.Zero), 0)
	for age > leastGain && len(in.Ledger.Arrivals(max(since, at-age), at)) > gainJobs {
		age /= 2
	}
	since = max(since, at-age)
	switch {
	case at-since < leastGain:
		return nil, fmt.Sprintf("revision %d is in force for less than %v of event time", c.Revision, leastGain), nil
	case !in.State.HasNode():
		return nil, round.ErrNoNode.Error(), nil
	}
	g, err = round.Gain(ctx, in, since, applied, defaults)
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

// lastGain returns what is kept, if it is of the last hour, of what runs and of the scheduler as it is registered.
func (m *schedulerState) lastGain() (Gain, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, kept := m.snapshot.Load(), &m.gained
	ok := kept.clockSet == v.ClockSet && kept.generation == v.Generation && kept.Revision == v.basis().Running &&
		m.history.Known() < kept.until
	return kept.Gain, ok
}
