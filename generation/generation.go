// Package generation makes the workloads on which a tuning round simulates
// candidates: the jobs that are active now with a remaining duration each, and the jobs
// that will arrive. Not one future but several, drawn with a seed, so that all
// candidates of a round are simulated on the same ones.
//
// An [Engine] forecasts arrivals (package arrivals) and draws durations (package
// durations). It knows no scheduler and reads no job's true duration.
package generation

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/workload"
)

// Future is one way things may go on.
type Future struct {
	// Left is the work left of each active job, in the order of the state.
	Left []time.Duration
	// Arrivals come after the state's instant.
	Arrivals *workload.Workload
}

// Request is the input of futures: the knowledge at an instant.
type Request struct {
	At time.Duration
	// Active are the unfinished jobs, in the order of the state.
	Active []durations.Record
	// Records are the ended and the active jobs in order of submission, from which
	// durations are learnt.
	Records []durations.Record
	// Known returns the records as they were at an earlier instant. If nil, they follow from
	// Records, which does not say when jobs that were stopped made progress.
	Known func(at time.Duration) []durations.Record
	// Submitted are the jobs of the past in order of submission, from which
	// arrivals are forecast.
	Submitted []workload.Job
	Horizon   time.Duration
	Count     int
	Seed      uint64
}

// again is a job that is submitted anew: a deadline is as long after it as before, and
// it ends.
func again(j workload.Job, at time.Duration) workload.Job {
	if j.Deadline != 0 {
		j.Deadline = workload.DeadlineAt(max(-workload.MaxSubmit, min(j.Deadline+at-j.Submit, workload.MaxSubmit)))
	}
	if j.Submit = at; !j.Status.Ended() {
		j.Status = workload.Unknown
	}
	return j
}

// Past is a window that is replayed: the state at its begin and the arrivals in it.
type Past struct {
	Active []durations.Record
	// Ran is the work that each active job had done at the window's begin.
	Ran      []time.Duration
	Arrivals []durations.Record
}

// Replay draws completions of a past window instead of futures. Jobs that have
// ended keep their durations; the durations of the others are drawn from the history at
// the present.
func Replay(ctx context.Context, zero time.Time, past Past, history []durations.Record, count int,
	seed uint64) ([]Future, error) {
	known := durations.FromHistory(history)
	futures := make([]Future, count)
	for k := range futures {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := &futures[k]
		draw := rng.Stream("replay", seed, uint64(k))
		total := func(r *durations.Record) time.Duration {
			if r.Ended {
				return within(r.Job, max(r.Ran, time.Second), r.Ran)
			}
			return within(r.Job, known.Draw(draw, r.Job, r.Ran), r.Ran)
		}
		f.Left = make([]time.Duration, len(past.Active))
		for i := range past.Active {
			f.Left[i] = max(time.Second, total(&past.Active[i])-past.Ran[i])
		}
		jobs := make([]workload.Job, len(past.Arrivals))
		for i := range past.Arrivals {
			jobs[i] = *past.Arrivals[i].Job
			jobs[i].Duration = total(&past.Arrivals[i])
		}
		w, err := workload.New(fmt.Sprintf("replay %d", k), zero, jobs)
		if err != nil {
			return nil, fmt.Errorf("generation: %w", err)
		}
		f.Arrivals = w
	}
	return futures, nil
}
