package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Waits is why a job waited. The parts that events leave open are asked of a simulation of the scheduler.
type Waits struct {
	workload.Waits
	// Modelled are the parts that the simulation has an answer to, which By lacks, and Asked the instants at which it
	// was asked.
	Modelled []ModelledWait
	Asked    int
	// Reason says why it was not asked about what is open; empty if it was, or if nothing is.
	Reason string
}

// ModelledWait is the time that a job waited by a simulation of its scheduler.
type ModelledWait struct {
	// Cause is simulator.NoReason where the simulation starts the job: at its next cycle, as the scheduler did, if
	// Cycle is set, else long before the scheduler.
	Cause    simulator.Reason
	Cycle    bool
	Split    bool // the free GPUs are no place for it
	Duration time.Duration
	Detail   string // of the last instant
}

const (
	// refusalWork bounds the jobs of the simulations of a wait, ended ones for a fiftieth.
	refusalWork             = 120_000
	leastRefused, mostAsked = 3, 24
	// cycleSlack is the most that a scheduler starts a job after the simulation does.
	cycleSlack = time.Minute
)

// Waits says why a job waited until the latest event.
func (s *Service) Waits(ctx context.Context, id, job string) (out Waits, err error) {
	p, err := s.readPast(ctx, id)
	if err != nil {
		return out, err
	}
	h, known := p.ledger.Job(job, p.at)
	if !known {
		return out, fmt.Errorf("job %q: %w", job, rollout.ErrNotFound)
	}
	if out.Waits, err = p.ledger.Waits(ctx, &h, p.at); err != nil || len(out.Open) == 0 {
		return out, err
	}
	if p.m.snapshot.Load().Type == External {
		out.Reason = round.ErrNoModel.Error()
		return out, nil
	}
	m, err := s.active(id)
	if err == nil {
		err = s.borrow(ctx, m, func(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger) error {
			return out.ask(ctx, turn, v, ledger, job)
		})
	}
	if errors.Is(err, rollout.ErrState) {
		out.Reason, err = err.Error(), nil
	}
	return out, err
}

// ask asks the model of the scheduler at instants spread over the open parts, each for those around it.
func (w *Waits) ask(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger, job string) error {
	n := min(len(w.Open), mostAsked)
	for i := 0; i < n; i++ {
		part := w.Open[i*len(w.Open)/n : (i+1)*len(w.Open)/n]
		at := part[len(part)/2].At
		config, err := v.inForce(v.Zero.Add(at))
		if err != nil {
			w.Reason = "a configuration that was in force is outside the space: " + err.Error()
			return nil
		}
		seen := v.at(ledger, at)
		seen.Turn = turn
		past := round.Past(ledger, at)
		if i == 0 { // the work is known now
			affordable := max(leastRefused, refusalWork/max(1, len(seen.State.Jobs)+len(past.Jobs())/50))
			if n > affordable {
				n, i = affordable, -1
				continue
			}
		}
		r, waits, err := seen.Refusal(ctx, v.Type, config, past, job)
		if errors.Is(err, round.ErrNoModel) {
			w.Reason = err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		if w.Asked++; waits {
			w.add(r, part, at)
		}
	}
	return nil
}

// add moves a part of the wait to the answer of the model.
func (w *Waits) add(r round.Refusal, part []workload.OpenWait, at time.Duration) {
	answer := ModelledWait{Cause: r.Why.Reason, Detail: r.Why.Detail}
	for i := range part {
		x := &part[i]
		if r.Starts >= at {
			answer.Cause, answer.Cycle = simulator.NoReason, x.Ends <= r.Starts+max(cycleSlack, 2*(r.Starts-at))
			answer.Detail = ""
		} else if r.Why.Reason == simulator.NoReason {
			switch {
			case r.Cause == simulator.CauseQuota:
				answer.Cause = simulator.OverQuota
			case r.Cause == simulator.CauseFragmentation:
				answer.Split = true
			default:
				return
			}
		}
		w.By[x.Cause] -= x.Width
		answer.Duration = x.Width
		w.sum(answer)
	}
}

func (w *Waits) sum(answer ModelledWait) {
	for i := range w.Modelled {
		if m := &w.Modelled[i]; m.Cause == answer.Cause && m.Cycle == answer.Cycle && m.Split == answer.Split {
			m.Duration, m.Detail = m.Duration+answer.Duration, answer.Detail
			return
		}
	}
	w.Modelled = append(w.Modelled, answer)
}

// inForce is the configuration in force at an event time, of the present space.
func (v *snapshot) inForce(at time.Time) (config space.Config, err error) {
	var last *rollout.Configuration
	for _, c := range v.configs {
		if from := TookEffect(c); !from.IsZero() && !from.After(at) &&
			(last == nil || !from.Before(TookEffect(last))) {
			last = c
		}
	}
	if last == nil {
		return v.space.Default(), nil
	}
	state := v.rollout()
	return state.Effective(last)
}
