package round

import (
	"context"
	"errors"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Outlook is the expectation of a configuration on futures of an instant, by simulation.
type Outlook struct {
	Config space.Config
	// Objective is its objective in each future, lower is better; none if its simulations did not
	// end within their budget of events.
	Objective []float64
	// Metrics are those of MetricNames that take no extra time.
	Metrics map[string]float64
	// InFutures are Metrics in each future. It lacks those that a future has not: the slowdown of jobs that arrive,
	// where none does.
	InFutures map[string][]float64
	// Ratio is the controllable objective of the first configuration over this one's, above 1 is
	// better, and Interval its 95 % confidence interval; the zero Interval with too few futures.
	Ratio    float64
	Interval Interval
	// Energy is its energy, as EnergyObjectives count it, where Snapshot.Simulator has an energy.Meter.
	Energy *energy.Amount
	// Limits are the constraints of the goal and the guards that it is beyond, for people.
	Limits []string
	// Groups compare the waits under the first configuration with those under this one, the jobs of all futures
	// together; of the last configuration alone.
	Groups []Group
}

// Mean is that of Objective, 0 if there is none.
func (o *Outlook) Mean() float64 { return search.Measurement{Values: o.Objective}.Mean() }

// Foresee measures configurations, of which the first is the one compared with, on the futures
// of a round. It returns nothing if these have no job.
func Foresee(ctx context.Context, in Input, configs ...space.Config) ([]Outlook, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return nil, err
	}
	if !in.State.HasNode() {
		return nil, nil
	}
	in.Settings = in.Settings.WithDefaults()
	futures, err := in.draw(ctx, in.seed())
	if err != nil {
		return nil, err
	}
	return in.measure(ctx, s, futures[:in.Futures], configs)
}

// ForeseeOn is Foresee on workloads, each from an empty cluster on. Jobs that do not fit the cluster
// are left out; it returns nothing if a workload has no other.
func ForeseeOn(ctx context.Context, in Input, all []*workload.Workload, configs ...space.Config) ([]Outlook, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return nil, err
	}
	in.Settings = in.Settings.WithDefaults()
	scenarios := make([]Scenario, len(all))
	for i, w := range all {
		scenarios[i].Arrivals = fittingJobs(w, in.State.Cluster)
		if scenarios[i].Jobs() == 0 {
			return nil, nil
		}
	}
	return in.measure(ctx, s, scenarios, configs)
}

// measure measures configurations on scenarios. It returns nothing if these have no job.
func (in *Input) measure(ctx context.Context, s *schedulers.Scheduler, futures []Scenario,
	configs []space.Config) ([]Outlook, error) {
	problem := Problem{Scheduler: s, Space: in.Space, Goal: in.Goal, Cluster: in.State.Cluster,
		Options: in.Simulator, Turn: in.Turn,
		Incumbent: configs[0]}
	last := len(configs) - 1
	changes := waits{configs: [2]space.Config{configs[0], configs[last]}, at: map[scenarioJob]int{}}
	sc, err := NewScorer(&problem, futures)
	if errors.Is(err, errNothing) {
		return nil, nil
	} else if err == nil {
		changes.futures, changes.inFutures = sc.scenarios, make([]map[string][]float64, len(configs))
		sc.ended = func(c space.Config, x *Scenario, all []simulator.Outcome) {
			changes.add(c, x, all)
			changes.describe(configs, c, x, all)
		}
		err = sc.CompareWith(ctx, problem.Incumbent)
	}
	if err != nil {
		return nil, err
	}
	var g *guards
	if in.Guard >= 0 {
		if g, err = problem.guards(ctx, in.Guard, futures, in.Horizon, in.Settings.Seed); err != nil {
			return nil, err
		}
	}
	out := make([]Outlook, len(configs))
	var first search.Trial
	for i, c := range configs {
		m, err := sc.Measure(ctx, c)
		if err != nil {
			return nil, err
		}
		t := search.Trial{Config: c, Measurement: m}
		if i == 0 {
			first = t
		}
		out[i] = Outlook{Config: c, Objective: m.Values, Metrics: m.Metrics, Ratio: search.Gain(t, first).Ratio,
			Interval: interval(first.Measurement, m), Limits: exceeded(&m)}
		if !m.Exhausted {
			out[i].InFutures = changes.inFutures[i]
		}
		if g != nil {
			worse, err := g.broken(ctx, c)
			if err != nil {
				return nil, err
			}
			for _, b := range worse {
				out[i].Limits = append(out[i].Limits, b.String())
			}
		}
		if out[i].Energy, err = problem.amount(ctx, futures, c); err != nil {
			return nil, err
		}
		if i == last && i > 0 && !first.Measurement.Exhausted && !m.Exhausted {
			out[i].Groups = Groups(changes.jobs)
		}
	}
	return out, nil
}

