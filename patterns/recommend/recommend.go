// Package recommend simulates what acting on findings would change: idle jobs are cancelled,
// jobs that hoard get the GPUs they use, keys that crash are held. Windows of a trace run with
// and without an action, on the same cluster, under the same policy, from an empty cluster. Jobs
// do not react: one that is cancelled is not submitted again.
package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Job is a job with what it uses of its GPUs.
type Job struct {
	workload.Job
	// Used is how many of its GPUs' time it uses, at most all, for the first part of its run, and
	// Useful how long that part is. After it, it uses none.
	Used   float64
	Useful time.Duration
	// Acted is the job as the action leaves it; nil where it leaves it alone.
	Acted *Change
}

// Change is what an action does to a job.
type Change struct {
	Drop     bool // it is not submitted
	Duration time.Duration
	GPUs     int
	Useful   time.Duration // as Job.Useful
}

// Result is a window without or with an action.
type Result struct {
	// Utilization is the GPU-time that was used over capacity, from the window's begin to its end
	// plus the drain.
	Utilization float64 `json:"utilization"`
	WaitS       float64 `json:"mean_wait_s"`
	P95WaitS    float64 `json:"p95_wait_s"`
	// SmallWaitS and LargeWaitS are mean waits in tenants with less and more GPU-time than the
	// median tenant.
	SmallWaitS float64 `json:"small_tenants_mean_wait_s"`
	LargeWaitS float64 `json:"large_tenants_mean_wait_s"`
	// Jain is the index of fairness of the tenants' mean stretch, (wait + run) / run: 1 is equal.
	Jain float64 `json:"jain"`
}

// Window is jobs submitted from an instant on, and the instant to which use is counted.
type Window struct {
	From, To time.Duration
	Jobs     []Job
}

// Pair runs a window without and with its action.
func Pair(ctx context.Context, c workload.Cluster, w *Window, policy func() simulator.Policy) (before, after Result,
	err error) {
	if before, err = run(ctx, c, w, policy(), false); err == nil {
		after, err = run(ctx, c, w, policy(), true)
	}
	return before, after, err
}

// Run runs a window without its action.
func Run(ctx context.Context, c workload.Cluster, w *Window, policy simulator.Policy) (Result, error) {
	return run(ctx, c, w, policy, false)
}

func run(ctx context.Context, c workload.Cluster, w *Window, policy simulator.Policy, acted bool) (r Result,
	err error) {
	type use struct {
		gpus   float64
		useful time.Duration // what is left of it
		since  time.Duration
		runs   bool
	}
	uses := map[string]*use{}
	size := map[string]float64{} // GPU-time by tenant, before any action
	var jobs []workload.Job
	for i := range w.Jobs {
		j := &w.Jobs[i]
		size[j.Tenant] += float64(j.GPUs.Whole()) * j.Duration.Hours()
		one, u := j.Job, &use{gpus: j.Used, useful: j.Useful}
		if x := j.Acted; x != nil && acted {
			if x.Drop {
				continue
			}
			one.Duration, one.GPUs, u.useful = x.Duration, workload.GPUs(x.GPUs), x.Useful
			u.gpus *= min(1, float64(j.Useful)/float64(max(1, x.Useful))) // the same work
		}
		one.HasWait, one.Wait, one.Nodes = false, 0, ""
		jobs = append(jobs, one)
		uses[one.ID] = u
	}
	if len(jobs) == 0 {
		return r, errors.New("recommend: a window without jobs")
	}
	l, err := workload.New("window", time.Unix(0, 0), jobs)
	if err != nil {
		return r, err
	}
	var sim simulator.Sim
	used := 0.
	observe := func(e simulator.Event) {
		switch e.Kind {
		case workload.Started, workload.Resumed:
			u := uses[sim.Spec(e.Job).ID]
			u.since, u.runs = e.Time, true
		case workload.Preempted, workload.Finished:
			u := uses[sim.Spec(e.Job).ID]
			if !u.runs {
				return
			}
			done := min(e.Time-u.since, u.useful)
			used += u.gpus * max(0, min(u.since+done, w.To)-max(u.since, w.From)).Seconds()
			u.useful, u.runs = u.useful-done, false
		}
	}
	if err = sim.Start(c, l, policy, simulator.Options{Observer: observe}); err == nil {
		err = sim.Run(ctx)
	}
	if err != nil {
		return r, err
	}
	sizes := make([]float64, 0, len(size))
	for _, t := range tenants(size) {
		sizes = append(sizes, size[t])
	}
	slices.Sort(sizes)
	median := stats.Quantile(sizes, .5)
	var waits []float64
	var small, large mean
	stretch := map[string]*mean{}
	for _, o := range sim.Outcomes(nil) {
		spec := sim.Spec(o.ID)
		wait := o.Wait.Seconds()
		waits = append(waits, wait)
		if size[spec.Tenant] <= median {
			small.add(wait)
		} else {
			large.add(wait)
		}
		if stretch[spec.Tenant] == nil {
			stretch[spec.Tenant] = &mean{}
		}
		stretch[spec.Tenant].add(o.JCT().Seconds() / max(60, o.RunTime.Seconds()))
	}
	r.Utilization = used / (float64(c.TotalGPUs()) * (w.To - w.From).Seconds())
	r.WaitS, r.SmallWaitS, r.LargeWaitS = stats.Mean(waits), small.value(), large.value()
	slices.Sort(waits)
	r.P95WaitS = stats.Quantile(waits, .95)
	var sum, squares float64
	for _, t := range tenants(size) {
		if m := stretch[t]; m != nil {
			sum += m.value()
			squares += m.value() * m.value()
		}
	}
	r.Jain = sum * sum / (float64(len(stretch)) * max(squares, 1e-12))
	return r, nil
}

