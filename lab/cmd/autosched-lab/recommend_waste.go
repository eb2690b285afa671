package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/workload"
)

// wasting makes a window of a trace's jobs with a share of wasted GPU-hours among all that they
// then ask for, and the actions against it: jobs that idle after their work and are cancelled
// after two hours of that, jobs that ask for twice the GPUs they use and lose the unused ones an hour
// after their start, and keys that crash and are held after three failures.
func wasting(jobs []workload.Job, from, to time.Duration, gpus int, share float64, seed uint64) (
	*recommend.Window, error) {
	if !(share >= 0 && share < 1) {
		return nil, fmt.Errorf("--waste: %g is not from 0 to below 1", share)
	}
	w := &recommend.Window{From: from, To: to}
	useful := 0.
	for _, j := range jobs {
		useful += j.GPUs.Count() * j.Duration.Hours()
		w.Jobs = append(w.Jobs, recommend.Job{Job: j, Used: j.GPUs.Count(), Useful: j.Duration})
	}
	want := useful * share / (1 - share)
	x := rng.Stream("recommend waste", seed)
	order := x.Perm(len(w.Jobs))
	for _, i := range order {
		if want <= 0 {
			break
		}
		j := &w.Jobs[i]
		n := j.GPUs.Whole()
		switch {
		case x.IntN(2) == 0 && 2*n <= gpus && j.Duration > 3*time.Hour:
			waste := float64(n) * j.Duration.Hours()
			if waste > want {
				continue
			}
			want -= waste
			j.GPUs = workload.GPUs(2 * n)
			j.Resize(n, time.Hour)
		case j.Duration > time.Hour:
			idle := min(time.Duration(between(x.Float64(), 3, 24)*float64(time.Hour)),
				time.Duration(want/float64(n)*float64(time.Hour)))
			want -= float64(n) * idle.Hours()
			j.Duration += idle
			j.Cancel(j.Useful + 2*time.Hour)
		default: // its key crashes for a while
			var at time.Duration
			for k := range 12 {
				crash := recommend.Job{Job: j.Job}
				crash.ID = fmt.Sprintf("%s-crash%d", j.ID, k)
				crash.User, crash.Key, crash.Status = cmp.Or(j.User, j.Tenant, "user"), j.ID+"-crash", workload.Failed
				crash.Submit = j.Submit + at
				crash.Duration = time.Duration(between(x.Float64(), 1, 5) * float64(time.Minute))
				at += crash.Duration + 2*time.Minute
				if k >= 3 {
					crash.Acted = &recommend.Change{Drop: true}
				}
				want -= float64(n) * crash.Duration.Hours()
				w.Jobs = append(w.Jobs, crash)
			}
		}
	}
	slices.SortStableFunc(w.Jobs, func(a, b recommend.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return w, nil
}

func between(x, lo, hi float64) float64 { return lo + (hi-lo)*x }

// acts reports whether an action changes a job.
func acts(j *recommend.Job) bool {
	x := j.Acted
	return x != nil && (x.Drop || x.GPUs != j.GPUs || x.Duration != j.Duration)
}
