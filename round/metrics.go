package round

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Objectives are the metrics that an evaluation can minimise: statistics of the JCT, in
// seconds, and of the finish-time fairness rho (simulator.Outcome); ftf is the share of
// jobs with rho above 1, which Themis minimises. Goals know more: see Metrics.
var Objectives = []string{"avg_jct", "p50_jct", "p95_jct", "p99_jct", "ftf", "p95_rho", "max_rho"}

// metric is a statistic of a run's jobs.
type metric struct {
	of func(*simulator.Outcome) float64
	// floor is a lower bound on of, equal for all configurations: nothing can be
	// gained below the statistic of the floors.
	floor func(*simulator.Outcome, *Scenario) float64
	to    func([]float64) float64
	unit  string // s, % (a share) or none
	// tenants has a value for each tenant.
	tenants bool
	// whole is a metric of a run instead of a statistic of jobs: of, floor and to are nil.
	whole func(*player) float64
}

// metrics by name. Queue is the total queueing delay; short_avg_jct
// is the mean JCT of the jobs that run for less than ShortRun, 0 if none does; deadline_misses is the share of
// jobs with a deadline that end after it, 0 if none has one.
var metrics = map[string]metric{
	"avg_jct":          {jct, jctFloor, stats.Mean, "s", false, nil},
	"p50_jct":          {jct, jctFloor, quantile(.5), "s", false, nil},
	"p95_jct":          {jct, jctFloor, quantile(.95), "s", false, nil},
	"p99_jct":          {jct, jctFloor, quantile(.99), "s", false, nil},
	"ftf":              {rho, noFloor, unfair, "%", false, nil},
	"p95_rho":          {rho, noFloor, quantile(.95), "", false, nil},
	"max_rho":          {rho, noFloor, slices.Max[[]float64], "", false, nil},
	"avg_queue":        {queue, queueFloor, stats.Mean, "s", false, nil},
	"p95_queue":        {queue, queueFloor, quantile(.95), "s", false, nil},
	"short_avg_jct":    {shortJCT, shortFloor, shareKnown, "s", false, nil},
	missesMetric:       {late, lateFloor, shareKnown, "%", false, nil},
	"tenant_avg_jct":   {jct, jctFloor, stats.Mean, "s", true, nil},
	"tenant_p95_jct":   {jct, jctFloor, quantile(.95), "s", true, nil},
	"tenant_avg_queue": {queue, queueFloor, stats.Mean, "s", true, nil},
	"tenant_p95_queue": {queue, queueFloor, quantile(.95), "s", true, nil},
	"energy":           drawn("kWh", func(d simulator.Draw, _ float64) float64 { return d.Energy }),
	"cost":             drawn("$", func(d simulator.Draw, _ float64) float64 { return d.Cost }),
	"co2":              drawn("kg", func(d simulator.Draw, _ float64) float64 { return d.CO2 }),
	"edp":              drawn("kWh h", func(d simulator.Draw, hours float64) float64 { return d.Energy * hours }),
}

// Metrics are the names of the metrics of goals.
func Metrics() []string { return slices.Sorted(maps.Keys(metrics)) }

func jct(o *simulator.Outcome) float64                   { return o.JCT().Seconds() }
func jctFloor(o *simulator.Outcome, _ *Scenario) float64 { return o.Floor.Seconds() }

// noFloor is the floor where no useful bound is known: gains count on the whole metric.
// Rho is relative to the mean number of active jobs, which the configuration decides.
func noFloor(*simulator.Outcome, *Scenario) float64 { return 0 }

func rho(o *simulator.Outcome) float64   { return o.Rho }
func queue(o *simulator.Outcome) float64 { return o.Wait.Seconds() }

// ShortRun bounds the run time of the jobs of short_avg_jct.
const ShortRun = 10 * time.Minute

// shortJCT is the JCT of a job that runs for less than ShortRun alone, -1 of others.
func shortJCT(o *simulator.Outcome) float64 {
	if isShort(o) {
		return jct(o)
	}
	return -1
}

func shortFloor(o *simulator.Outcome, _ *Scenario) float64 {
	if isShort(o) {
		return o.Floor.Seconds()
	}
	return -1
}

func isShort(o *simulator.Outcome) bool {
	return o.RunTime < ShortRun
}

// late is 1 for a job that ends after its deadline, 0 for one that ends in time,
// and -1 for one that has none.
func late(o *simulator.Outcome) float64 {
	return afterDeadline(o, o.End)
}

// lateFloor is late of a job that ends as early as it can.
func lateFloor(o *simulator.Outcome, _ *Scenario) float64 {
	return afterDeadline(o, o.Submit+o.Floor)
}

