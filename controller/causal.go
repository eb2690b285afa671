package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/search/effects"
	"github.com/autosched/autosched/space"
)

const (
	// learnEvery is the event time after which the causal model of a scheduler is learnt again.
	learnEvery = 24 * time.Hour
	// learnShare is the weight of learning beside a round of the same scheduler.
	learnShare = .1
	// learnRounds bounds the rounds that are learnt from, the latest ones.
	learnRounds = 336
)

// CausalModel is learnt from the measured configurations of a scheduler.
type CausalModel struct {
	*effects.Model
	// Until is the event time of the trials, of rounds, that it was learnt from; zero if there were none, or
	// if they are from studies.
	Until    time.Time
	Revision int64 // of the scheduler

	trials int // of studies, when it was learnt
}

// learner has the causal model of a scheduler.
type learner struct {
	turn  chan struct{} // has room for one; its holder has model
	model *CausalModel  // nil until it is learnt
	until time.Duration // the instant until which it is learnt, or being learnt; guarded by the scheduler's mu
}

func newLearner() learner { return learner{turn: make(chan struct{}, 1)} }

// lock waits until no one else has the model, which unlock gives up.
func (l *learner) lock(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *learner) unlock() { <-l.turn }

// CausalModel returns the causal model of a scheduler. It is learnt from the rounds until the last midnight
// of event time, or from the studies of an external scheduler once a tenth more of their trials ended.
func (s *Service) CausalModel(ctx context.Context, id string) (*CausalModel, error) {
	m, err := s.active(id)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, m.ready); err != nil {
		return nil, err
	}
	return s.model(ctx, m)
}

// model is the causal model, which it learns if that is due. One that cannot be learnt has a Fault; unless
// the rounds cannot be read, it is kept until the next is due, as trying again would fail alike.
func (s *Service) model(ctx context.Context, m *schedulerState) (*CausalModel, error) {
	got, err := s.learnt(ctx, m)
	if err == nil || ctx.Err() != nil || s.ctx.Err() != nil {
		return got, err
	}
	s.o.Log.WarnContext(ctx, "causal model not learnt", "scheduler", m.id, "err", err)
	return &CausalModel{Model: unlearnt(err), Revision: max(1, m.snapshot.Load().Revision)}, nil
}

func unlearnt(err error) *effects.Model {
	return &effects.Model{Fault: "it cannot be learnt: " + err.Error()}
}

// learnUntil is the midnight of event time until which rounds are learnt from, 0 if no round came after one.
func (v *snapshot) learnUntil() time.Duration {
	return v.roundTime() / learnEvery * learnEvery
}

// startLearning learns the causal model of a simulated scheduler in the background if it is due. The caller must
// hold mu.
func (s *Service) startLearning(m *schedulerState) {
	v := m.snapshot.Load()
	if v.Type == External || s.o.KeepRounds < 0 || v.learnUntil() <= m.learner.until || !v.Deleted.IsZero() {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return
	}
	m.learner.until = v.learnUntil()
	s.wg.Go(func() { // Close sets closed before it waits
		_, _ = s.model(s.ctx, m) // an error is logged
	})
}

// learnt returns the causal model, which it learns if that is due. Others that ask wait meanwhile.
func (s *Service) learnt(ctx context.Context, m *schedulerState) (*CausalModel, error) {
	if err := m.learner.lock(ctx); err != nil {
		return nil, err
	}
	defer m.learner.unlock()
	v := m.snapshot.Load()
	last, next := m.learner.model, &CausalModel{Revision: max(1, v.Revision)}
	o := effects.Options{Objective: v.Objective, Seed: v.Policy.Seed, Workers: 1}
	var groups []effects.Group
	if v.Type == External {
		groups = s.hook().Trials(m.id, v.Objective, v.space)
		for i := range groups {
			next.trials += len(groups[i].Trials)
		}
		if last != nil && last.Revision == next.Revision && last.trials <= next.trials &&
			10*next.trials <= 11*last.trials {
			return last, nil
		}
	} else {
		until := v.learnUntil()
		if until > 0 {
			next.Until = v.Zero.Add(until)
		}
		if last != nil && last.Revision == next.Revision && last.Until.Equal(next.Until) {
			return last, nil
		}
		if until > 0 {
			var err error
			if groups, err = s.measured(m, v, until); err != nil {
				return nil, err
			}
		}
		o.Objective = cmp.Or(v.goal.Metric(), "objective")
		if strings.HasSuffix(o.Objective, "_jct") {
			o.Parts = []string{"avg_queue_s", "restart_s_per_job"}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := s.learn(ctx, m, v, next, groups, o)
	if err != nil && ctx.Err() == nil {
		s.o.Log.WarnContext(ctx, "causal model not learnt", "scheduler", m.id, "err", err)
		next.Model, err = unlearnt(err), nil
	}
	if err == nil {
		m.learner.model = next
	}
	return next, err
}

// learn learns a model when it is its turn.
func (s *Service) learn(ctx context.Context, m *schedulerState, v *snapshot, next *CausalModel, groups []effects.Group,
	o effects.Options) (err error) {
	job, err := s.queue.Enter(ctx, m.id+" causal", learnShare*v.Policy.weight(), s.o.RoundLimit)
	if err != nil {
		return err
	}
	defer s.leave(m, job)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("controller: learning the causal model of scheduler %q panicked: %v", m.id, p)
		}
	}()
	o.Run = job.Run
	next.Model, err = effects.Learn(job.Context(), v.space, groups, o)
	if cause := context.Cause(job.Context()); err != nil && cause != nil {
		err = fmt.Errorf("the causal model of scheduler %q: %w", m.id, cause)
	}
	return err
}

