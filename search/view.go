package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/rng"
)

// A sampler minimises one number. With limits, tiebreakers or several objectives
// it sees trials whose values encode these as well.

// penalised returns the trials with a penalty on trials that break a limit or are
// not likely enough to keep it: they are worse than the incumbent, the more so the
// larger the violation.
func (s *study) penalised() []Trial {
	trials := s.result.Trials
	out := trials
	for i := range trials {
		t := &trials[i]
		if !t.OK() || s.keeps(&t.Measurement) {
			continue
		}
		if &out[0] == &trials[0] {
			out = slices.Clone(trials)
		}
		was := t.Measurement.Mean()
		worse := max(was, s.base) * (1 + s.violation(&t.Measurement))
		v := make([]float64, len(t.Measurement.Values))
		for k, x := range t.Measurement.Values {
			if v[k] = worse; was > 0 {
				v[k] = min(x/was*worse, mostCost)
			}
		}
		out[i].Measurement.Values = v
		out[i].Reward = ratio(s.base, mean(v))
	}
	return out
}

// Ranking orders trials by more than the objective. The zero value is the objective
// alone.
type Ranking struct {
	// MinFeasibleProb is the least probability with which a configuration must keep
	// each paired limit (Measurement.Kept); 0 asks only that it does so in the mean.
	MinFeasibleProb float64
	// Tiebreakers order the trials whose objectives are close. Result.Best is chosen
	// by the objective alone.
	Tiebreakers []Tiebreaker
	// ParetoMetrics names secondary metrics: suggestions then approximate their Pareto
	// front (see Front) instead of minimising the objective.
	ParetoMetrics []string
}

// Tiebreaker is a secondary metric that orders the trials whose preceding metric,
// at first the objective, is at most 1 + Within times the least.
type Tiebreaker struct {
	Metric string
	Within float64
}

// lexicographic returns the trials with values that order them by the objective
// and all tiebreakers: trials within reach of the least objective come before the
// others, by the next metric, and so on. Each metric has half the range of values
// of the one before it.
func (s *study) lexicographic(trials []Trial) []Trial {
	out := slices.Clone(trials)
	cost := make([]float64, len(out))
	var at []int
	least := math.Inf(1) // of the objective
	for i := range out {
		if out[i].OK() {
			at = append(at, i)
		}
	}
	room := 1.0
	for k := 0; k <= len(s.Ranking.Tiebreakers); k++ {
		low := math.Inf(1)
		value := make([]float64, len(out))
		for _, i := range at {
			if value[i] = out[i].Measurement.Mean(); k > 0 {
				side, _ := out[i].Measurement.Metric(s.Ranking.Tiebreakers[k-1].Metric)
				value[i] = mean(side.Values)
			}
			low = min(low, value[i])
		}
		for _, i := range at {
			x := ratio(value[i], low) - 1
			if cost[i] = 1 + x; k > 0 {
				cost[i] = room * (1 + x/(1+x))
			}
		}
		if k == 0 {
			least = low
		}
		if room /= 2; k < len(s.Ranking.Tiebreakers) {
			at = slices.DeleteFunc(at, func(i int) bool { return value[i] > (1+s.Ranking.Tiebreakers[k].Within)*low })
		}
	}
	for i := range out {
		if out[i].OK() {
			v := make([]float64, len(out[i].Measurement.Values))
			for k := range v {
				v[k] = min(cost[i]*max(least, 1e-9), mostCost)
			}
			out[i].Measurement.Values = v
			out[i].Reward = ratio(s.base, mean(v))
		}
	}
	return out
}

// view returns the trials with the values that the sampler minimises.
func (s *study) view() []Trial {
	switch {
	case len(s.Ranking.ParetoMetrics) > 0:
		return s.scalarised()
	case len(s.Ranking.Tiebreakers) > 0:
		return s.lexicographic(s.penalised())
	}
	return s.penalised()
}

