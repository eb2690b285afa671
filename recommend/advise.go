package recommend

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Options of advice. Trace, Scheduler, Running and Windows are required.
type Options struct {
	Trace *workload.Workload
	// From is the first submission that counts, Warmup the time before it and before each window whose jobs run, too.
	From   time.Duration
	Warmup time.Duration
	// Cluster is the hardware. Without groups nothing is simulated.
	Cluster    workload.Cluster
	Scheduler  *schedulers.Scheduler
	Running    space.Config // the configuration in force
	Simulation simulator.Options
	// Windows bounds the number of windows of the trace, each a day or longer.
	Windows int
	Seed    uint64  // of intervals
	Price   float64 // of a GPU-hour; 0 if it is not known
}

// Advice is the action on the findings of a rule.
type Advice struct {
	Rule       string  `json:"rule"`
	Action     string  `json:"action"`
	Words      string  `json:"words"` // of the largest finding
	Findings   int     `json:"findings"`
	Confidence float64 `json:"mean_confidence"`
	// Monthly and Cost are the waste that findings count.
	Monthly float64 `json:"gpu_hours_a_month"`
	Cost    float64 `json:"cost_a_month,omitempty"`
	// Effect is Simulated by the month.
	Effect    *MonthlyEffect `json:"effect_a_month,omitempty"`
	Simulated *Effect        `json:"simulated,omitempty"`
	// Reconfigures says that the action is another configuration, which is not simulated here.
	Reconfigures bool `json:"reconfigures,omitempty"`
}

// MonthlyEffect is the effect of an action over 30 days. GPUHours are held without use without it.
type MonthlyEffect struct {
	GPUHours Interval  `json:"gpu_hours"`
	Cost     *Interval `json:"cost,omitempty"` // of GPUHours, with Options.Price
	// With a meter, the energy that jobs draw more above idle nodes.
	Energy     *Interval `json:"energy_kwh_more,omitempty"`
	EnergyCost float64   `json:"energy_cost_more,omitempty"`
	CO2        float64   `json:"co2_kg_more,omitempty"`
}

// Advise returns advice on findings, one for each rule: by the GPU-hours that it frees or uses more in simulation, then
// by the GPU-hours wasted. Findings must be in order of their waste, most first.
func Advise(ctx context.Context, o Options, found []*patterns.Finding) ([]Advice, error) {
	s := &simulation{Options: o}
	first, last := o.Trace.Span()
	first = max(first, o.From)
	months := max(1, (last-first).Hours()/24) / 30
	byRule := map[string][]*patterns.Finding{}
	for _, f := range found {
		byRule[f.Rule] = append(byRule[f.Rule], f)
	}
	out := []Advice{}
	for _, rule := range slices.Sorted(maps.Keys(byRule)) {
		list := byRule[rule]
		a := Advice{Rule: rule, Action: list[0].Action, Words: list[0].Words, Findings: len(list)}
		for _, f := range list {
			a.Confidence += f.Confidence / float64(len(list))
			a.Monthly += f.WastedGPUHours / months
			a.Cost += f.Cost / months
		}
		if a.Reconfigures = patterns.Reconfigures(a.Action); !a.Reconfigures {
			if err := s.act(ctx, &a, list); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b Advice) int {
		switch {
		case a.Effect != nil && b.Effect != nil:
			return cmp.Compare(b.Effect.GPUHours.Mean, a.Effect.GPUHours.Mean)
		case a.Effect != nil:
			return -1
		case b.Effect != nil:
			return 1
		}
		return cmp.Compare(b.Monthly, a.Monthly)
	})
	return out, nil
}

// simulation simulates actions on windows of a trace.
type simulation struct {
	Options
	monthly float64 // windows of the trace in a month
}

