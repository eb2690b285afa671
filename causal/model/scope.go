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
	// ACE is the parameter's effect with its lower bound, and GainBound how much of
	// the objective changing the parameter alone could at best save.
	ACE       float64 `json:"ace"`
	ACELow    float64 `json:"ace_low"`
	GainBound float64 `json:"gain_bound"`
	// Paths are the strongest ones to the objective.
	Paths []Path `json:"paths,omitempty"`
}

// Reasons of a narrowing.
const (
	Inert  = "inert"   // no directed path to the objective and no sure effect
	NoGain = "no gain" // no value promises more than a little
	Narrow = "narrow"  // values outside are worse than the best for sure
)

// Scope options.
type Scope struct {
	// Delta is the share of the objective below which a gain counts as none;
	// default 0.01.
	Delta float64
	// KeepFree is how many parameters stay free whatever speaks against them: so
	// many that promise most, and so many whose effects are the surest; default 2.
	KeepFree int
}

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
	var all []view
	for _, c := range m.config {
		v := view{column: c, what: m.whatIf(k, incumbent, c, buf)}
		for _, w := range v.what {
			v.gain = max(v.gain, w.gain)
		}
		i := slices.IndexFunc(effects, func(e Effect) bool { return e.Parameter == m.name(c) })
		e := &effects[i]
		v.n = Narrowing{Parameter: e.Parameter, ACE: e.ACE, ACELow: e.Low, GainBound: v.gain}
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

// bounded is a what-if mean with its confidence bounds, and the upper bound of
// the gain over the incumbent.
type bounded struct{ value, mean, low, high, gain float64 }

func (m *Model) whatIf(k int, incumbent Point, column int, buf *buffer) []bounded {
	values := m.levels(column)
	p := slices.Clone(incumbent)
	was := m.mean(&m.all, k, incumbent, buf)
	out := make([]bounded, len(values))
	for i, v := range values {
		p[column] = v
		b := bounded{value: v, mean: m.mean(&m.all, k, p, buf)}
		sd, gain := 0.0, 0.0
		for n := range m.boots {
			p[column] = v
			now := m.mean(&m.boots[n], k, p, buf)
			p[column] = incumbent[column]
			before := m.mean(&m.boots[n], k, p, buf)
			d := now - b.mean
			g := (before - now) - (was - b.mean)
			sd += float64(d*d) / float64(len(m.boots))
			gain += float64(g*g) / float64(len(m.boots))
		}
		b.low, b.high = b.mean-z90*math.Sqrt(sd), b.mean+z90*math.Sqrt(sd)
		if v != incumbent[column] {
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