// scalarised returns the trials with a weighted maximum of the objectives as their
// value, with other weights for each request (Knowles, ParEGO, IEEE Trans. Evol.
// Comput. 10, 2006).
func (s *study) scalarised() []Trial {
	stream := rng.Stream("front", s.Seed, uint64(s.step))
	weights, sum := make([]float64, len(s.Ranking.ParetoMetrics)), 0.0
	for i := range weights { // uniform on the simplex
		weights[i] = stream.ExpFloat64()
		sum += weights[i]
	}
	out := slices.Clone(s.result.Trials)
	cost := make([]float64, len(out))
	added := make([]float64, len(out))
	for i, name := range s.Ranking.ParetoMetrics {
		z := normalised(out, name)
		for k := range out {
			w := weights[i] / sum * z[k]
			cost[k] = max(cost[k], w)
			added[k] += w
		}
	}
	for k := range out {
		m := &out[k].Measurement
		if !out[k].OK() {
			continue
		}
		v := 1 + cost[k] + augment*added[k]
		if !s.keeps(m) {
			v += 1 + s.violation(m)
		}
		m.Values, m.Floors = []float64{min(v, mostCost)}, nil
	}
	return out
}

// augment is the weight of the sum beside the maximum. It orders points with equal
// maxima by their other objectives (ParEGO).
const augment = .05

// normalised returns the means of a metric, scaled to 0 for the least of the trials
// and 1 for the median, so that a few bad trials do not compress the others.
func normalised(trials []Trial, name string) []float64 {
	out := make([]float64, len(trials))
	var good []float64
	for i := range trials {
		if side, ok := trials[i].Measurement.Metric(name); ok && trials[i].OK() {
			out[i] = mean(side.Values)
			good = append(good, out[i])
		}
	}
	if len(good) == 0 {
		return out
	}
	slices.Sort(good)
	low, width := good[0], good[len(good)/2]-good[0]
	if width <= 0 {
		width = good[len(good)-1] - low
	}
	for i := range out {
		if width <= 0 {
			out[i] = 0
			continue
		}
		out[i] = max(0, (out[i]-low)/width)
	}
	return out
}

// winner returns the feasible trial with the best posterior mean, -1 without any.
func (s *study) winner() int {
	trials := s.penalised()
	best := s.modelled(trials)
	if best < 0 || s.result.Trials[best].Measurement.Measured == 0 && s.keeps(&s.result.Trials[best].Measurement) {
		return best
	}
	// Otherwise the best that is measured on all futures and feasible with enough
	// probability, or the best feasible one.
	for _, keeps := range []func(*Measurement) bool{s.keeps, (*Measurement).Feasible} {
		best = -1
		low := math.Inf(1)
		for i := range s.result.Trials {
			t := &s.result.Trials[i]
			if t.OK() && t.Measurement.Measured == 0 && keeps(&t.Measurement) && t.Measurement.Mean() < low {
				best, low = i, t.Measurement.Mean()
			}
		}
		if best >= 0 {
			break
		}
	}
	return best
}

// keeps reports whether a measurement keeps the limits, with enough probability.
func (s *study) keeps(m *Measurement) bool {
	return m.Feasible() && (s.Ranking.MinFeasibleProb == 0 || m.Kept() >= s.Ranking.MinFeasibleProb)
}

// improbable is the penalty on a limit that is kept with probability 0, as a share of its
// bound: less than a relevant excess.
const improbable = .05

// violation is the sum of the excesses, plus a penalty on a low probability of keeping
// the limits.
func (s *study) violation(m *Measurement) float64 {
	return m.violation() + improbable*max(0, s.Ranking.MinFeasibleProb-m.Kept())
}

// Front returns the indices of the Pareto-optimal trials in the means of the named
// metrics over the futures, in order of the first metric. Trials that break a limit or
// have no objective are left out, and of equal ones all but the first.
func Front(trials []Trial, names []string) []int {
	var at []int
	values := make([][]float64, len(trials))
	for i := range trials {
		t := &trials[i]
		if !t.OK() || !t.Measurement.Feasible() {
			continue
		}
		for _, n := range names {
			side, ok := t.Measurement.Metric(n)
			if !ok {
				break
			}
			values[i] = append(values[i], mean(side.Values))
		}
		if len(values[i]) == len(names) {
			at = append(at, i)
		}
	}
	beats := func(a, b []float64, first bool) bool {
		better := first
		for k := range a {
			if a[k] > b[k] {
				return false
			}
			better = better || a[k] < b[k]
		}
		return better
	}
	out := slices.DeleteFunc(slices.Clone(at), func(i int) bool {
		return slices.ContainsFunc(at, func(j int) bool { return j != i && beats(values[j], values[i], j < i) })
	})
	slices.SortStableFunc(out, func(i, j int) int { return cmp.Compare(values[i][0], values[j][0]) })
	return out
}
