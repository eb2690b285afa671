package model

import (
	"cmp"
	"math"
	"slices"
)

// Narrowing is a reduction of a parameter's search range, with its reason.
type Narrowing struct {
	Parameter string `json:"parameter"`
	// Op is "fix", "interval" (Low to High) or "exclude" (the levels in Excluded).
	Op       string    `json:"op"`
	Low      float64   `json:"low,omitempty"`
	High     float64   `json:"high,omitempty"`
	Excluded []float64 `json:"excluded,omitempty"`
	Reason   string    `json:"reason"`
	// ACE is the parameter's effect with its 90 % interval. GainBound is an upper
	// bound of the reduction of the objective by changing the parameter, alone or
	// together with one that it may interact with.
	ACE       float64 `json:"ace"`
	ACELow    float64 `json:"ace_low"`
	ACEHigh   float64 `json:"ace_high"`
	GainBound float64 `json:"gain_bound"`
}

// Reasons of a narrowing.
const (
	Inert  = "inert"   // no possibly causal path to the objective, and no significant effect
	NoGain = "no gain" // no value's gain bound exceeds Scope.Delta
	Narrow = "narrow"  // values outside are significantly worse than the best
)

// Scope configures [Model.Narrow]. The zero value is ready to use.
type Scope struct {
	// Delta is the share of the objective below which a gain is negligible; default
	// 0.01.
	Delta float64
	// KeepFree is the number of parameters with the largest gain bounds, and of those
	// with the most significant effects, that are never fixed; default 2.
	KeepFree int
}

// maxPairs is the number of pairs of parameters, those with the largest effects,
// that are changed together.
const maxPairs = 5

// z90 is the 95 % quantile of the standard normal, for 90 % intervals.
const z90 = 1.64