func afterDeadline(o *simulator.Outcome, end time.Duration) float64 {
	switch {
	case o.Deadline == 0:
		return -1
	case end > o.Deadline:
		return 1
	}
	return 0
}

// queueFloor is the wait of an active job so far.
func queueFloor(o *simulator.Outcome, x *Scenario) float64 {
	if x.State == nil || int(o.ID) >= len(x.State.Jobs) {
		return 0
	}
	return min(x.State.Jobs[o.ID].WaitTime.Seconds(), o.Wait.Seconds())
}

// shareKnown is the mean of the values that are not negative, 0 if all are.
func shareKnown(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if v >= 0 {
			sum += v
			n++
		}
	}
	return sum / float64(max(1, n))
}

// quantile sorts the values.
func quantile(q float64) func([]float64) float64 {
	return func(values []float64) float64 {
		slices.Sort(values)
		return stats.Quantile(values, q)
	}
}

// unfair is the share of values above 1.
func unfair(values []float64) float64 {
	n := 0
	for _, v := range values {
		if v > 1 {
			n++
		}
	}
	return float64(n) / float64(len(values))
}

// FormatMetric formats a value of a metric in its unit, and any other value, such as a
// weighted sum of ratios, as a number.
func FormatMetric(name string, v float64) string {
	m, ok := metrics[name]
	switch {
	case !ok:
		return fmt.Sprintf("%.4f", v)
	case m.unit == "%":
		return fmt.Sprintf("%.2f %%", 100*v)
	case m.unit == "":
		return fmt.Sprintf("%.3f", v)
	case m.whole != nil:
		return fmt.Sprintf("%.2f %s", v, m.unit)
	}
	return fmt.Sprintf("%.0f s", v)
}

// Unit of a metric's values: s, %, for shares between 0 and 1, that of energy, cost and CO2, or "".
func Unit(metric string) string { return metrics[metric].unit }

// PerTenant reports whether a metric has a value for each tenant.
func PerTenant(metric string) bool { return metrics[metric].tenants }

// MetricValue returns the value of a job that a metric, which is not Metered, is a statistic of.
func MetricValue(metric string, o *simulator.Outcome) float64 { return metrics[metric].of(o) }

// Statistic returns a metric of its jobs' values, which it may sort.
func Statistic(metric string, values []float64) float64 { return metrics[metric].to(values) }

// Format formats a value of the goal's objective.
func (g *Goal) Format(v float64) string { return FormatMetric(g.Metric(), v) }

// Unit of the objective's values: s, share (of the jobs), kWh, $, kg, kWh h, or ratio, which rho and
// weighted sums are.
func (g *Goal) Unit() string {
	m, ok := metrics[g.Metric()]
	switch {
	case !ok || m.unit == "":
		return "ratio"
	case m.unit == "%":
		return "share"
	}
	return m.unit
}

// CheckObjective refuses a metric that is not in Objectives or, for a run with a meter, in EnergyObjectives.
func CheckObjective(name string, metered bool) error {
	known := Objectives
	if metered {
		known = slices.Concat(known, EnergyObjectives)
	}
	if !slices.Contains(known, name) {
		return fmt.Errorf("objective: %q is not known; there are %s", name, strings.Join(known, ", "))
	}
	return nil
}

// metricValues are a metric by scenario: of all jobs with the floors, or, for a
// tenants' metric, of each tenant's jobs.
type metricValues struct {
	all, floors []float64
	byTenant    []map[string]float64
}

// add computes a metric of the outcomes on a scenario.
func (v *metricValues) add(m *metric, p *player, x *Scenario) {
	if m.tenants {
		v.byTenant = append(v.byTenant, p.byTenant(m, x))
		return
	}
	if m.whole != nil {
		v.all, v.floors = append(v.all, m.whole(p)), append(v.floors, 0)
		return
	}
	v.all = append(v.all, m.to(p.each(m.of)))
	v.floors = append(v.floors, m.to(p.each(func(o *simulator.Outcome) float64 { return m.floor(o, x) })))
}

func (p *player) byTenant(m *metric, x *Scenario) map[string]float64 {
	values := map[string][]float64{}
	for i := range p.out {
		o := &p.out[i]
		t := x.job(o.ID).Tenant
		for range o.Members {
			values[t] = append(values[t], m.of(o))
		}
	}
	out := map[string]float64{}
	for t, v := range values {
		out[t] = m.to(v)
	}
	return out
}

// job is a job by its number: those active at the beginning come first.
func (x *Scenario) job(id simulator.ID) *workload.Job {
	var active []workload.ActiveJob
	if x.State != nil {
		active = x.State.Jobs
	}
	if int(id) < len(active) {
		return &active[id].Job
	}
	return &x.Arrivals.Jobs()[int(id)-len(active)]
}
