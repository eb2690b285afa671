package round

import (
	"context"
	"errors"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Ahead is the course of a cluster under a configuration in futures of an instant.
type Ahead struct {
	At, Step time.Duration
	// Horizon is the end of the futures after At, a whole number of steps. It is below Asked where the work of a
	// simulation is bounded.
	Horizon, Asked time.Duration
	// Load is that of each future at At, then every Step until the horizon.
	Load [][]Load
	// Starts and Ends are of the jobs that are active at At, by id: in each future the next start of one that waits,
	// and the end, or -1 where that is beyond the horizon.
	Starts, Ends map[string][]time.Duration
}

// Load is the load of a cluster at an instant: GPUs held, GPUs that jobs wait for, and these jobs.
type Load struct{ Busy, Waiting, Jobs int }

// Errors of LookAhead.
var (
	ErrNoModel  = errors.New("the scheduler is not simulated")
	ErrNoNode   = errors.New("no node is up")
	ErrNoFuture = errors.New("no future has a job and is simulated within its budget of events")
)

const (
	// foreseenWork bounds the work of a future: events, each of which costs as much as there are active jobs. 10,000
	// active jobs have 15,000 events.
	foreseenWork = 150_000_000
	// foreseenDraws bounds the active jobs of all futures together, whose number is from leastForeseen to predicted.
	foreseenDraws, leastForeseen = 240_000, 3
)

// LookAhead simulates a configuration on fresh futures of the input's instant, until a horizon, or until the last step
// that all reach with bounded work. Many active jobs have fewer futures. Futures without jobs, and those
// that use up their budget of events before, are left out. It returns ErrNoModel, ErrNoNode or ErrNoFuture where
// there is nothing to simulate.
func LookAhead(ctx context.Context, in Input, c space.Config, horizon, step time.Duration) (*Ahead, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return nil, ErrNoModel
	}
	if !in.State.HasNode() {
		return nil, ErrNoNode
	}
	in.startEngine()
	seed := rng.Stream("ahead", in.Settings.Seed, uint64(in.State.At)).Uint64()
	futures, err := in.Forecast(ctx, in.Engine, horizon,
		min(predicted, max(leastForeseen, foreseenDraws/max(1, len(in.State.Jobs)))), seed)
	if err != nil {
		return nil, err
	}
	a := &Ahead{At: in.State.At, Horizon: horizon, Asked: horizon, Step: step, Starts: map[string][]time.Duration{},
		Ends: map[string][]time.Duration{}}
	var sim simulator.Sim
	for i := range futures {
		if futures[i].Jobs() == 0 {
			continue
		}
		if err := a.play(ctx, &in, &sim, &futures[i], s.New(c), foreseenWork); err != nil {
			return nil, err
		}
	}
	if len(a.Load) == 0 {
		return nil, ErrNoFuture
	}
	a.cut()
	return a, nil
}

// cut leaves out what lies behind the horizon.
func (a *Ahead) cut() {
	for i := range a.Load {
		a.Load[i] = a.Load[i][:a.Horizon/a.Step+1]
	}
	for _, instants := range []map[string][]time.Duration{a.Starts, a.Ends} {
		for _, all := range instants {
			for i := range all {
				if all[i] > a.At+a.Horizon {
					all[i] = -1
				}
			}
		}
	}
}

// errWork ends a simulation whose work is done.
var errWork = errors.New("the work of a future is bounded")

// play simulates a future until the horizon, which it lowers where the work does not suffice, and notes its course,
// unless it uses up its budget of events.
func (a *Ahead) play(ctx context.Context, in *Input, sim *simulator.Sim, x *Scenario, policy simulator.Policy,
	work int) error {
	ctx, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	active := x.State.Jobs
	starts, ends := make([]time.Duration, len(active)), make([]time.Duration, len(active))
	runs := map[simulator.ID]int{} // GPUs held
	var now Load
	for i := range active {
		starts[i], ends[i] = -1, -1
		if active[i].Running {
			runs[simulator.ID(i)] = active[i].Held
			now.Busy += active[i].Held
		} else {
			now.Waiting, now.Jobs = now.Waiting+active[i].GPUs.Whole(), now.Jobs+1
		}
	}
	var course []Load
	until := func(t time.Duration) {
		for len(course) <= int(a.Horizon/a.Step) && a.At+time.Duration(len(course))*a.Step < t {
			course = append(course, now)
		}
	}
	o := in.Simulator
	o.EventBudget, o.Past = eventsPerJob*x.Jobs()+1000, x.Past
	o.Observer = func(e simulator.Event) {
		if work <= 0 || !e.Kind.OfJob() {
			return
		}
		if work -= 1 + now.Jobs + len(runs); work <= 0 {
			a.Horizon = min(a.Horizon, (e.Time-a.At)/a.Step*a.Step)
			enough(errWork)
			return
		}
		until(e.Time)
		gpus, id := sim.JobDemand(e.Job), int(e.Job)
		held, running := runs[e.Job]
		switch {
		case e.Kind == workload.Submitted && id >= len(active):
			now.Waiting, now.Jobs = now.Waiting+gpus, now.Jobs+1
		case (e.Kind == workload.Started || e.Kind == workload.Resumed) && !running:
			runs[e.Job] = sim.JobHeld(e.Job)
			now.Waiting, now.Jobs, now.Busy = now.Waiting-gpus, now.Jobs-1, now.Busy+runs[e.Job]
			if id < len(active) && starts[id] < 0 {
				starts[id] = e.Time
			}
		case e.Kind == workload.Resized && running:
			runs[e.Job] = sim.JobHeld(e.Job)
			now.Busy += runs[e.Job] - held
		case (e.Kind == workload.Preempted || e.Kind == workload.Finished) && running:
			delete(runs, e.Job)
			if now.Busy -= held; e.Kind == workload.Preempted {
				now.Waiting, now.Jobs = now.Waiting+gpus, now.Jobs+1
			} else if id < len(active) {
				ends[id] = e.Time
			}
		}
	}
	err := in.Turn.Run(func() error {
		if err := sim.Resume(x.State, x.Left, x.Arrivals, policy, o); err != nil {
			return err
		}
		return sim.RunUntil(ctx, a.At+a.Horizon)
	})
	if errors.Is(err, simulator.ErrBudget) {
		return nil
	}
	if err != nil && context.Cause(ctx) != errWork {
		return err
	}
	until(a.At + a.Horizon + 1)
	a.Load = append(a.Load, course)
	for i := range active {
		id := active[i].ID
		a.Ends[id] = append(a.Ends[id], ends[i])
		if !active[i].Running {
			a.Starts[id] = append(a.Starts[id], starts[i])
		}
	}
	return nil
}