// tenants are the names in order, so that sums do not depend on that of a map.
func tenants[T any](of map[string]T) []string {
	out := make([]string, 0, len(of))
	for t := range of {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

type mean struct{ sum, n float64 }

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) value() float64 { return m.sum / max(1, m.n) }

// Effect is what an action changes, over windows.
type Effect struct {
	Windows int    `json:"windows"`
	Before  Result `json:"before"`
	After   Result `json:"after"`
	// Gain is the relative gain in utilisation of the means, with its 95 % interval of a bootstrap
	// over windows; P is of a paired Wilcoxon test of it.
	Gain float64 `json:"gain"`
	Low  float64 `json:"gain_low"`
	High float64 `json:"gain_high"`
	P    float64 `json:"p"`
	// WaitChange is the relative change of the mean wait, below 0 is shorter, as Gain with its interval and test.
	WaitChange float64 `json:"wait_change"`
	WaitLow    float64 `json:"wait_change_low"`
	WaitHigh   float64 `json:"wait_change_high"`
	WaitP      float64 `json:"wait_p"`
	// Hurt is the number of windows in which utilisation falls, Longer in which jobs wait longer.
	Hurt   int `json:"windows_with_less_utilization"`
	Longer int `json:"windows_with_longer_waits"`
}

// Compare sums up pairs of windows.
func Compare(before, after []Result, seed uint64) Effect {
	e := Effect{Windows: len(before)}
	var differences, waits []float64
	for i := range before {
		add(&e.Before, &before[i], len(before))
		add(&e.After, &after[i], len(before))
		differences = append(differences, after[i].Utilization-before[i].Utilization)
		waits = append(waits, after[i].WaitS-before[i].WaitS)
		if after[i].Utilization < before[i].Utilization {
			e.Hurt++
		}
		if after[i].WaitS > before[i].WaitS {
			e.Longer++
		}
	}
	e.Gain = gain(e.Before.Utilization, e.After.Utilization)
	e.P = stats.Wilcoxon(differences)
	e.WaitChange, e.WaitP = gain(e.Before.WaitS, e.After.WaitS), stats.Wilcoxon(waits)
	x := rng.Stream("recommend", seed)
	var draws, waitDraws []float64
	for range 1000 {
		var b, a, waited, waits float64
		for range before {
			i := x.IntN(len(before))
			b, a = b+before[i].Utilization, a+after[i].Utilization
			waited, waits = waited+before[i].WaitS, waits+after[i].WaitS
		}
		draws, waitDraws = append(draws, gain(b, a)), append(waitDraws, gain(waited, waits))
	}
	e.Low, e.High = stats.Interval(draws, 1)
	e.WaitLow, e.WaitHigh = stats.Interval(waitDraws, 1)
	return e
}

// gain is the relative one, 0 where nothing was used before.
func gain(before, after float64) float64 {
	if before <= 0 {
		return 0
	}
	return after/before - 1
}

func add(to, r *Result, n int) {
	for _, x := range []struct {
		to *float64
		v  float64
	}{{&to.Utilization, r.Utilization}, {&to.WaitS, r.WaitS}, {&to.P95WaitS, r.P95WaitS},
		{&to.SmallWaitS, r.SmallWaitS},
		{&to.LargeWaitS, r.LargeWaitS}, {&to.Jain, r.Jain}} {
		*x.to += x.v / float64(n)
	}
}

// Waste makes a window of a trace's jobs with a share of wasted GPU-hours among those that they
// then ask for, and the actions against it: jobs that idle after their work and are cancelled
// after two hours of that, jobs that ask for twice the GPUs they use and get what they use an hour
// after their start, and keys that crash and are held after three failures.
func Waste(jobs []workload.Job, from, to time.Duration, gpus int, share float64, seed uint64) (*Window, error) {
	if !(share >= 0 && share < 1) {
		return nil, fmt.Errorf("recommend: waste: %g is not from 0 to below 1", share)
	}
	w := &Window{From: from, To: to}
	useful := 0.
	for _, j := range jobs {
		n := j.GPUs.Whole()
		useful += float64(n) * j.Duration.Hours()
		w.Jobs = append(w.Jobs, Job{Job: j, Used: float64(n), Useful: j.Duration})
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
			j.Acted = &Change{Duration: j.Duration + time.Hour, GPUs: n, Useful: j.Duration + time.Hour}
		case j.Duration > time.Hour:
			idle := min(time.Duration(between(x.Float64(), 3, 24)*float64(time.Hour)),
				time.Duration(want/float64(n)*float64(time.Hour)))
			want -= float64(n) * idle.Hours()
			j.Duration += idle
			j.Acted = &Change{Duration: min(j.Duration, j.Useful+2*time.Hour), GPUs: n, Useful: j.Useful}
		default: // its key crashes for a while
			var at time.Duration
			for k := range 12 {
				crash := Job{Job: j.Job}
				crash.ID = fmt.Sprintf("%s-crash%d", j.ID, k)
				crash.Submit = j.Submit + at
				crash.Duration = time.Duration(between(x.Float64(), 1, 5) * float64(time.Minute))
				at += crash.Duration + 2*time.Minute
				if k >= 3 {
					crash.Acted = &Change{Drop: true}
				}
				want -= float64(n) * crash.Duration.Hours()
				w.Jobs = append(w.Jobs, crash)
			}
		}
	}
	slices.SortStableFunc(w.Jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return w, nil
}

func between(x, lo, hi float64) float64 { return lo + (hi-lo)*x }
