package replay

import (
	"context"
	"errors"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TuneOptions configure Tune.
type TuneOptions struct {
	At        time.Duration // the instant to tune at
	Incumbent space.Config
	Sampler   string // of search.Samplers, "" for the default
	// Truth tunes on the true future instead of forecast ones.
	Truth    bool
	Progress func(search.Trial)
	// Time and Record are as in round.Round.
	Time   time.Duration
	Record search.Record
	// Front is as in round.Round.
	Front []string
}

// Tune runs one round at an instant of the trace. The cluster has run since
// Options.From under the incumbent. Options.To and Methods are ignored.
func Tune(ctx context.Context, o Options, t TuneOptions) (round.Result, *workload.State, error) {
	at, incumbent := t.At, t.Incumbent
	o.To = at + 1
	if at < o.From {
		return round.Result{}, nil, errors.New("tune: the instant is before the first submission")
	}
	e, err := prepare(o)
	if err != nil {
		return round.Result{}, nil, err
	}
	// The live simulation ends at the instant, but the true future needs later
	// arrivals.
	e.Workload = o.Trace.Window(e.start(), at+1+e.Options.Horizon)
	live, err := e.Start(incumbent, true)
	if err != nil {
		return round.Result{}, nil, err
	}
	if err := live.Sim.RunUntil(ctx, at); err != nil {
		return round.Result{}, nil, err
	}
	m := e.Input(live, 0, at, incumbent)
	x := []round.Scenario{e.Truth(m)}
	if !t.Truth {
		x, err = e.Futures(ctx, m)
		if err != nil {
			return round.Result{}, nil, err
		}
	}
	r := e.Round(x, incumbent, m.Seed)
	r.Sampler, r.Progress = t.Sampler, t.Progress
	r.Front, r.Simplify = t.Front, true
	r.Time, r.Record = t.Time, t.Record
	got, err := r.Run(ctx)
	return got, &m.State, err
}
