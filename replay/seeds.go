package replay

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"time"

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
	m.compare(e.counted().Jobs(), base, e.Options.baseline(), e.Options.Goal.Objective())
	return m, nil
}

// Value returns an objective of an outcome.
func (o *Outcome) Value(objective string) float64 {
	switch objective {
	case "p50_jct":
		return o.P50JCT
	case "p95_jct":
		return o.P95JCT
	case "p99_jct":
		return o.P99JCT
	case "ftf":
		return 1 - o.FTFLe1
	case "p95_rho":
		return o.P95Rho
	case "max_rho":
		return o.MaxRho
	case "energy":
		return o.Energy
	case "cost":
		return o.Cost
	case "co2":
		return o.CO2
	case "edp":
		return o.EDP
	}
	return o.AvgJCT
}

// compare fills in an outcome's figures relative to the baseline's.
func (m *Method) compare(jobs []workload.Job, base *Outcome, name, objective string) {
	m.Ratio = 1
	if x, y := base.Value(objective), m.Value(objective); x != y {
		m.Ratio = finite(x / y)
	}
	if m.Method != name {
		m.Guards = guardsAgainst(jobs, base, &m.Outcome)
	}
}

// grid has the cells of an evaluation: a method and a seed each.
type grid struct {
	Options
	first  *Evaluation
	report *Report
	cells  []struct{ method, seed int }
	parts  []part
}

func newGrid(o Options) (*grid, error) {
	first, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	o.Methods = first.Options.Methods
	g := &grid{first: first, report: first.report()}
	for i := range max(1, o.Seeds) {
		g.report.Seeds = append(g.report.Seeds, o.Seed+uint64(i))
	}
	inputs := first.inputs()
	for k, name := range o.Methods {
		for i, seed := range g.report.Seeds {
			if i == 0 || Draws(name) {
				g.cells = append(g.cells, struct{ method, seed int }{k, i})
				g.parts = append(g.parts, part{name: fmt.Sprintf("%s/%d", name, seed),
					inputs: append(slices.Clip(inputs), name, seed)})
			}
		}
	}
	workers := cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	at := cells.Jobs(o.Jobs, len(g.parts))
	o.Workers = (workers + at - 1) / at
	for i, c := range g.cells {
		g.parts[i].cost = first.cost(o.Methods[c.method], o.Workers)
	}
	g.Options = o
	return g, nil
}

// longCost is the number of simulations of the window from which on the time of an evaluation is estimated.
const longCost = 50

// Estimated is the time of an evaluation.
type Estimated struct {
	Left    time.Duration
	Results int                // methods with a seed that are not kept
	unit    map[string]float64 // seconds of a unit of cells.Cost, by kind
}

// Estimate estimates the time that Run takes for the results that are not kept, from a simulation of the window and, if
// a method tunes every round, a first round. The time of a few simulations is 0.
func Estimate(ctx context.Context, o Options) (Estimated, error) {
	o.Progress = nil
	g, err := newGrid(o)
	if err != nil {
		return Estimated{}, err
	}
	o.Keep.Note = nil
	keys, known, err := keptParts[measured](o.Keep, g.parts)
	if err != nil {
		return Estimated{}, err
	}
	open, cost, tunes := 0, 0., false
	for i, key := range keys {
		if known[key] == nil {
			open, cost = open+1, cost+g.parts[i].cost.Units
			tunes = tunes || slices.Contains(g.parts[i].cost.Kinds, roundKind)
		}
	}
	if cost < longCost {
		return Estimated{Results: open}, nil
	}
	e := g.first
	unit := map[string]float64{}
	measure := func(cost cells.Cost, run func() error) error {
		began := time.Now()
		err := run()
		unit[cost.Kinds[0]] = time.Since(began).Seconds() / cost.Units
		return err
	}
	err = measure(cells.Cost{Units: 1, Kinds: []string{simulationKind}}, func() error {
		_, err := e.base(ctx)
		return err
	})
	if err == nil && tunes {
		var live *Cluster
		if live, err = e.Start(e.current(), true); err == nil {
			err = live.Sim.RunUntil(ctx, e.Options.From)
		}
		if err == nil {
			err = measure(e.roundCost(1), func() error {
				m := e.Input(live, 0, e.Options.From, e.current())
				futures, err := e.Futures(ctx, m)
				if err == nil {
					r := e.Round(futures, m.Incumbent, m.Seed)
					r.Workers = g.Workers
					_, err = r.Run(ctx)
				}
				return err
			})
		}
	}
	if err != nil {
		return Estimated{}, err
	}
	left := cells.Grid[string, kept[measured]]{Keys: keys, Known: known, Jobs: o.Jobs, Unit: unit,
		Cost:    func(i int) cells.Cost { return g.parts[i].cost },
		Seconds: func(c *kept[measured]) float64 { return c.Seconds }}
	return Estimated{Left: left.Left(), Results: open, unit: unit}, nil
}

// Run evaluates the methods, and the random ones once for each seed. Each outcome is a
// cell: an evaluation of its own, so that none finds measurements of another in its cache
// and a method's report does not depend on the order.
func Run(ctx context.Context, o Options) (*Report, error) {
	g, err := newGrid(o)
	if err != nil {
		return nil, err
	}
	o = g.Options
	r, list, parts := g.report, g.cells, g.parts
	steps := make([]Step, len(parts))
	report := func(p cells.Progress) {
		if o.Progress != nil {
			step := steps[p.Cell]
			step.Grid = p
			o.Progress(step)
		}
	}
	got, err := compute(ctx, o.Keep, o.Jobs, parts, o.Estimated.unit, report,
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
		r.Methods = append(r.Methods, *meanOf(of, &seeds[0][0].Outcome, o.baseline(), r.Objective, r.Counted))
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

// Kinds of cells by their costs: a simulation of the window is a unit of the first.
const (
	simulationKind = "simulation"
	roundKind      = "round"
)

// cost of a method, in simulations of the window one after the other.
func (e *Evaluation) cost(name string, workers int) cells.Cost {
	o := &e.Options
	trials := float64(cmp.Or(o.FixedBudget, o.Budget*e.rounds())) / float64(workers)
	switch m, _ := findMethod(name); {
	case name == "fixed-history":
		trials *= float64(len(e.history)) / float64(e.Workload.Len())
		return cells.Cost{Units: trials, Kinds: []string{name, simulationKind}}
	case name == "fixed-oracle":
		return cells.Cost{Units: trials, Kinds: []string{name, simulationKind}}
	case name == "random-preset":
		return cells.Cost{Units: 4, Kinds: []string{name, simulationKind}}
	case m.hold != nil:
		return cells.Cost{Units: 1, Kinds: []string{simulationKind}}
	}
	c := e.roundCost(e.rounds())
	c.Kinds = append([]string{name}, c.Kinds...)
	return c
}

// roundCost is the cost of n rounds.
func (e *Evaluation) roundCost(n int) cells.Cost {
	o := &e.Options
	part := min(1, o.Horizon.Seconds()/(o.To-o.From).Seconds())
	return cells.Cost{Units: float64(n*o.Budget*o.Futures) * part, Kinds: []string{roundKind}}
}

// meanOf condenses the outcomes of a method's seeds.
func meanOf(seeds []*Method, base *Outcome, baseline, objective string, jobs []workload.Job) *Method {
	out := *seeds[0]
	if len(seeds) == 1 {
		// Groups of an outcome that was kept lack the GPUs that their text has.
		out.compare(jobs, base, baseline, objective)
		return &out
	}
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
	out.compare(jobs, base, baseline, objective)
	return &out
}
