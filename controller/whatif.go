package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/controller/queue"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// ErrBusy is the error of a question about a scheduler that many others wait for.
var ErrBusy = errors.New("too many questions wait for an answer; try again later")

// maxQuestions bounds the questions that wait, by scheduler.
const maxQuestions = 16

// Questions are an owner of their own in the queue, whose weight is a share of the scheduler's.
const (
	questionShare = .25
	questionOwner = " questions"
)

// question is a question that waits for the ledger and the engine of a scheduler.
type question struct {
	ctx  context.Context
	work func(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger) error
	done chan error // has room for the answer
}

// borrow does work with the ledger and the engine of a scheduler while no round or look has them.
// Work takes turns as rounds do, and changes nothing that these decide on. Of rounds and questions
// that wait, each comes after the other.
func (s *Service) borrow(ctx context.Context, m *schedulerState,
	work func(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger) error) error {
	if err := cmp.Or(s.await(ctx, s.launched), s.await(ctx, m.ready)); err != nil {
		return err
	}
	a := &question{ctx, work, make(chan error, 1)}
	m.mu.Lock()
	err := m.agenda.ask(a)
	if err == nil {
		s.wake(m)
	}
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("scheduler %q: %w", m.id, err)
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
		err = ErrClosed
	}
	m.mu.Lock()
	waited := m.agenda.withdraw(a)
	m.mu.Unlock()
	if !waited {
		err = <-a.done // work uses variables of the caller; its context has ended
	}
	return err
}

// enterQuestion waits for the turn of a question, which ends with leave.
func (s *Service) enterQuestion(ctx context.Context, m *schedulerState) (*queue.Job, error) {
	return s.queue.Enter(ctx, m.id+questionOwner, questionShare*m.snapshot.Load().Policy.weight(), s.o.RoundLimit)
}

// cancelJobs ends the rounds and the questions of a scheduler.
func (s *Service) cancelJobs(id string, why error) {
	s.queue.Cancel(id, why)
	s.queue.Cancel(id+questionOwner, why)
}

func (s *Service) answer(m *schedulerState, a *question) error {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	job, err := s.enterQuestion(ctx, m)
	if err == nil {
		defer s.leave(m, job)
		v := m.snapshot.Load()
		var ledger *workload.Ledger
		ledger, err = s.takeLedger(m, v.ClockSet)
		if err == nil && ledger == nil {
			err = dropped("the event clock was set")
		}
		if err == nil {
			err = s.simulate(m, func() error { return a.work(job.Context(), job.Run, v, ledger) })
			if cause := context.Cause(job.Context()); err != nil && isDropped(cause) {
				err = cause
			}
		}
	}
	if isDropped(err) {
		return fmt.Errorf("scheduler %q: %w: %w", m.id, rollout.ErrChanged, err)
	}
	return err
}

// WhatIf compares a configuration with the running one.
type WhatIf struct {
	At                time.Time // event time
	Incumbent         round.Outlook
	Candidate         round.Outlook
	Running           int64 // the incumbent's revision, 0 for the defaults
	SchedulerRevision int64
	Futures           int
	// Model is the prediction of the causal model for the candidate. Of an external scheduler there is nothing else
	// but the configurations.
	Model Foretold
}

// WhatIf measures a configuration on futures of the latest event time, as a round would, or on workloads, and asks
// the causal model about it; about an external scheduler it asks that alone. The configuration is made of the present
// space and the running configuration. The workloads are read when it is its turn: waiting questions have no jobs in
// memory.
func (s *Service) WhatIf(ctx context.Context, id string,
	config func(sp *space.Space, incumbent space.Config) (space.Config, error),
	on ...func(context.Context) (*workload.Workload, error)) (out WhatIf, err error) {
	m, err := s.active(id)
	if err != nil {
		return out, err
	}
	if m.snapshot.Load().Type == External {
		if len(on) > 0 {
			return out,
				fmt.Errorf("%w: scheduler %q is not simulated, so that workloads say nothing about it: "+
					"'autosched study' measures it",
					rollout.ErrState, id)
		}
		return s.whatIfLearnt(ctx, m, config)
	}
	err = s.borrow(ctx, m, func(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger) error {
		state := v.rollout()
		incumbent, err := state.Incumbent(v.space.Default())
		if err != nil {
			return fmt.Errorf("%w: scheduler %q runs %w", rollout.ErrState, id, err)
		}
		c, err := config(v.space, incumbent)
		if err != nil {
			return err
		}
		out = WhatIf{Running: v.basis().Running, SchedulerRevision: max(1, v.Revision)}
		var found []round.Outlook
		if len(on) > 0 {
			found, err = s.foreseeOn(ctx, turn, v, on, incumbent, c)
		} else {
			found, err = s.foresee(ctx, turn, m, v, ledger, &out, incumbent, c)
		}
		if err == nil {
			out.Incumbent, out.Candidate = found[0], found[1]
		}
		return err
	})
	if err == nil {
		out.Model, err = s.foretell(ctx, m, out.Incumbent.Config, out.Candidate.Config)
	}
	return out, err
}

// foresee measures configurations on futures of the latest event time.
func (s *Service) foresee(ctx context.Context, turn round.Turn, m *schedulerState, v *snapshot,
	ledger *workload.Ledger, out *WhatIf,
	configs ...space.Config) ([]round.Outlook, error) {
	if v.Zero.IsZero() {
		return nil, noEvents(v.ID)
	}
	m.mu.Lock()
	at := m.history.Now()
	m.mu.Unlock()
	seen, tariff, err := s.sees(v, ledger, at)
	if err != nil {
		return nil, err
	}
	if tariff == nil && s.o.Energy != nil {
		_ = measure(&seen, s.o.Energy()) // for people; nothing is decided by it
	}
	seen.Turn = turn
	in := round.Input{Snapshot: seen, Settings: v.settings(s.o.Workers), Scheduler: v.Type,
		Space: v.space, Goal: v.goal, Engine: m.futures.of(v), Round: int(at / v.Policy.UpdateInterval)}
	found, err := round.Foresee(ctx, in, configs...)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: scheduler %q has no active job and no arrival to simulate, or no node", rollout.ErrState,
			v.ID)
	}
	out.At, out.Futures = v.Zero.Add(at), in.Settings.Futures
	return found, err
}

// foreseeOn measures configurations on workloads. Prices of energy are from the first one's time.
func (s *Service) foreseeOn(ctx context.Context, turn round.Turn, v *snapshot,
	on []func(context.Context) (*workload.Workload, error),
	configs ...space.Config) ([]round.Outlook, error) {
	all := make([]*workload.Workload, len(on))
	for i, read := range on {
		var err error
		if all[i], err = read(ctx); err != nil {
			return nil, err
		}
	}
	in := round.Input{Snapshot: round.Snapshot{State: workload.State{Cluster: v.Cluster}, Zero: all[0].Zero(),
		Simulator: v.Simulation.options(), Turn: turn}, Settings: v.settings(s.o.Workers), Scheduler: v.Type,
		Space: v.space,
		Goal:  v.goal}
	metered := v.goal.Metered()
	if metered != "" && s.o.Energy == nil {
		return nil, fmt.Errorf("%s: %w", metered, ErrNoTariff)
	}
	if s.o.Energy != nil {
		if err := measure(&in.Snapshot, s.o.Energy()); err != nil && metered != "" {
			return nil, err
		}
	}
	found, err := round.ForeseeOn(ctx, in, all, configs...)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: no job of a workload fits the cluster of scheduler %q", rollout.ErrState, v.ID)
	}
	return found, err
}
