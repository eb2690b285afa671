// Package recommend simulates the effects of acting on findings: idle jobs are cancelled,
// jobs that hoard get the GPUs they use, keys that crash are held. Windows of a trace run with
// and without an action, on the same cluster, under the same policy, from an empty cluster. Jobs
// do not react: one that is cancelled is not submitted again.
package recommend

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Job is a job with the use of its GPUs.
type Job struct {
	workload.Job
	// Used is how many of its GPUs' time it uses, at most all, for the first part of its run, and
	// Useful how long that part is. After it, it uses none.
	Used   float64
	Useful time.Duration
	// Acted is the job as the action leaves it; nil where it leaves it alone.
	Acted *Change
}

// Change is the effect of an action on a job.
type Change struct {
	Drop     bool // it is not submitted
	Duration time.Duration
	GPUs     workload.MilliGPU
	Used     float64       // as Job.Used
	Useful   time.Duration // as Job.Useful
}

// Result is a window without or with an action.
type Result struct {
	// Utilization is the GPU-time that was used over capacity, from the window's begin to its end
	// plus the drain.
	Utilization float64 `json:"utilization"`
	// UsedGPUHours are the numerator of Utilization; IdleGPUHours are held without use by the
	// window's jobs until they end.
	UsedGPUHours float64 `json:"used_gpu_hours"`
	IdleGPUHours float64 `json:"idle_gpu_hours"`
	WaitS        float64 `json:"mean_wait_s"`
	P95WaitS     float64 `json:"p95_wait_s"`
	// SmallWaitS and LargeWaitS are mean waits in tenants with less and more GPU-time than the
	// median tenant, 0 without such tenants.
	SmallWaitS float64 `json:"small_tenants_mean_wait_s"`
	LargeWaitS float64 `json:"large_tenants_mean_wait_s"`
	// Jain is the index of fairness of the tenants' mean stretch, (wait + run) / run: 1 is equal. JainShares is that
	// of the parts of the GPU-time that tenants ask for and use before the window's end.
	Jain       float64 `json:"jain"`
	JainShares float64 `json:"jain_of_shares"`
	// EnergyKWh, EnergyCost and CO2Kg are measured by Options.Meter.
	EnergyKWh  float64 `json:"energy_kwh,omitempty"`
	EnergyCost float64 `json:"energy_cost,omitempty"`
	CO2Kg      float64 `json:"co2_kg,omitempty"`
	tenants    map[string]*tenant
}

// tenant is a tenant of a window.
type tenant struct {
	size         float64 // GPU-hours, before any action
	wanted, used float64 // GPU-hours of use, in all and before the window's end
	wait         mean    // s
	stretch      mean
}

// Window is jobs of which those submitted from an instant on count, and the instant to which use is counted.
type Window struct {
	From, To time.Duration
	Jobs     []Job
}

// Pair runs a window without and with its action.
func Pair(ctx context.Context, c workload.Cluster, w *Window, o simulator.Options, policy func() simulator.Policy) (
	before, after Result, err error) {
	if before, err = Run(ctx, c, w, o, policy(), false); err == nil {
		after, err = Run(ctx, c, w, o, policy(), true)
	}
	return before, after, err
}

