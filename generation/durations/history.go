package durations

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// A Record is a job as it is known at the end of the history it is part of: from
// its events, never from a trace's future.
type Record struct {
	*workload.Job // its Duration is not read
	// Begin is the instant at which it got GPUs first, or a later one than the
	// history's end if it waits.
	Begin time.Duration
	// Until is the instant at which it ended, or the history's end.
	Until time.Duration
	// Ran is the work done by Until: run time without restarts. In between, work
	// is taken to grow evenly, which is exact for jobs that were never stopped.
	Ran   time.Duration
	Ended bool
}

// ranAt is the work done by an instant.
func (r *Record) ranAt(at time.Duration) time.Duration {
	switch {
	case at >= r.Until:
		return r.Ran
	case at <= r.Begin:
		return 0
	case r.Ran == r.Until-r.Begin:
		return at - r.Begin
	}
	return time.Duration(float64(r.Ran) * (float64(at-r.Begin) / float64(r.Until-r.Begin)))
}

// Unqueued is the history of a trace on a cluster without queues, as predictors
// are compared on: every job begins when it is submitted and ends after its
// duration; a pending one does no work. A question about an instant must not look
// beyond it; Tracker ensures that.
func Unqueued(jobs []workload.Job) []Record {
	out := make([]Record, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		out[i] = Record{Job: j, Begin: j.Submit, Until: j.Submit + j.Duration, Ran: j.Duration,
			Ended: j.Status.Ended()}
		if j.Status == workload.Pending { // its duration is a guess
			out[i].Until, out[i].Ran = j.Submit, 0
		}
	}
	return out
}

// Known cuts a history off at an instant: later submissions are left
// out, and jobs that ended after it still runs.
func Known(history []Record, at time.Duration) []Record {
	out := make([]Record, 0, len(history))
	for _, r := range history {
		if r.Submit > at {
			continue
		}
		if r.Until > at {
			r.Ran, r.Until, r.Ended = r.ranAt(at), at, false
		}
		out = append(out, r)
	}
	return out
}

// Ran is the work that an active job has done, by that of the time in which it held its GPUs.
func Ran(a *workload.ActiveJob,
	work func(held time.Duration, starts int, j *workload.Job) time.Duration) time.Duration {
	if a.Starts == 0 {
		return 0
	}
	return max(0, work(a.RunTime, a.Starts-a.LostStarts, &a.Job))
}

// Observed is the history that a scheduler's events report at an instant: the jobs
// that ended within memory before it, and the active ones. work returns the work that a job
// did in the time it held its GPUs: restarts make no progress. Nil takes all
// of that time.
func Observed(l *workload.Ledger, at, memory time.Duration,
	work func(held time.Duration, starts int, j *workload.Job) time.Duration) []Record {
	if work == nil {
		work = func(held time.Duration, _ int, _ *workload.Job) time.Duration { return held }
	}
	var out []Record
	ended := l.Finishes(at-memory, at+1) // those that end at the instant itself are known
	for i := range ended {
		f := &ended[i]
		starts := f.Starts - f.LostStarts
		r := Record{Job: &f.Job, Begin: f.Submit, Until: f.End, Ran: max(0, work(f.RunTime, starts, &f.Job)),
			Ended: true}
		if starts == 1 {
			r.Begin = f.End - f.RunTime
		}
		out = append(out, r)
	}
	state := l.State(at)
	for i := range state.Jobs {
		a := &state.Jobs[i]
		r := Record{Job: &a.Job, Begin: a.Submit, Until: at, Ran: Ran(a, work)}
		switch {
		case a.Starts == a.LostStarts:
			r.Begin = at
		case a.Starts-a.LostStarts == 1 && a.Running:
			r.Begin = at - a.RunTime
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
	return out
}
