package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// Base is the configuration of a comparison.
type Base struct {
	// Revision is a revision of the scheduler. If it is 0 and neither of the others is set, the base
	// is the incumbent of the round.
	Revision int64
	Default  bool // the defaults of the round's space
	Current  bool // the running configuration
}

// Explanation is why a round adopted a configuration or not, with the contribution of each parameter.
type Explanation struct {
	// Configuration is the revision asked about; nil if a round was.
	Configuration *rollout.Configuration
	// Round is the round that found it; nil if none did, or if its record is not kept. Then there is
	// nothing below.
	Round *RoundRecord
	// Steps lead from the base, which is the first, to the best configuration of the round, simulated
	// on its futures. One may lead to itself.
	Steps []ExplanationStep
	// Model is the causal model, which says through which metrics parameters act; nil without Steps.
	Model *CausalModel
}

// ExplanationStep is the outlook after a further parameter is set.
type ExplanationStep struct {
	Param string // "" of the base
	// Adapted are the values that its projection changed besides.
	Adapted []space.Change
	round.Outlook
}

// Explain explains a revision, or the best configuration of a stored round if the revision is 0. The
// futures of the round are drawn again from the events that it knew, one explanation of a scheduler
// at a time.
func (s *Service) Explain(ctx context.Context, id string, revision, sequence int64, base Base) (out Explanation,
	err error) {
	m, err := s.active(id)
	if err != nil {
		return out, err
	}
	if revision > 0 {
		if out.Configuration, err = s.Configuration(id, revision); err != nil {
			return out, err
		}
		if e := out.Configuration.Evidence; e == nil || e.Record == 0 {
			return out, nil
		}
		sequence = out.Configuration.Evidence.Record
	}
	r, err := s.Round(id, sequence)
	if revision > 0 && errors.Is(err, rollout.ErrNotFound) {
		return out, nil // not kept any more
	}
	if err == nil {
		err = r.Damage
	}
	if err != nil {
		return out, err
	}
	if out.Round = r; r.Decision == nil {
		return out, nil
	}
	err = s.again(ctx, m, r, func(ctx context.Context, v *snapshot, in round.Input) error {
		to, err := in.Space.ParseJSON(r.Decision.Config)
		if err != nil {
			return fmt.Errorf("controller: round %d: %w", sequence, err)
		}
		from, err := v.base(base, &in)
		if err != nil {
			return err
		}
		in.Search = r.Decision.Search
		configs, names, adapted := round.Path(in.Space, from, to)
		found, err := round.Foresee(ctx, in, configs...)
		if err != nil {
			return err
		}
		for i := range found {
			step := ExplanationStep{Outlook: found[i]}
			if i > 0 {
				step.Param, step.Adapted = names[i-1], adapted[i-1]
			}
			out.Steps = append(out.Steps, step)
		}
		return nil
	})
	if err == nil {
		out.Model, err = s.model(ctx, m) // it may take a turn of its own
	}
	return out, err
}

// again does work with the input of a stored round, when it is its turn. One call of a scheduler does at
// a time.
func (s *Service) again(ctx context.Context, m *schedulerState, r *RoundRecord,
	work func(ctx context.Context, v *snapshot, in round.Input) error) error {
	if !m.explaining.TryLock() {
		return fmt.Errorf("scheduler %q: an explanation is under way: %w", m.id, ErrBusy)
	}
	defer m.explaining.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	v := m.snapshot.Load()
	in, repeated, err := restoreInput(ctx, s.o.Store, &Saved{Scheduler: v.Scheduler, Space: v.space,
		Revisions: v.revisions}, r)
	if err == nil && repeated.Difference != "" {
		err = fmt.Errorf("%w: round %d of scheduler %q cannot be simulated again: %s", rollout.ErrState, r.Sequence,
			m.id, repeated.Difference)
	}
	if err != nil {
		return err
	}
	job, err := s.enterQuestion(ctx, m)
	if err != nil {
		return err
	}
	defer s.leave(m, job)
	in.Turn = job.Run
	return work(job.Context(), v, in)
}

// base is a configuration of the space of a round.
func (v *snapshot) base(b Base, in *round.Input) (space.Config, error) {
	state := v.rollout()
	state.Space = in.Space
	c := in.Incumbent
	switch {
	case b.Default:
		c = in.Space.Default()
	case b.Current:
		now, err := state.Incumbent(in.Space.Default())
		if err != nil {
			return c, fmt.Errorf("%w: scheduler %q runs %w", rollout.ErrState, v.ID, err)
		}
		c = now
	case b.Revision > 0:
		r := v.config(b.Revision)
		if r == nil {
			return c, fmt.Errorf("revision %d of scheduler %q: %w", b.Revision, v.ID, rollout.ErrNotFound)
		}
		moved, err := state.Effective(r)
		if err != nil {
			return c, fmt.Errorf("%w: revision %d of scheduler %q has %w", rollout.ErrState, b.Revision, v.ID, err)
		}
		c = moved
	}
	return c, nil
}