// Run runs a window with its action or without.
func Run(ctx context.Context, c workload.Cluster, w *Window, o simulator.Options, policy simulator.Policy, acted bool) (
	r Result, err error) {
	type use struct {
		held   float64       // GPUs
		gpus   float64       // that are used
		useful time.Duration // work left
		since  time.Duration
		runs   bool
		by     *tenant
	}
	uses := map[string]*use{}
	r.tenants = map[string]*tenant{}
	var jobs []workload.Job
	for i := range w.Jobs {
		j := &w.Jobs[i]
		by := r.tenants[j.Tenant]
		if by == nil {
			by = &tenant{}
			r.tenants[j.Tenant] = by
		}
		by.size += j.GPUs.Count() * j.Duration.Hours()
		by.wanted += j.Used * j.Useful.Hours()
		one, u := j.Job, &use{gpus: j.Used, useful: j.Useful, by: by}
		if x := j.Acted; x != nil && acted {
			if x.Drop {
				continue
			}
			one.Duration, one.GPUs, u.gpus, u.useful = x.Duration, x.GPUs, x.Used, x.Useful
		}
		u.held = one.GPUs.Count()
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
	o.CountFrom = w.From
	o.Observer = func(e simulator.Event) {
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
			used := u.gpus * max(0, min(u.since+done, w.To)-max(u.since, w.From)).Hours()
			r.UsedGPUHours += used
			u.by.used += used
			if sim.JobSubmit(e.Job) >= w.From {
				r.IdleGPUHours += u.held*(e.Time-u.since).Hours() - u.gpus*done.Hours()
			}
			u.useful, u.runs = u.useful-done, false
		}
	}
	if err = sim.Start(c, l, policy, o); err == nil {
		err = sim.Run(ctx)
	}
	if err != nil {
		return r, err
	}
	var waits []float64
	for _, o := range sim.Outcomes(nil) {
		spec := sim.Spec(o.ID)
		wait, by := o.Wait.Seconds(), r.tenants[spec.Tenant]
		waits = append(waits, wait)
		by.wait.add(wait)
		by.stretch.add(o.JCT().Seconds() / max(60, o.RunTime.Seconds()))
	}
	r.Utilization = r.UsedGPUHours / (float64(c.TotalGPUs()) * (w.To - w.From).Hours())
	r.WaitS = stats.Mean(waits)
	slices.Sort(waits)
	r.P95WaitS = stats.Quantile(waits, .95)
	drawn := sim.Drawn()
	r.EnergyKWh, r.EnergyCost, r.CO2Kg = drawn.Energy, drawn.Cost, drawn.CO2
	r.fairness()
	return r, nil
}

// fairness fills in the comparison of tenants.
func (r *Result) fairness() {
	median := medianSize(r.tenants)
	var small, large mean
	var stretches, shares []float64
	for _, name := range slices.Sorted(maps.Keys(r.tenants)) {
		t := r.tenants[name]
		if t.size <= median {
			small.join(t.wait)
		} else {
			large.join(t.wait)
		}
		if t.stretch.n > 0 {
			stretches = append(stretches, t.stretch.value())
		}
		if t.wanted > 0 {
			shares = append(shares, t.used/t.wanted)
		}
	}
	r.SmallWaitS, r.LargeWaitS = small.value(), large.value()
	r.Jain, r.JainShares = jain(stretches), jain(shares)
}

// medianSize is up to which size a tenant is small.
func medianSize(of map[string]*tenant) float64 {
	sizes := make([]float64, 0, len(of))
	for _, t := range of {
		sizes = append(sizes, t.size)
	}
	slices.Sort(sizes)
	return stats.Quantile(sizes, .5)
}

// jain is Jain's index of fairness, 1 where all are 0.
func jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(x)) * squares)
}

type mean struct{ sum, n float64 }

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) join(x mean) { m.sum, m.n = m.sum+x.sum, m.n+x.n }

func (m *mean) value() float64 { return m.sum / max(1, m.n) }

// Interval is a difference with its 95 % interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Times is the interval of a multiple.
func (i Interval) Times(x float64) Interval {
	if x < 0 {
		i.Low, i.High = i.High, i.Low
	}
	return Interval{i.Mean * x, i.Low * x, i.High * x}
}

// Effect is the effect of an action, over windows. Intervals are of a bootstrap over windows.
type Effect struct {
	Windows int    `json:"windows"`
	Before  Result `json:"before"` // means
	After   Result `json:"after"`
	// Gain is the relative gain in utilisation of the means, with its 95 % interval; P is of a paired Wilcoxon test
	// of it.
	Gain float64 `json:"gain"`
	Low  float64 `json:"gain_low"`
	High float64 `json:"gain_high"`
	P    float64 `json:"p"`
	// WaitChange is the relative change of the mean wait, below 0 is shorter, as Gain with its interval and test.
	WaitChange float64 `json:"wait_change"`
	WaitLow    float64 `json:"wait_change_low"`
	WaitHigh   float64 `json:"wait_change_high"`
	WaitP      float64 `json:"wait_p"`
	// Used are the additional GPU-hours of use before a window's end, Freed the GPU-hours without use that are
	// saved, Energy the additional kWh; of a window.
	Used   Interval `json:"used_gpu_hours_more"`
	Freed  Interval `json:"freed_gpu_hours"`
	Energy Interval `json:"energy_kwh_more"`
	// Small and Large are tenants of up to the median tenant's GPU-time and of more.
	Small Tenants `json:"small_tenants"`
	Large Tenants `json:"large_tenants"`
	// Hurt is the number of windows in which utilisation falls, Longer in which jobs wait longer.
	Hurt   int `json:"windows_with_less_utilization"`
	Longer int `json:"windows_with_longer_waits"`
}

