package search

import (
	"math"
	"slices"

	"github.com/autosched/autosched/internal/rng"
)

// A sampler sees one number per trial. Where there are limits or several
// objectives, it is shown trials whose values stand for these as well.

// constrained are the trials as what has limits is searched: one that breaks
// them, or is not likely to keep to them, counts as no better than the incumbent,
// and the worse the more it breaks them.
func (s *study) constrained() []Trial {
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

// Rank is a side that decides among trials whose metric before it, at first the
// objective, is within a share of the least.
type Rank struct {
	Side   string
	Within float64
}

// byRank are the trials with values that order them by all ranks: those within
// reach of the least objective go below the others, by the next metric, and so
// on. Each rank has half the room of the one before it.
func (s *study) byRank(trials []Trial) []Trial {
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
	for k := 0; k <= len(s.Then); k++ {
		low := math.Inf(1)
		value := make([]float64, len(out))
		for _, i := range at {
			if value[i] = out[i].Measurement.Mean(); k > 0 {
				side, _ := out[i].Measurement.Side(s.Then[k-1].Side)
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
		if room /= 2; k < len(s.Then) {
			at = slices.DeleteFunc(at, func(i int) bool { return value[i] > (1+s.Then[k].Within)*low })
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

// view is what the sampler is shown. With a front to be found, each request is
// for another weighting of the objectives (Knowles, ParEGO, IEEE Trans. Evol.
// Comput. 10, 2006).
func (s *study) view() []Trial {
	switch {
	case len(s.Front) > 0:
	case len(s.Then) > 0:
		return s.byRank(s.constrained())
	default:
		return s.constrained()
	}
	stream := rng.Stream("front", s.Seed, uint64(s.step))
	weights, sum := make([]float64, len(s.Front)), 0.0
	for i := range weights { // uniform on the simplex
		weights[i] = stream.ExpFloat64()
		sum += weights[i]
	}
	out := slices.Clone(s.result.Trials)
	cost := make([]float64, len(out))
	added := make([]float64, len(out))
	for i, name := range s.Front {
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
		v := 1 + cost[k] + float64(augment*added[k])
		if !s.keeps(m) {
			v += 1 + s.violation(m)
		}
		m.Values, m.Floors = []float64{min(v, mostCost)}, nil
	}
	return out
}

// augment is the weight of the sum beside the maximum, so that of two points that
// are as bad in one objective the one that is better in another counts (ParEGO).
const augment = .05

// normalised are the means of a side, 0 for the least of the trials and 1 for the
// median, so that a few bad ones do not hide the others.
func normalised(trials []Trial, name string) []float64 {
	out := make([]float64, len(trials))
	var good []float64
	for i := range trials {
		if side, ok := trials[i].Measurement.Side(name); ok && trials[i].OK() {
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

// winner returns the trial with the best posterior mean of those that keep to the
// limits; -1 if none does.
func (s *study) winner() int {
	trials := s.constrained()
	best := s.modelled(trials)
	if best < 0 || s.keeps(&s.result.Trials[best].Measurement) {
		return best
	}
	// What is likely to keep to them, else what does so on these futures.
	for _, keeps := range []func(*Measurement) bool{s.keeps, (*Measurement).Feasible} {
		best = -1
		low := math.Inf(1)
		for i := range s.result.Trials {
			t := &s.result.Trials[i]
			if t.OK() && keeps(&t.Measurement) && t.Measurement.Mean() < low {
				best, low = i, t.Measurement.Mean()
			}
		}
		if best >= 0 {
			break
		}
	}
	return best
}

// keeps reports whether a measurement keeps to the limits, likely enough.
func (s *study) keeps(m *Measurement) bool {
	return m.Feasible() && (s.Likely == 0 || m.Kept() >= s.Likely)
}

// doubt is what not being likely at all to keep to a limit counts as, as a share of
// its bound: less than any excess that matters.
const doubt = .05

// violation is the sum of the excesses, and of the doubt about them.
func (s *study) violation(m *Measurement) float64 {
	return m.violation() + float64(doubt*max(0, s.Likely-m.Kept()))
}

// Front returns the indices of the trials that no other beats in every one of the
// sides: it is nowhere worse and somewhere better, in the means over the
// futures. Trials that break a limit or have no objective are left out, and of
// equal ones all but the first. They are in order of the first side.
func Front(trials []Trial, names []string) []int {
	var at []int
	values := make([][]float64, len(trials))
	for i := range trials {
		t := &trials[i]
		if !t.OK() || !t.Measurement.Feasible() {
			continue
		}
		for _, n := range names {
			side, ok := t.Measurement.Side(n)
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
	slices.SortStableFunc(out, func(i, j int) int { return compare(values[i][0], values[j][0]) })
	return out
}
