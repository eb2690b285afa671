package replay

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Measure evaluates one method with the first seed.
func (e *Evaluation) Measure(ctx context.Context, method string) (*Method, error) {
	base, err := e.base(ctx)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	m, err := e.run(ctx, method)
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", method, err)
	}
	m.compare(e.counted().Jobs(), base, e.Options.baseline())
	return m, nil
}

// compare fills in an outcome's figures relative to the baseline's.
func (m *Method) compare(jobs []workload.Job, base *Outcome, name string) {
	m.Ratio = base.AvgJCT / m.AvgJCT
	if m.Method != name {
		m.Guards = guardsAgainst(jobs, base, &m.Outcome)
	}
}

// Run evaluates the methods, and the random ones once for each seed. Each outcome is a
// cell: an evaluation of its own, so that none finds measurements of another in its cache
// and a method's report does not depend on the order.
func Run(ctx context.Context, o Options) (*Report, error) {
	first, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	o.Methods = first.Options.Methods
	r := first.report()
	for i := range max(1, o.Seeds) {
		r.Seeds = append(r.Seeds, o.Seed+uint64(i))
	}
	type cell struct{ method, seed int }
	var list []cell
	var parts []part
	inputs := first.inputs()
	for k, name := range o.Methods {
		for i, seed := range r.Seeds {
			if i == 0 || Draws(name) {
				list = append(list, cell{k, i})
				parts = append(parts, part{name: fmt.Sprintf("%s/%d", name, seed), cost: first.cost(name),
					inputs: append(slices.Clip(inputs), name, seed)})
			}
		}
	}
	workers := cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	at := cells.Jobs(o.Jobs, len(parts))
	o.Workers = (workers + at - 1) / at
	steps := make([]Step, len(parts))
	report := func(p cells.Progress) {
		if o.Progress != nil {
			step := steps[p.Cell]
			step.Grid = p
			o.Progress(step)
		}
	}
	got, err := compute(ctx, o.Keep, o.Jobs, parts, report,
		func(ctx context.Context, i int, first *measured, at func(float64)) (*measured, error) {
			c, o := list[i], o
			o.Seed = r.Seeds[c.seed]
			o.Progress = func(s Step) {
				s.Nth, s.Methods = c.method+1, len(o.Methods)
				steps[i] = s
				at(float64(max(s.Rounds, s.Trials)) / float64(max(1, s.Of)))
			}
			e, err := Prepare(o)
			if err != nil {
				return nil, err
			}
			if first != nil {
				e.baseline = &first.method().Outcome
			}
			steps[i] = Step{Method: o.Methods[c.method], Seed: o.Seed, Nth: c.method + 1, Methods: len(o.Methods)}
			m, err := e.Measure(ctx, o.Methods[c.method])
			if err != nil {
				return nil, err
			}
			return &measured{Method: *m, Rows: m.Rows, Series: m.Series}, nil
		})
	if err != nil {
		return nil, err
	}
	seeds := make([][]*Method, len(o.Methods))
	for i, c := range list {
		seeds[c.method] = append(seeds[c.method], got[i].method())
	}
	for _, of := range seeds {
		r.Methods = append(r.Methods, *meanOf(of, &seeds[0][0].Outcome, o.baseline(), r.Counted))
	}
	return r, nil
}

// measured is a method's outcome with the fields that a report omits, as it is kept.
type measured struct {
	Method
	Rows   JobRows  `json:"rows"`
	Series []Sample `json:"series"`
}

func (m *measured) method() *Method {
	out := m.Method
	out.Rows, out.Series = m.Rows, m.Series
	return &out
}

// inputs determine the outcomes of all methods, besides the method and the seed.
func (e *Evaluation) inputs() []any {
	o := &e.Options
	settings := o.Settings
	settings.Seed = 0
	return []any{"evaluation", simulator.Version, o.Trace.Digest(), o.From, o.To, o.Warmup, o.Cluster, o.Scheduler.Name,
		o.Scheduler.Space.Digest(), o.Scheduler.Presets, e.current(), o.Goal.String(), o.Interval, settings, o.Search,
		o.Always, o.FixedBudget, o.Limits, o.Generate.String(),
		o.Simulate.Digest(o.Cluster.TotalGPUs(), each(o.Trace.Jobs()))}
}

// each yields pointers to jobs.
func each(jobs []workload.Job) iter.Seq[*workload.Job] {
	return func(yield func(*workload.Job) bool) {
		for i := range jobs {
			if !yield(&jobs[i]) {
				return
			}
		}
	}
}

