package round

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// noTenant names the group of the jobs without a tenant.
const noTenant = "no tenant"

// reference is the incumbent with the metrics that relative goals refer to.
type reference struct {
	config  space.Config
	figures *figures
}

// CompareWith measures the configuration that a relative goal refers to. Call it before
// the first measurement. If the incumbent exhausts its events,
// constraints relative to it are dropped, and weighted sums are relative to the
// default instead.
func (sc *Scorer) CompareWith(ctx context.Context, incumbent space.Config) error {
	if !sc.goal.relative() {
		return nil
	}
	f, err := sc.play(ctx, incumbent, sc.scenarios)
	if err != nil {
		return err
	}
	sc.incumbent = &reference{incumbent, f}
	if f.exhausted && len(sc.goal.Terms) > 1 {
		standard, err := sc.play(ctx, incumbent.Space().Default(), sc.scenarios)
		if err != nil {
			return err
		}
		sc.incumbent.figures = &figures{exhausted: true, values: standard.values}
	}
	return nil
}

// wanted returns the metrics to compute, each once.
func (sc *Scorer) wanted() []string {
	var out []string
	for _, name := range slices.Concat(sc.goal.counted(), sc.others) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// score turns figures into a measurement of the goal.
func (sc *Scorer) score(f *figures) search.Measurement {
	m := search.Measurement{Metrics: maps.Clone(f.metrics), Exhausted: f.exhausted}
	if f.exhausted {
		return m
	}
	n := len(sc.scenarios)
	m.Values, m.Floors = make([]float64, n), make([]float64, n)
	for _, t := range sc.goal.Terms {
		scale := sc.scale(t)
		for i := range n {
			m.Values[i] += scale * f.values[t.Metric].all[i]
			m.Floors[i] += scale * f.values[t.Metric].floors[i]
		}
	}
	secondary := func(name string) {
		v := f.values[name]
		m.Secondary = append(m.Secondary, search.Metric{Name: name, Values: slices.Clone(v.all), Floors: v.floors})
	}
	for _, r := range sc.goal.Then {
		secondary(r.Metric)
	}
	for _, name := range sc.others {
		secondary(name)
	}
	for _, c := range sc.goal.Constraints {
		m.Limits = append(m.Limits, sc.limits(c, f)...)
	}
	return m
}

// scale returns the factor of a term: in a sum, the incumbent's mean counts as the
// weight.
func (sc *Scorer) scale(t Term) float64 {
	if len(sc.goal.Terms) == 1 {
		return 1
	}
	sum := 0.0
	if sc.incumbent != nil {
		for _, v := range sc.incumbent.figures.values[t.Metric].all {
			sum += v
		}
	}
	if sum <= 0 { // no incumbent to refer to
		return t.Weight
	}
	return t.Weight * float64(len(sc.scenarios)) / sum
}

// limits are a constraint's values and bounds in the scenarios, one limit for each
// tenant if it is on a tenants' metric.
func (sc *Scorer) limits(c Constraint, f *figures) []search.Limit {
	was := f // without effect
	if c.Factor > 0 {
		if sc.incumbent == nil || sc.incumbent.figures.exhausted {
			return nil
		}
		was = sc.incumbent.figures
	}
	of := func(f *figures) func(i int) map[string]float64 {
		v := f.values[c.Metric]
		return func(i int) map[string]float64 {
			if metrics[c.Metric].tenants {
				return v.byTenant[i]
			}
			return map[string]float64{"": v.all[i]}
		}
	}
	return limitsOf(c, len(sc.scenarios), of(f), of(was))
}

// limitsOf are a constraint's values and bounds in scenarios, one limit for each tenant if it is on a tenants' metric.
// now and was are the values of a configuration and of the one in force in a scenario, by tenant; "" has that of a
// metric of all jobs.
func limitsOf(c Constraint, scenarios int, now, was func(i int) map[string]float64) (out []search.Limit) {
	groups := map[string]*search.Limit{}
	for i := range scenarios {
		before := was(i)
		for t, v := range now(i) {
			l := groups[t]
			if l == nil {
				l = &search.Limit{Name: c.String(), Paired: c.Factor > 0}
				if groups[t] = l; metrics[c.Metric].tenants {
					l.Of = cmp.Or(t, noTenant)
				}
			}
			l.Values, l.Bounds = append(l.Values, v), append(l.Bounds, c.Slack+c.Factor*before[t])
		}
	}
	for _, t := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, *groups[t])
	}
	return out
}

// Add makes Measure return a further metric, as a search.Metric. Call it before the
// first measurement.
func (sc *Scorer) Add(name string) error {
	metric, err := ParseMetric(name)
	switch {
	case err != nil:
		return fmt.Errorf("front: %w", err)
	case slices.Contains(sc.others, metric):
		return fmt.Errorf("front: %s is named twice", metric)
	}
	if Metered(metric) && sc.options.Meter == nil {
		return fmt.Errorf("front: %s: %w", metric, ErrNoMeter)
	}
	sc.others = append(sc.others, metric)
	return nil
}
