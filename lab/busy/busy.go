// Package busy finds instants of a window at which jobs wait.
package busy

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Instants returns instants on the grid of intervals at which jobs wait, spread evenly. Under an
// elastic scheduler, which starts jobs on few GPUs at once, it is enough that jobs run.
func Instants(ctx context.Context, e *replay.Evaluation, incumbent space.Config, want int) ([]time.Duration, error) {
	live, err := e.Start(incumbent, false)
	if err != nil {
		return nil, err
	}
	_, elastic := e.Options.Scheduler.New(incumbent).(simulator.Elastic)
	var all []time.Duration
	for at := e.Options.From + e.Options.Interval; at < e.Options.To; at += e.Options.Interval {
		if err := live.Sim.RunUntil(ctx, at); err != nil {
			return nil, err
		}
		if live.Sim.Waiting() > 0 || elastic && live.Sim.Active() > 0 {
			all = append(all, at)
		}
	}
	if len(all) < want {
		return nil, fmt.Errorf("jobs wait at %d instants of the window only, not at %d: "+
			"there is little to search for", len(all), want)
	}
	out := make([]time.Duration, want)
	for i := range out {
		out[i] = all[(2*i+1)*len(all)/(2*want)]
	}
	return out, nil
}
