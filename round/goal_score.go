package round

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// incumbentFigures are what goals compare with.
type incumbentFigures struct {
	config space.Config
	raw    *figures
}

// CompareWith measures the configuration that the goal is relative to, if it is.
// It is called before the first measurement. Where the incumbent does not end,
// constraints relative to it bind nobody, and weighted sums are relative to the
// default instead.
func (sc *Scorer) CompareWith(ctx context.Context, incumbent space.Config) error {
	if !sc.goal.relative() {
		return nil
	}
	raw, err := sc.play(ctx, incumbent)
	if err != nil {
		return err
	}
	sc.incumbent = &incumbentFigures{incumbent, raw}
	if raw.exhausted && len(sc.goal.Terms) > 1 {
		standard, err := sc.play(ctx, incumbent.Space().Default())
		if err != nil {
			return err
		}
		sc.incumbent.raw = &figures{exhausted: true, values: standard.values, floors: standard.floors}
	}
	return nil
}

// wanted are the metrics to be computed, each once.
func (sc *Scorer) wanted() []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, t := range sc.goal.Terms {
		add(t.Metric)
	}
	for _, r := range sc.goal.Then {
		add(r.Metric)
	}
	for _, c := range sc.goal.Constraints {
		add(c.Metric)
	}
	for _, name := range sc.others {
		add(name)
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
			m.Values[i] += scale * f.values[t.Metric][i][""]
			m.Floors[i] += scale * f.floors[t.Metric][i]
		}
	}
	side := func(name string) {
		s := search.Metric{Name: name, Values: make([]float64, n), Floors: f.floors[name]}
		for i := range n {
			s.Values[i] = f.values[name][i][""]
		}
		m.Secondary = append(m.Secondary, s)
	}
	for _, r := range sc.goal.Then {
		side(r.Metric)
	}
	for _, name := range sc.others {
		side(name)
	}
	for _, c := range sc.goal.Constraints {
		m.Limits = append(m.Limits, sc.limits(c, f)...)
	}
	return m
}

// scale of a term: of a sum, so that the incumbent's mean counts as the weight.
func (sc *Scorer) scale(t Term) float64 {
	if len(sc.goal.Terms) == 1 {
		return 1
	}
	sum := 0.0
	if sc.incumbent != nil {
		for _, v := range sc.incumbent.raw.values[t.Metric] {
			sum += v[""]
		}
	}
	if sum <= 0 { // nothing to be relative to
		return t.Weight
	}
	return t.Weight * float64(len(sc.scenarios)) / sum
}

// limits are a constraint's values and bounds in the scenarios, one for each
// tenant if it is about tenants.
func (sc *Scorer) limits(c Constraint, f *figures) []search.Limit {
	relative := c.Factor > 0
	if relative && (sc.incumbent == nil || sc.incumbent.raw.exhausted) {
		return nil
	}
	names := map[string]bool{}
	for _, v := range f.values[c.Metric] {
		for t := range v {
			names[t] = true
		}
	}
	var out []search.Limit
	for _, t := range slices.Sorted(maps.Keys(names)) {
		l := search.Limit{Name: c.String(), Paired: relative}
		if metrics[c.Metric].tenants {
			l.Of = t
			if t == "" {
				l.Of = "no tenant"
			}
		}
		for i, v := range f.values[c.Metric] {
			value, ok := v[t]
			if !ok {
				continue // the tenant has no job there
			}
			bound := c.Slack
			if relative {
				bound += c.Factor * sc.incumbent.raw.values[c.Metric][i][t]
			}
			l.Values, l.Bounds = append(l.Values, value), append(l.Bounds, bound)
		}
		out = append(out, l)
	}
	return out
}

// setUp makes a round's scorer measure what its goal needs.
func (sc *Scorer) setUp(ctx context.Context, r *Round) error {
	for _, name := range r.Front {
		metric, err := ParseMetric(name)
		switch {
		case err != nil:
			return fmt.Errorf("front: %w", err)
		case slices.Contains(sc.others, metric):
			return fmt.Errorf("front: %s is named twice", metric)
		}
		sc.others = append(sc.others, metric)
	}
	return sc.CompareWith(ctx, r.Incumbent)
}
