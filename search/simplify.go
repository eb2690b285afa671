package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/autosched/autosched/space"
)

// Simplifier looks for the simplest configuration that measures like a winner: the one
// that changes the fewest parameters of the configuration in force, then the one with the roundest values.
type Simplifier struct {
	// Winner is the trial to simplify, From the configuration that runs, in the same space.
	Winner Trial
	From   space.Config
	// Known are trials on the winner's futures, which are not measured again.
	Known []Trial
	// Measure measures configurations on the winner's futures.
	Measure func(context.Context, []space.Config) ([]Measurement, error)
	// Exact keeps the values of the parameters that stay changed: they are not rounded.
	Exact bool
	// Keep, if set, reports whether a trial may replace the winner.
	Keep func(*Trial) bool
}

// simplifyBudget bounds the measurements. It covers the schedulers here, which have up to ten parameters: one
// measurement of each alone, some of them together, and a few round values.
const simplifyBudget = 24

// Simplified is a winner's simplest form.
type Simplified struct {
	Trial Trial // Origin and Step are the winner's
	// Effects are of the parameters that the winner changes, the largest first.
	Effects     []Effect
	Evaluations int
}

// Effect is the effect of giving parameters of the winner their values in force
// again: the ones of one array and its length together.
type Effect struct {
	Parameters []string `json:"parameters"`
	// Loss is the share by which the objective becomes larger; MaxRatio if nothing can be
	// measured. Noise reports whether that is noise, Reverted whether the simplest form
	// takes the values in force.
	Loss     float64 `json:"loss"`
	Noise    bool    `json:"noise"`
	Reverted bool    `json:"reverted"`
}

// Bounds of Noise, as shares of the objective. Less than a thousandth is half of the gain for which a
// round changes a configuration. A standard error of few futures may be large by
// chance, and the loss is certain.
const (
	leastNoise = .001
	mostNoise  = .005
)

// Noise returns how much larger than a winner's mean objective another's may be to count
// as equal: the standard error of the paired difference over the futures. Simulations are
// chaotic, so that a threshold moved by a second changes every future a little in either
// direction, and the winner is the one of many that this favoured. It is at least a
// thousandth of the objective, and at most five.
func Noise(winner, other *Measurement) float64 {
	se, n := 0.0, len(winner.Values)
	if n > 1 && len(other.Values) == n {
		d := make([]float64, n)
		for i := range d {
			d[i] = other.Values[i] - winner.Values[i]
		}
		se = stat.StdErr(stat.StdDev(d, nil), float64(n))
	}
	return min(max(se, leastNoise*winner.Mean()), mostNoise*winner.Mean())
}