// Narrow returns the parameters, or parts of their ranges, that the search around an
// incumbent may leave out: inert parameters, parameters whose what-if gain is
// negligible even by its upper bound, and values that are significantly worse than
// the best (AutoSched, Algorithm 1, lines 14-16).
func (m *Model) Narrow(objective string, incumbent Point, s Scope) ([]Narrowing, error) {
	k, err := m.objective(objective)
	if err != nil {
		return nil, err
	}
	if err := m.check(incumbent); err != nil {
		return nil, err
	}
	if s.Delta == 0 {
		s.Delta = .01
	}
	if s.KeepFree == 0 {
		s.KeepFree = 2
	}
	effects, err := m.Effects(objective)
	if err != nil {
		return nil, err
	}
	buf := m.buffer()
	base := math.Abs(m.mean(&m.all, k, incumbent, buf))
	type candidate struct {
		gain float64
		n    Narrowing
	}
	gains, whats := m.gains(k, incumbent, effects, buf)
	var all []candidate
	for i, c := range m.config {
		v := candidate{gain: gains[i]}
		at := slices.IndexFunc(effects, func(e Effect) bool { return e.Parameter == m.name(c) })
		e := &effects[at]
		v.n = Narrowing{Parameter: e.Parameter, ACE: e.ACE, ACELow: e.Low, ACEHigh: e.High, GainBound: v.gain}
		switch {
		case e.Inert:
			v.n.Op, v.n.Reason = "fix", Inert
		case v.gain <= s.Delta*base:
			v.n.Op, v.n.Reason = "fix", NoGain
		default:
			m.dominated(c, whats[i], &v.n)
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	var out []Narrowing
	for i, v := range all {
		sure := slices.IndexFunc(effects, func(e Effect) bool { return e.Parameter == v.n.Parameter }) < s.KeepFree
		if v.n.Op == "" || v.n.Op == "fix" && (i < s.KeepFree || sure) {
			continue
		}
		out = append(out, v.n)
	}
	return out, nil
}

// gains returns, by parameter, an upper bound of the reduction by changing it, alone
// or as its share of a joint change with another, and the what-ifs of changing it
// alone.
func (m *Model) gains(k int, incumbent Point, effects []Effect, buf *buffer) (gains []float64, whats [][]estimate) {
	index := map[string]int{}
	for i, c := range m.config {
		index[m.name(c)] = i
		whats = append(whats, m.whatIf(k, incumbent, []int{c}, buf))
		gain := 0.0
		for _, w := range whats[i] {
			gain = max(gain, w.gain)
		}
		gains = append(gains, gain)
	}
	by := slices.Clone(effects)
	slices.SortStableFunc(by, func(a, b Effect) int { return cmp.Compare(b.ACE, a.ACE) })
	alone := slices.Clone(gains)
	tried := 0
	for b := 1; b < len(by); b++ { // pairs in descending order of effects
		for a := range b {
			if tried == maxPairs {
				return gains, whats
			}
			tried++
			i, j := index[by[a].Parameter], index[by[b].Parameter]
			both := 0.0
			for _, w := range m.whatIf(k, incumbent, []int{m.config[i], m.config[j]}, buf) {
				both = max(both, w.gain)
			}
			gains[i] = max(gains[i], both-alone[j])
			gains[j] = max(gains[j], both-alone[i])
		}
	}
	return gains, whats
}

// estimate is a what-if mean at a value with its 90 % interval, and the upper bound
// of the gain over the incumbent.
type estimate struct{ value, mean, low, high, gain float64 }

// whatIf evaluates the levels of a column, or all pairs of levels of two columns;
// value is the first column's.
func (m *Model) whatIf(k int, incumbent Point, columns []int, buf *buffer) []estimate {
	points := []Point{incumbent}
	for _, c := range columns {
		var next []Point
		for _, v := range m.levels(c) {
			for _, p := range points {
				p = slices.Clone(p)
				p[c] = v
				next = append(next, p)
			}
		}
		points = next
	}
	was := m.mean(&m.all, k, incumbent, buf)
	before := make([]float64, len(m.boots))
	for n := range m.boots {
		before[n] = m.mean(&m.boots[n], k, incumbent, buf)
	}
	out := make([]estimate, len(points))
	for i, p := range points {
		b := estimate{value: p[columns[0]], mean: m.mean(&m.all, k, p, buf)}
		sd, gain := 0.0, 0.0
		for n := range m.boots {
			now := m.mean(&m.boots[n], k, p, buf)
			d := now - b.mean
			g := (before[n] - now) - (was - b.mean)
			sd += d * d / float64(len(m.boots))
			gain += g * g / float64(len(m.boots))
		}
		b.low, b.high = b.mean-z90*math.Sqrt(sd), b.mean+z90*math.Sqrt(sd)
		if slices.ContainsFunc(columns, func(c int) bool { return p[c] != incumbent[c] }) {
			b.gain = was - b.mean + z90*math.Sqrt(gain)
		}
		out[i] = b
	}
	return out
}

// leastRange is the smallest share of a parameter's range that narrowing leaves.
const leastRange = .2

// dominated restricts a parameter to the values that are not significantly worse
// than the best.
func (m *Model) dominated(column int, what []estimate, n *Narrowing) {
	best := math.Inf(1)
	for _, w := range what {
		best = min(best, w.high)
	}
	first, last, out := -1, -1, []float64(nil)
	for i, w := range what {
		if w.low > best {
			out = append(out, w.value)
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	switch {
	case len(out) == 0 || first < 0:
	case m.scales[column].levels > 0:
		n.Op, n.Excluded, n.Reason = "exclude", out, Narrow
	case first > 0 || last < len(what)-1:
		// Extend the interval to the neighbouring, worse levels: the best value may lie
		// between levels.
		low, high := what[max(0, first-1)].value, what[min(len(what)-1, last+1)].value
		all := what[len(what)-1].value - what[0].value
		if high-low >= leastRange*all && high-low < all {
			n.Op, n.Low, n.High, n.Reason = "interval", low, high, Narrow
		}
	}
}