// measured are the configurations that rounds of the present objective measured until an instant, compared
// with the present defaults, a group for each round. Ones cut short are left out, and ones outside the
// present space.
func (s *Service) measured(m *schedulerState, v *snapshot, until time.Duration) (groups []effects.Group, err error) {
	n := 0
	err = s.o.Store.Rounds(v.UID, 0, func(sequence int64, text []byte, err error) bool {
		r := DecodeRound(sequence, text, err)
		if r.Damage != nil || r.Decision == nil || r.Input.At > until || r.Input.Objective != v.Objective ||
			r.Input.Type != v.Type {
			return true
		}
		n++
		if g := r.group(v.space); g != nil {
			groups = append(groups, *g)
		}
		return n < learnRounds
	})
	slices.Reverse(groups)
	return groups, err
}

// group has the measurements of a round, nil if it did not measure the defaults of a space.
func (r *RoundRecord) group(sp *space.Space) *effects.Group {
	g := &effects.Group{}
	for _, c := range r.Decision.Candidates {
		if c.Error != "" || c.Cut > 0 || len(c.Objective) == 0 || len(c.Metrics) == 0 {
			continue
		}
		config, err := sp.ParseJSON(c.Config)
		if err != nil {
			continue
		}
		t := effects.Trial{Config: config, Metrics: c.Metrics}
		for _, x := range c.Objective {
			t.Objective += x / float64(len(c.Objective))
		}
		if config.Equal(sp.Default()) {
			g.Base = &t
		}
		g.Trials = append(g.Trials, t)
	}
	if g.Base == nil {
		return nil
	}
	return g
}

// Foretold is the prediction of the causal model for a configuration instead of the running one.
type Foretold struct {
	*CausalModel
	effects.Prediction
}

// foretell asks the causal model; Prediction is zero if it answers nothing.
func (s *Service) foretell(ctx context.Context, m *schedulerState, from, to space.Config) (f Foretold, err error) {
	if f.CausalModel, err = s.model(ctx, m); err != nil || f.Fault != "" {
		return f, err
	}
	f.Prediction, err = f.Predict(from, to)
	return f, err
}

// whatIfLearnt answers a question about an external scheduler from the causal model alone.
func (s *Service) whatIfLearnt(ctx context.Context, m *schedulerState,
	config func(sp *space.Space, incumbent space.Config) (space.Config, error)) (out WhatIf, err error) {
	v := m.snapshot.Load()
	state := v.rollout()
	incumbent, err := state.Incumbent(v.space.Default())
	if err != nil {
		return out, fmt.Errorf("%w: scheduler %q runs %w", rollout.ErrState, m.id, err)
	}
	out.Incumbent.Config = incumbent
	if out.Candidate.Config, err = config(v.space, incumbent); err != nil {
		return out, err
	}
	out.Running, out.SchedulerRevision = v.basis().Running, max(1, v.Revision)
	if out.Model, err = s.foretell(ctx, m, incumbent, out.Candidate.Config); err == nil && out.Model.Fault != "" {
		err = fmt.Errorf("%w: scheduler %q is not simulated, and its causal model answers nothing: %s",
			rollout.ErrState, m.id, out.Model.Fault)
	}
	return out, err
}