// waits compare the jobs of all simulations under two configurations.
type waits struct {
	configs [2]space.Config // before and after
	jobs    []JobChange
	at      map[scenarioJob]int // places in jobs
	// futures are those of inFutures, the Outlook.InFutures of each configuration.
	futures   []Scenario
	inFutures []map[string][]float64
}

// describe sets the metrics of a future of the configurations that are equal to c.
func (w *waits) describe(configs []space.Config, c space.Config, x *Scenario, all []simulator.Outcome) {
	k := 0
	for k < len(w.futures) && &w.futures[k] != x {
		k++
	}
	if k == len(w.futures) {
		return
	}
	var one account
	one.add(all, simulator.ID(len(x.Left)))
	values := one.metrics()
	if one.arrived == 0 {
		delete(values, "slowdown")
	}
	for i := range configs {
		if !configs[i].Equal(c) {
			continue
		}
		if w.inFutures[i] == nil {
			w.inFutures[i] = map[string][]float64{}
			for _, name := range MetricNames[:4] {
				w.inFutures[i][name] = make([]float64, len(w.futures))
			}
		}
		for name, of := range w.inFutures[i] {
			if v, known := values[name]; known {
				of[k] = v
			} else {
				delete(w.inFutures[i], name)
			}
		}
	}
}

type scenarioJob struct {
	scenario *Scenario
	job      simulator.ID
}

// add is the ended of a Scorer.
func (w *waits) add(c space.Config, x *Scenario, all []simulator.Outcome) {
	for k := range w.configs {
		if !c.Equal(w.configs[k]) {
			continue
		}
		for i := range all {
			o := &all[i]
			n, known := w.at[scenarioJob{x, o.ID}]
			if !known {
				n = len(w.jobs)
				w.at[scenarioJob{x, o.ID}] = n
				w.jobs = append(w.jobs, JobChange{Job: x.job(o.ID)})
			}
			r := &w.jobs[n].Before
			if k == 1 {
				r = &w.jobs[n].After
			}
			*r = JobResult{Wait: o.Wait.Seconds(), JCT: o.JCT().Seconds(), Ended: true}
		}
	}
}

// exceeded describes the limits that a measurement is beyond.
func exceeded(m *search.Measurement) (out []string) {
	for i := range m.Limits {
		if l := &m.Limits[i]; l.Excess() > 0 {
			out = append(out, describeLimit(l))
		}
	}
	return out
}

// Path changes one configuration into another, a parameter at a time in the order of the space,
// each step projected. The first is from itself, the last to itself; steps that change nothing
// are left out. Names are the parameters that the steps set, and Rules the further changes of
// their projections.
func Path(sp *space.Space, from, to space.Config) (configs []space.Config, names []string, rules [][]space.Change) {
	configs = []space.Config{from}
	last := from
	for _, p := range sp.Params() {
		if last.Get(p.ID).Equal(to.Get(p.ID)) {
			continue
		}
		next, changes := sp.Project(last.With(p.ID, to.Get(p.ID)))
		if next.Equal(last) {
			continue
		}
		configs, names, rules, last = append(configs, next), append(names, p.ID), append(rules, changes), next
	}
	if !last.Equal(to) && len(names) > 0 { // the last step reverts the moves of projections
		configs[len(configs)-1] = to
	}
	return configs, names, rules
}