// changes returns the jobs of a trace with the effect of acting on findings, which are taken to be true; nil where
// acting on them is not simulated.
func changes(w *workload.Workload, list []*patterns.Finding) []Job {
	jobs := make([]Job, w.Len())
	at := map[string]*Job{}
	for i, j := range w.Jobs() {
		jobs[i] = Job{Job: j, Used: j.GPUs.Count(), Useful: j.Duration}
		at[j.ID] = &jobs[i]
	}
	ran := func(j *Job, at time.Duration) (time.Duration, bool) { return max(0, at-j.Submit-j.Wait), j.HasWait }
	var found []*patterns.Finding
	for _, f := range list {
		j := at[f.Job]
		switch {
		case j == nil:
		case Idles(f.Rule):
			if f.Closed.Sub(w.Zero()) < j.Submit+j.Wait+j.Duration-10*time.Minute {
				continue // it worked again
			}
			if had, known := ran(j, f.Began.Sub(w.Zero())); known {
				j.Useful = had
			}
		default:
			if keep := Keep(j, f); keep > 0 {
				j.Used = float64(keep)
			}
			used := j.GPUs.Count() * (1 - float64(Lost(j, f))/float64(max(1, j.Useful)))
			j.Used = min(j.Used, used)
		}
		found = append(found, f)
	}
	if Act(jobs, w.Zero(), found, ran) == 0 {
		return nil
	}
	for i := range jobs {
		if x := jobs[i].Acted; x != nil && x.Drop {
			jobs[i].Used = 0 // it would have failed, too
		}
	}
	return jobs
}

// act simulates acting on the findings of a rule, where that is possible.
func (s *simulation) act(ctx context.Context, a *Advice, list []*patterns.Finding) error {
	jobs := changes(s.Trace, list)
	if jobs == nil || len(s.Cluster.Groups) == 0 {
		return nil
	}
	var before, after []Result
	for _, one := range s.cut(jobs) {
		b, c, err := Pair(ctx, s.Cluster, one, s.Simulation,
			func() simulator.Policy { return s.Scheduler.New(s.Running) })
		if err != nil {
			return err
		}
		before, after = append(before, b), append(after, c)
	}
	if len(before) == 0 {
		return nil
	}
	e := Compare(before, after, s.Seed)
	a.Simulated, a.Effect = &e, s.month(&e, e.Freed)
	return nil
}

// month scales an effect to a month; hours are of a window.
func (s *simulation) month(e *Effect, hours Interval) *MonthlyEffect {
	m := &MonthlyEffect{GPUHours: hours.Times(s.monthly)}
	if s.Price > 0 {
		cost := m.GPUHours.Times(s.Price)
		m.Cost = &cost
	}
	if s.Simulation.Meter != nil {
		kWh := e.Energy.Times(s.monthly)
		m.Energy = &kWh
		m.EnergyCost = (e.After.EnergyCost - e.Before.EnergyCost) * s.monthly
		m.CO2 = (e.After.CO2Kg - e.Before.CO2Kg) * s.monthly
	}
	return m
}

// mostWarming bounds the warm-up of a window.
const mostWarming = 48 * time.Hour

// cut divides a trace into windows, without empty ones.
func (s *simulation) cut(jobs []Job) (out []*Window) {
	first, last := s.Trace.Span()
	first = max(first, s.From)
	warming := min(s.Warmup, mostWarming)
	length := max(24*time.Hour, (last-first)/time.Duration(s.Windows)+1)
	all := 0
	for from := first; from <= last; from += length {
		all++
		one := &Window{From: from, To: from + length}
		for _, j := range jobs {
			if j.Submit >= from-warming && j.Submit < from+length && s.Cluster.Fits(&j.Job) && j.Duration > 0 {
				one.Jobs = append(one.Jobs, j)
			}
		}
		if slices.ContainsFunc(one.Jobs, func(j Job) bool {
			return j.Submit >= from && (j.Acted == nil || !j.Acted.Drop)
		}) {
			out = append(out, one)
		}
	}
	s.monthly = (30 * 24 * time.Hour).Hours() / length.Hours() * float64(len(out)) / float64(max(1, all))
	return out
}
