// Package generation makes the workloads that a tuning round plays candidates
// on: the jobs that are active now with a remaining duration each, and the jobs
// that will arrive. Not one future but several, drawn with a seed, so that all
// candidates of a round meet the same ones.
//
// An [Engine] forecasts arrivals (package arrivals) and predicts durations
// (package durations). Plainer ways stay: arrivals that repeat the last hour, and
// durations drawn from history, given how long the job has run (Durations). It
// knows no scheduler and reads no job's true duration.
package generation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/workload"
)

// Past is a job of the recent past as a controller knows it.
type Past struct {
	workload.Job // Duration is zero
	// Ran is the work it has done: run time without restarts.
	Ran time.Duration
	// Ended says that it has done all its work.
	Ended bool
}

// Drawer draws whole durations: [Durations] from history alone,
// [durations.Outlook] by predicted class.
type Drawer interface {
	// Draw gives a whole duration for a job that has run for ran already, always
	// longer than that.
	Draw(r *rand.Rand, j *workload.Job, ran time.Duration) time.Duration
}

// Future is one way things may go on.
type Future struct {
	// Left is the work left of each active job, in the order of the state.
	Left []time.Duration
	// Arrivals come after the state's instant.
	Arrivals *workload.Workload
}

// Window is the length of the past that is repeated.
const Window = time.Hour

// Request is what futures are made from.
type Request struct {
	At   time.Duration
	Zero time.Time
	// Active are the unfinished jobs, in the order of the state.
	Active []Past
	// Recent are the jobs submitted in the Window before At.
	Recent []Past
	// Durations are drawn from; see Learn.
	Durations Drawer
	Horizon   time.Duration
	Count     int
	Seed      uint64
}

// Repeat draws futures in which the last hour's arrivals come again and again
// until the horizon. Active jobs and repeated ones that have not ended get
// durations from history; so do, in all but the first repetition, those that
// have, because the next job of a kind is not the last one.
func Repeat(r Request) ([]Future, error) {
	futures := make([]Future, r.Count)
	for k := range futures {
		f := &futures[k]
		f.Left = r.left(k)
		draw := rng.Stream("arrivals", r.Seed, uint64(k))
		var jobs []workload.Job
		for n := 1; time.Duration(n-1)*Window < r.Horizon; n++ {
			for i := range r.Recent {
				p := &r.Recent[i]
				j := again(p.Job, p.Submit+time.Duration(n)*Window)
				if j.Submit < r.At || j.Submit >= r.At+r.Horizon {
					continue
				}
				j.ID = fmt.Sprintf("%s+%dh", j.ID, n)
				switch {
				case p.Ended && n == 1:
					j.Duration = max(p.Ran, time.Second)
				case p.Ended:
					j.Duration = r.Durations.Draw(draw, &p.Job, 0)
				default:
					j.Duration = r.Durations.Draw(draw, &p.Job, p.Ran)
				}
				jobs = append(jobs, j)
			}
		}
		w, err := workload.New(fmt.Sprintf("future %d", k), r.Zero, jobs)
		if err != nil {
			return nil, fmt.Errorf("generation: %w", err)
		}
		f.Arrivals = w
	}
	return futures, nil
}

// again is a job that is submitted anew: a deadline is as long after it as before.
func again(j workload.Job, at time.Duration) workload.Job {
	if j.Deadline != 0 {
		j.Deadline = workload.DeadlineAt(max(-workload.MaxSubmit, min(j.Deadline+at-j.Submit, workload.MaxSubmit)))
	}
	j.Submit = at
	return j
}

// left draws the work left of the active jobs in a future.
func (r *Request) left(future int) []time.Duration {
	draw := rng.Stream("remaining", r.Seed, uint64(future))
	out := make([]time.Duration, len(r.Active))
	for i := range r.Active {
		out[i] = r.Durations.Draw(draw, &r.Active[i].Job, r.Active[i].Ran) - r.Active[i].Ran
	}
	return out
}

// Replay draws completions of a past window instead of futures: its state's
// jobs and its arrivals, with known durations where jobs have ended and drawn
// ones where they have not. ranThen[i] is what active[i] had done at the state's
// instant.
func Replay(zero time.Time, active []Past, ranThen []time.Duration, arrivals []Past, d Drawer, count int, seed uint64) ([]Future, error) {
	futures := make([]Future, count)
	for k := range futures {
		f := &futures[k]
		draw := rng.Stream("replay", seed, uint64(k))
		total := func(p *Past) time.Duration {
			if p.Ended {
				return max(p.Ran, time.Second)
			}
			return d.Draw(draw, &p.Job, p.Ran)
		}
		f.Left = make([]time.Duration, len(active))
		for i := range active {
			f.Left[i] = max(time.Second, total(&active[i])-ranThen[i])
		}
		jobs := make([]workload.Job, len(arrivals))
		for i := range arrivals {
			jobs[i] = arrivals[i].Job
			jobs[i].Duration = total(&arrivals[i])
		}
		w, err := workload.New(fmt.Sprintf("replay %d", k), zero, jobs)
		if err != nil {
			return nil, fmt.Errorf("generation: %w", err)
		}
		f.Arrivals = w
	}
	return futures, nil
}