// Tenants are how many wait how, by the mean wait over all windows. Less than a second is no difference.
type Tenants struct {
	Shorter int `json:"shorter"`
	Longer  int `json:"longer"`
	Equal   int `json:"equal"`
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
	e.byTenant(before, after)
	e.Gain = gain(e.Before.Utilization, e.After.Utilization)
	e.P = stats.Wilcoxon(differences)
	e.WaitChange, e.WaitP = gain(e.Before.WaitS, e.After.WaitS), stats.Wilcoxon(waits)
	e.Used.Mean = e.After.UsedGPUHours - e.Before.UsedGPUHours
	e.Freed.Mean = e.Before.IdleGPUHours - e.After.IdleGPUHours
	e.Energy.Mean = e.After.EnergyKWh - e.Before.EnergyKWh
	x := rng.Stream("recommend", seed)
	var gains, waitChanges, used, freed, energy []float64
	for range 1000 {
		var b, a Result
		for range before {
			i := x.IntN(len(before))
			add(&b, &before[i], len(before))
			add(&a, &after[i], len(before))
		}
		gains = append(gains, gain(b.Utilization, a.Utilization))
		waitChanges = append(waitChanges, gain(b.WaitS, a.WaitS))
		used = append(used, a.UsedGPUHours-b.UsedGPUHours)
		freed = append(freed, b.IdleGPUHours-a.IdleGPUHours)
		energy = append(energy, a.EnergyKWh-b.EnergyKWh)
	}
	e.Low, e.High = stats.Interval(gains, 1)
	e.WaitLow, e.WaitHigh = stats.Interval(waitChanges, 1)
	e.Used.Low, e.Used.High = stats.Interval(used, 1)
	e.Freed.Low, e.Freed.High = stats.Interval(freed, 1)
	e.Energy.Low, e.Energy.High = stats.Interval(energy, 1)
	return e
}

// byTenant counts the tenants that wait shorter and longer.
func (e *Effect) byTenant(before, after []Result) {
	was, is := pool(before), pool(after)
	median := medianSize(was)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		b, a := was[name], is[name]
		if b.wait.n == 0 || a == nil || a.wait.n == 0 {
			continue
		}
		group := &e.Small
		if b.size > median {
			group = &e.Large
		}
		switch d := a.wait.value() - b.wait.value(); {
		case d <= -1:
			group.Shorter++
		case d >= 1:
			group.Longer++
		default:
			group.Equal++
		}
	}
}

// pool joins the tenants of windows.
func pool(list []Result) map[string]*tenant {
	out := map[string]*tenant{}
	for i := range list {
		for name, t := range list[i].tenants {
			if out[name] == nil {
				out[name] = &tenant{}
			}
			out[name].size += t.size
			out[name].wait.join(t.wait)
		}
	}
	return out
}

// gain is the relative one, 0 where nothing was used before.
func gain(before, after float64) float64 {
	if before <= 0 {
		return 0
	}
	return after/before - 1
}

// add adds the n-th part of r.
func add(to, r *Result, n int) {
	for _, x := range []struct {
		to *float64
		v  float64
	}{{&to.Utilization, r.Utilization}, {&to.UsedGPUHours, r.UsedGPUHours}, {&to.IdleGPUHours, r.IdleGPUHours},
		{&to.WaitS, r.WaitS}, {&to.P95WaitS, r.P95WaitS}, {&to.SmallWaitS, r.SmallWaitS},
		{&to.LargeWaitS, r.LargeWaitS}, {&to.Jain, r.Jain}, {&to.JainShares, r.JainShares},
		{&to.EnergyKWh, r.EnergyKWh},
		{&to.EnergyCost, r.EnergyCost}, {&to.CO2Kg, r.CO2Kg}} {
		*x.to += x.v / float64(n)
	}
}
