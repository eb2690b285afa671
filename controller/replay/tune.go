package replay

import (
	"context"
	"errors"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Tune is one round at an instant of the trace: the cluster has run since
// Options.From under the incumbent, and the search is for what is coming.
// Options.To and Methods are not looked at. truth says to tune on the true
// future instead of forecast ones.
func Tune(ctx context.Context, o Options, at time.Duration, incumbent space.Config, sampler string, truth bool, progress func(search.Trial)) (controller.RoundResult, *workload.State, error) {
	o.To = at + 1
	if o.Horizon <= 0 {
		o.Horizon = DefaultHorizon
	}
	if at < o.From {
		return controller.RoundResult{}, nil, errors.New("tune: the instant is before the first submission")
	}
	e, err := prepare(o)
	if err != nil {
		return controller.RoundResult{}, nil, err
	}
	// The live simulation ends at the instant, but the true future needs what
	// comes after it.
	e.live = o.Trace.Window(e.start(), at+1+e.o.Horizon)
	live, err := e.startLive(incumbent, true)
	if err != nil {
		return controller.RoundResult{}, nil, err
	}
	if err := live.runUntil(ctx, at); err != nil {
		return controller.RoundResult{}, nil, err
	}
	m := &moment{at: at, ledger: live.ledger, state: live.ledger.State(at), incumbent: incumbent, live: live}
	x := e.truth(m)
	if !truth {
		x, err = controller.Futures(ctx, m.ledger, &m.state, o.Trace.Zero(), e.o.Horizon, e.o.Futures, e.seed(m), o.Simulate, e.engine)
		if err != nil {
			return controller.RoundResult{}, nil, err
		}
	}
	r := e.round(x, incumbent, e.seed(m))
	r.Sampler, r.Progress = sampler, progress
	got, err := r.Run(ctx)
	return got, &m.state, err
}