// cost of a method, in simulations of the window.
func (e *Evaluation) cost(name string) cells.Cost {
	o := &e.Options
	trials := float64(cmp.Or(o.FixedBudget, o.Budget*e.rounds()))
	switch m, _ := findMethod(name); {
	case name == "fixed-history":
		trials *= float64(len(e.history)) / float64(e.Workload.Len())
		return cells.Cost{Units: trials, Kinds: []string{name, "simulation"}}
	case name == "fixed-oracle":
		return cells.Cost{Units: trials, Kinds: []string{name, "simulation"}}
	case name == "random-preset":
		return cells.Cost{Units: 4, Kinds: []string{name}}
	case m.hold != nil:
		return cells.Cost{Units: 1, Kinds: []string{"simulation"}}
	}
	part := min(1, o.Horizon.Seconds()/(o.To-o.From).Seconds())
	return cells.Cost{Units: float64(e.rounds()*o.Budget*o.Futures) * part, Kinds: []string{name, "round"}}
}

// meanOf condenses the outcomes of a method's seeds.
func meanOf(seeds []*Method, base *Outcome, baseline string, jobs []workload.Job) *Method {
	if len(seeds) == 1 {
		return seeds[0]
	}
	out := *seeds[0]
	mean := func(of func(*Outcome) float64) float64 {
		v := make([]float64, len(seeds))
		for i := range v {
			v[i] = of(&seeds[i].Outcome)
		}
		return stats.Mean(v)
	}
	whole := func(of func(*Outcome) int) int {
		return int(math.Round(mean(func(o *Outcome) float64 { return float64(of(o)) })))
	}
	out.AvgJCT = mean(func(o *Outcome) float64 { return o.AvgJCT })
	out.P50JCT = mean(func(o *Outcome) float64 { return o.P50JCT })
	out.P95JCT = mean(func(o *Outcome) float64 { return o.P95JCT })
	out.P99JCT = mean(func(o *Outcome) float64 { return o.P99JCT })
	out.AvgQueue = mean(func(o *Outcome) float64 { return o.AvgQueue })
	out.ShortJCT = mean(func(o *Outcome) float64 { return o.ShortJCT })
	out.Utilization = mean(func(o *Outcome) float64 { return o.Utilization })
	out.FTFLe1 = mean(func(o *Outcome) float64 { return o.FTFLe1 })
	out.P95Rho = mean(func(o *Outcome) float64 { return o.P95Rho })
	out.MaxRho = mean(func(o *Outcome) float64 { return o.MaxRho })
	out.Energy = mean(func(o *Outcome) float64 { return o.Energy })
	out.Cost = mean(func(o *Outcome) float64 { return o.Cost })
	out.CO2 = mean(func(o *Outcome) float64 { return o.CO2 })
	out.EDP = mean(func(o *Outcome) float64 { return o.EDP })
	out.TuningPerRound = mean(func(o *Outcome) float64 { return o.TuningPerRound })
	out.Preemptions = whole(func(o *Outcome) int { return o.Preemptions })
	out.Rounds = whole(func(o *Outcome) int { return o.Rounds })
	out.Urgent = whole(func(o *Outcome) int { return o.Urgent })
	out.Changes = whole(func(o *Outcome) int { return o.Changes })
	out.Held = whole(func(o *Outcome) int { return o.Held })
	out.Evaluations = whole(func(o *Outcome) int { return o.Evaluations })
	if h := out.Hindsight; h != nil {
		out.Hindsight = &Hindsight{Guarded: h.Guarded,
			RobustJCT:        mean(func(o *Outcome) float64 { return o.Hindsight.RobustJCT }),
			GuardedJCT:       mean(func(o *Outcome) float64 { return o.Hindsight.GuardedJCT }),
			GuardedRobustJCT: mean(func(o *Outcome) float64 { return o.Hindsight.GuardedRobustJCT })}
	}
	out.Rows = meanRows(len(seeds), func(i int) JobRows { return seeds[i].Rows })
	averages := make([]float64, len(seeds))
	out.Seeds = make([]Outcome, len(seeds))
	for i := range seeds {
		out.Seeds[i], averages[i] = seeds[i].Outcome, seeds[i].AvgJCT
	}
	out.Spread = spreadOf(averages)
	out.compare(jobs, base, baseline)
	return &out
}
