package round

import (
	"context"
	"errors"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Refusal is what the model of a scheduler does with a job that waits.
type Refusal struct {
	// Starts is the instant at which it starts the job; before the snapshot's if it does not.
	Starts time.Duration
	// Why is its reason, simulator.NoReason where its policy gives none, and Cause what keeps the job waiting whatever
	// the policy. Both are of a job that does not start.
	Why   simulator.Why
	Cause simulator.Cause
}

// refusalSpans are the times in which cycles of the scheduler may come.
var refusalSpans = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// Refusal simulates a configuration of a scheduler from the snapshot on, in which no job comes or ends, until it starts
// a job or has a reason not to. It reports whether the job waits then, fits the cluster and has an answer. The error is
// ErrNoModel for a scheduler that is not simulated.
func (s *Snapshot) Refusal(ctx context.Context, scheduler string, c space.Config, past *simulator.Past,
	job string) (out Refusal, ok bool, err error) {
	of, err := schedulers.Find(scheduler)
	if err != nil {
		return out, false, ErrNoModel
	}
	policy := of.New(c)
	state, _ := fitting(&s.State)
	id := simulator.ID(-1)
	left := make([]time.Duration, len(state.Jobs))
	for i := range state.Jobs {
		if left[i] = time.Duration(workload.MaxDuration); state.Jobs[i].ID == job && !state.Jobs[i].Running {
			id = simulator.ID(i)
		}
	}
	if id < 0 {
		return out, false, nil
	}
	out.Starts, out.Why.Job = state.At-1, id
	if p, ok := policy.(simulator.Reasoned); ok {
		p.Explain(&out.Why)
	}
	o := s.Simulator
	o.EventBudget, o.Past = eventsPerJob*len(left)+1000, past
	var sim simulator.Sim
	clock := workload.NewSorted("", s.Zero, nil, false) // of advance reservations
	err = s.Turn.Run(func() error {
		if err := sim.Resume(state, left, clock, policy, o); err != nil {
			return err
		}
		for _, span := range refusalSpans {
			if err := sim.RunUntil(ctx, state.At+span); err != nil {
				return err
			}
			if sim.JobRunning(id) {
				out.Starts = sim.JobSince(id)
				return nil
			}
			if out.Why.Reason > simulator.Behind {
				break
			}
		}
		out.Cause = sim.CauseOf(id)
		return nil
	})
	if errors.Is(err, simulator.ErrBudget) {
		return out, false, nil
	}
	return out, err == nil, err
}