// Run reverts the parameters that have no effect above Noise, the least important first,
// and rounds the others. Every step is compared with the winner, so that losses do not
// add up. If the context ends, it returns the simplest form so far.
func (s *Simplifier) Run(ctx context.Context) (Simplified, error) {
	x := simplifying{Simplifier: s, known: map[string]Measurement{}}
	x.out.Trial = s.Winner
	for _, t := range append(slices.Clone(s.Known), s.Winner) {
		if t.Err == "" && t.Measurement.Measured == 0 {
			x.known[t.Config.Hash()] = t.Measurement
		}
	}
	err := x.revert(ctx)
	if err == nil && !s.Exact {
		err = x.round(ctx)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return x.out, err
}

// simplifying is the state of one Run.
type simplifying struct {
	*Simplifier
	known map[string]Measurement
	out   Simplified
}

// measure measures configurations, as far as the budget goes, and returns the trials.
func (s *simplifying) measure(ctx context.Context, configs []space.Config) ([]Trial, error) {
	var unknown []space.Config
	for _, c := range configs {
		if _, ok := s.known[c.Hash()]; !ok && !slices.ContainsFunc(unknown, c.Equal) &&
			s.out.Evaluations+len(unknown) < simplifyBudget {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		got, err := s.Measure(ctx, unknown)
		if err != nil {
			return nil, err
		}
		for i, c := range unknown {
			s.known[c.Hash()] = got[i].clean()
		}
		s.out.Evaluations += len(unknown)
	}
	out := make([]Trial, len(configs))
	for i, c := range configs {
		out[i] = s.Winner
		out[i].Config, out[i].Measurement = c, s.known[c.Hash()]
		out[i].Prediction, out[i].Suggested, out[i].Projected, out[i].Narrowed = nil, nil, nil, nil
	}
	return out, nil
}

// equal reports whether a trial measures like the winner and may replace it.
func (s *simplifying) equal(t *Trial) bool {
	w := &s.Winner.Measurement
	return t.OK() && t.Measurement.Mean()-w.Mean() <= Noise(w, &t.Measurement) && (s.Keep == nil || s.Keep(t))
}

// try takes a configuration over if it measures like the winner.
func (s *simplifying) try(ctx context.Context, c space.Config) (bool, error) {
	if s.Winner.Config.Space().Check(c) != nil {
		return false, nil
	}
	t, err := s.measure(ctx, []space.Config{c})
	if err != nil || !s.equal(&t[0]) {
		return false, err
	}
	s.out.Trial = t[0]
	return true, nil
}

// revert gives parameters their values in force.
func (s *simplifying) revert(ctx context.Context) error {
	var configs []space.Config
	for _, ids := range together(s.Winner.Config.Space(), changed(s.From, s.Winner.Config)) {
		if c, ok := s.reverted(s.Winner.Config, ids); ok {
			configs = append(configs, c)
			s.out.Effects = append(s.out.Effects, Effect{Parameters: ids})
		}
	}
	alone, err := s.measure(ctx, configs)
	if err != nil {
		return err
	}
	for i := range alone {
		e := &s.out.Effects[i]
		e.Noise, e.Loss = s.equal(&alone[i]), MaxRatio
		if w := s.Winner.Measurement.Mean(); alone[i].OK() && w > 0 {
			e.Loss = alone[i].Measurement.Mean()/w - 1
		} else if alone[i].OK() {
			e.Loss = alone[i].Measurement.Mean()
		}
	}
	slices.SortStableFunc(s.out.Effects, func(a, b Effect) int { return cmp.Compare(b.Loss, a.Loss) })
	all := s.Winner.Config
	for i := range s.out.Effects {
		if e := &s.out.Effects[i]; e.Noise {
			if c, ok := s.reverted(all, e.Parameters); ok {
				all = c
			}
		}
	}
	done, err := s.try(ctx, all)
	if err != nil {
		return err
	}
	for i := len(s.out.Effects) - 1; i >= 0; i-- { // the least important first
		e := &s.out.Effects[i]
		if !e.Noise {
			continue
		}
		if e.Reverted = done; !done {
			if c, ok := s.reverted(s.out.Trial.Config, e.Parameters); ok {
				if e.Reverted, err = s.try(ctx, c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// reverted returns a configuration with some values in force, projected. It reports
// false if that does not change fewer parameters.
func (s *simplifying) reverted(c space.Config, ids []string) (space.Config, bool) {
	values := valuesOf(c)
	for _, id := range ids {
		values[id] = s.From.Get(id)
	}
	out, _ := c.Space().Project(values)
	return out, len(changed(s.From, out)) < len(changed(s.From, c))
}

// changed returns the parameters whose values differ.
func changed(a, b space.Config) []string {
	var ids []string
	for _, d := range space.DiffConfigs(a, b) {
		ids = append(ids, d.Field)
	}
	return ids
}

// together groups parameters: an array with its length, if both are there.
func together(sp *space.Space, ids []string) [][]string {
	var out [][]string
	at := map[string]int{}
	for _, id := range ids {
		root := id
		if p, _ := sp.Param(id); p.Array != nil {
			root = p.Array.Length
		}
		k, ok := at[root]
		if !ok {
			k, at[root] = len(out), len(out)
			out = append(out, nil)
		}
		out[k] = append(out[k], id)
	}
	return out
}

// round gives the parameters that are still changed rounder values.
func (s *simplifying) round(ctx context.Context) error {
	ids := changed(s.From, s.out.Trial.Config)
	for _, id := range ids { // such as off
		p, _ := s.out.Trial.Config.Space().Param(id)
		var named []space.Value
		for _, x := range p.Special {
			named = append(named, space.Num(x.Value))
		}
		if err := s.first(ctx, id, named); err != nil {
			return err
		}
	}
	all, several := s.out.Trial.Config, 0
	for _, id := range ids {
		if v := s.rounder(id); len(v) > 0 {
			if c, ok := s.rounded(all, id, v[0]); ok {
				all = c
				several++
			}
		}
	}
	if several > 1 {
		if done, err := s.try(ctx, all); done || err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := s.first(ctx, id, s.rounder(id)); err != nil {
			return err
		}
		p, _ := s.out.Trial.Config.Space().Param(id)
		for i := 0; i < s.out.Trial.Config.Get(id).Len(); i++ { // the rest, one by one
			var values []space.Value
			list := s.out.Trial.Config.Get(id).Floats()
			for _, x := range Rounder(p.Kind, list[i]) {
				list[i] = x
				values = append(values, space.Nums(list...))
			}
			if err := s.first(ctx, id, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// first takes over the first of some values of a parameter with which it measures like the
// winner.
func (s *simplifying) first(ctx context.Context, id string, values []space.Value) error {
	for _, v := range values {
		if c, ok := s.rounded(s.out.Trial.Config, id, v); ok {
			if done, err := s.try(ctx, c); done || err != nil {
				return err
			}
		}
	}
	return nil
}

// rounded returns a configuration with another value of a parameter, and its length if that is
// an array. It reports false if the value does not satisfy the space's rules or changes nothing.
func (s *simplifying) rounded(c space.Config, id string, v space.Value) (space.Config, bool) {
	values := valuesOf(c)
	values[id] = v
	p, _ := c.Space().Param(id)
	if p.Array != nil && v.Len() < c.Get(id).Len() {
		values[p.Array.Length] = space.Int(v.Len() - p.Array.Offset)
	}
	out, changes := c.Space().Project(values)
	return out, len(changes) == 0 && !out.Equal(c) && len(changed(s.From, out)) <= len(changed(s.From, c))
}

// rounder returns values of a parameter near that of the simplest form, the roundest
// first; none if it is round.
func (s *simplifying) rounder(id string) []space.Value {
	p, _ := s.out.Trial.Config.Space().Param(id)
	v := s.out.Trial.Config.Get(id)
	switch {
	case p.Kind != space.KindFloat && p.Kind != space.KindInt && p.Kind != space.KindDuration:
		return nil
	case p.Array == nil && slices.ContainsFunc(p.Special, func(x space.Special) bool { return x.Value == v.Float() }):
		return nil
	case p.Array == nil:
		var out []space.Value
		for _, x := range Rounder(p.Kind, v.Float()) {
			out = append(out, space.Num(x))
		}
		return out
	}
	var out []space.Value
	for _, one := range [...]struct {
		level int     // of Rounder; below 0: none
		equal float64 // share by which elements differ that are as good as equal
	}{{0, 0}, {1, .05}, {1, 0}, {2, 0}, {-1, .05}} {
		list := v.Floats()
		for i, x := range list {
			if near := Rounder(p.Kind, x); len(near) > 0 && one.level >= 0 {
				list[i] = near[min(one.level, len(near)-1)]
			}
		}
		list = slices.CompactFunc(list, func(a, b float64) bool { return math.Abs(b-a) <= one.equal*math.Abs(a) })
		if w := space.Nums(list...); !w.Equal(v) && !slices.ContainsFunc(out, w.Equal) {
			out = append(out, w)
		}
	}
	return out
}

// rungs are the durations that people set, in seconds.
var rungs = []float64{1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, hour, 2 * hour, 3 * hour, 4 * hour,
	6 * hour, 8 * hour, 12 * hour, day, 2 * day, 3 * day, 5 * day, 7 * day, 10 * day, 14 * day, 20 * day, 30 * day}

const (
	hour = 3600.
	day  = 24 * hour
)

// Rounder returns round numbers near v, the roundest first; none if v is round. Of
// durations, in seconds, they are usual ones, then whole hours, minutes or seconds; of other
// numbers 1, 2 or 5 times a power of ten, then two significant digits, which are round, then
// three.
func Rounder(kind space.Kind, v float64) []float64 {
	if v <= 0 || kind == space.KindInt && v < 100 {
		return nil
	}
	nearest := func(of []float64) float64 {
		return slices.MinFunc(of, func(a, b float64) int {
			return cmp.Compare(math.Abs(math.Log(a/v)), math.Abs(math.Log(b/v)))
		})
	}
	if kind == space.KindDuration {
		unit := 1.0
		for _, u := range []float64{60, hour} {
			if v >= 2*u {
				unit = u
			}
		}
		if math.Mod(v, unit) == 0 || slices.Contains(rungs, v) {
			return nil
		}
		return slices.Compact([]float64{nearest(rungs), math.Round(v/unit) * unit, math.Round(v)})
	}
	power := math.Floor(math.Log10(v))
	two := digits(v, power-1)
	if two == v {
		return nil
	}
	var steps []float64
	for _, m := range []float64{1, 2, 5, 10} {
		steps = append(steps, digits(m*math.Pow(10, power), power-1))
	}
	return slices.Compact([]float64{nearest(steps), two, digits(v, power-2)})
}

// digits rounds v to a multiple of a power of ten.
func digits(v, power float64) float64 {
	if power < 0 {
		return math.Round(v*math.Pow(10, -power)) / math.Pow(10, -power)
	}
	return math.Round(v/math.Pow(10, power)) * math.Pow(10, power)
}
