package model

import (
	"cmp"
	"math"
	"slices"
)

// Narrowing is what the model says need not be searched, with the reason.
type Narrowing struct {
	Parameter string `json:"parameter"`
	// Op is "fix" (to Value), "interval" (Low to High) or "exclude" (the levels of
	// Excluded).
	Op       string    `json:"op"`
	Value    float64   `json:"value,omitempty"`
	Low      float64   `json:"low,omitempty"`
	High     float64   `json:"high,omitempty"`
	Excluded []float64 `json:"excluded,omitempty"`
	Reason   string    `json:"reason"`
	// ACE is the parameter's effect with its 90 % bounds, and GainBound how much of
	// the objective changing the parameter, alone or with one that it may interact
	// with, could at best save.
	ACE       float64 `json:"ace"`
	ACELow    float64 `json:"ace_low"`
	ACEHigh   float64 `json:"ace_high"`
	GainBound float64 `json:"gain_bound"`
	// Paths are the strongest ones to the objective.
	Paths []Path `json:"paths,omitempty"`
}

// Reasons of a narrowing.
const (
	Inert  = "inert"   // no path that may be causal to the objective, and no sure effect
	NoGain = "no gain" // no value promises more than a little
	Narrow = "narrow"  // values outside are worse than the best for sure
)

// Scope options.
type Scope struct {
	// Delta is the share of the objective below which a gain counts as none;
	// default 0.01.
	Delta float64
	// KeepFree is how many parameters stay free in any case: this many of the largest
	// possible gains, and this many of the surest effects; default 2.
	KeepFree int
}

// pairs is how many pairs of parameters, those with the largest effects, are tried
// together.
const pairs = 5

// z90 makes the confidence bounds of scope narrowing.
const z90 = 1.64

// Narrow says which parameters need not be searched around an incumbent: inert
// ones, those whose best what-if gain is too small even by its upper bound, and
// parts of the others' ranges that are worse than the best for sure (AutoSched,
// Algorithm 1, lines 14-16).
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
	type view struct {
		column int
		gain   float64
		n      Narrowing
		what   []bounded
	}
	gains, whats := m.gains(k, incumbent, effects, buf)
	var all []view
	for i, c := range m.config {
		v := view{column: c, what: whats[i], gain: gains[i]}
		at := slices.IndexFunc(effects, func(e Effect) bool { return e.Parameter == m.name(c) })
		e := &effects[at]
		v.n = Narrowing{Parameter: e.Parameter, ACE: e.ACE, ACELow: e.Low, ACEHigh: e.High, GainBound: v.gain}
		switch {
		case e.Inert:
			v.n.Op, v.n.Value, v.n.Reason = "fix", incumbent[c], Inert
		case v.gain <= s.Delta*base:
			v.n.Op, v.n.Value, v.n.Reason = "fix", incumbent[c], NoGain
		default:
			m.dominated(c, v.what, &v.n)
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b view) int { return cmp.Compare(b.gain, a.gain) })
	var out []Narrowing
	for i, v := range all {
		sure := slices.IndexFunc(effects, func(e Effect) bool { return e.Parameter == v.n.Parameter }) < s.KeepFree
		if v.n.Op == "" || v.n.Op == "fix" && (i < s.KeepFree || sure) {
			continue
		}
		v.n.Paths, _ = m.Paths(objective, v.n.Parameter, 3)
		out = append(out, v.n)
	}
	return out, nil
}

// gains are the upper bounds of what changing each parameter could save: alone,
// or as its part of what it could together with another. The what-ifs of each
// alone come with them.
func (m *Model) gains(k int, incumbent Point, effects []Effect, buf *buffer) (gains []float64, whats [][]bounded) {
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
	looked := 0
	for b := 1; b < len(by); b++ { // the largest with the next, and so on
		for a := range b {
			if looked == pairs {
				return gains, whats
			}
			looked++
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

// bounded is a what-if mean with its confidence bounds, and the upper bound of
// the gain over the incumbent.
type bounded struct{ value, mean, low, high, gain float64 }

// whatIf looks at the levels of a column, or at all pairs of those of two, of
// which value is the first's.
func (m *Model) whatIf(k int, incumbent Point, columns []int, buf *buffer) []bounded {
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
	out := make([]bounded, len(points))
	for i, p := range points {
		b := bounded{value: p[columns[0]], mean: m.mean(&m.all, k, p, buf)}
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

// leastRange is the share of a parameter's levels that narrowing leaves.
const leastRange = .2

// dominated narrows a parameter to the values that may be the best.
func (m *Model) dominated(column int, what []bounded, n *Narrowing) {
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
		// Up to the neighbours, which were looked at and are worse: the best may lie
		// between.
		low, high := what[max(0, first-1)].value, what[min(len(what)-1, last+1)].value
		all := what[len(what)-1].value - what[0].value
		if high-low >= leastRange*all && high-low < all {
			n.Op, n.Low, n.High, n.Reason = "interval", low, high, Narrow
		}
	}
}
