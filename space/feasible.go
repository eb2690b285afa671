package space

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The default must obey every rule, so that projection always has a result. If it
// does not, New reports another valid default, or that there is none, or that it
// found none. The search for one is bounded: interval narrowing for a proof that
// there is none, then every configuration of a small space, otherwise a few hundred
// points.
const (
	maxNarrowings = 50
	maxExact      = 20_000
	maxTries      = 300
)

// checkDefault sets the default configuration and checks it.
func (s *Space) checkDefault(v *Violations) {
	defaults := make([]Value, len(s.params))
	for i := range s.params {
		defaults[i] = s.params[i].Default
	}
	values := make([]Value, len(s.params))
	for _, u := range s.units {
		for _, i := range u.params {
			if s.isActive(i, values) {
				values[i] = defaults[i]
			}
		}
	}
	s.initial = Config{space: s, values: values}
	err := s.Check(s.initial)
	if err == nil {
		return
	}
	for _, one := range err.(Violations) {
		v.add("default", "%s: %s", one.Field, one.Description)
	}
	if reason := s.contradiction(); reason != "" {
		v.add("rules", "no configuration obeys them all: %s", reason)
		return
	}
	found, exact, tried := s.findValid(defaults)
	last := &(*v)[len(*v)-1]
	switch {
	case !found.IsZero():
		var parts []string
		for i, x := range found.values {
			if !x.IsZero() && !x.Equal(defaults[i]) {
				parts = append(parts, s.params[i].ID+"="+s.params[i].Format(x))
			}
		}
		last.Description += "; these defaults would do: " + strings.Join(parts, " ")
	case exact:
		v.add("rules", "no configuration obeys them all: every one of the %d there are breaks one", tried)
	default:
		v.add("rules", "none of %d configurations tried obeys them all: do they contradict each other?", tried)
	}
}

// findValid searches for a configuration that obeys every rule, first near the
// defaults. exact is true if the search covers the whole space; tried is the number of
// configurations examined.
func (s *Space) findValid(defaults []Value) (found Config, exact bool, tried int) {
	try := func(raw []Value) bool {
		tried++
		values, why := s.settle(raw)
		broken := s.firstBroken(values)
		if broken >= 0 {
			var ok bool
			if values, _, ok = s.applyBroken(raw, values, why, broken); !ok {
				return false
			}
		}
		c := Config{space: s, values: values}
		if s.Check(c) != nil {
			return false
		}
		found = c
		return true
	}
	if try(defaults) {
		return found, false, tried
	}
	if n := s.Size(); n <= maxExact {
		for c := range s.All() {
			return c, true, 1
		}
		return Config{}, true, int(n)
	}
	// A Kronecker sequence of square roots fills the cube evenly.
	x := make([]float64, len(s.dims))
	for k := range maxTries {
		for d := range x {
			_, x[d] = math.Modf(float64(k+1) * math.Sqrt(float64(2+d)))
		}
		if try(s.raw(x)) {
			return found, false, tried
		}
	}
	return Config{}, false, tried
}

// bounds is the range that rules leave to a parameter's term.
type bounds struct {
	low, high float64
	fixed     bool     // special values or inactivity are possible: the range cannot be narrowed
	by        []string // rules that narrowed it
}

// contradiction returns a proof that no configuration obeys every rule, or "" if it
// finds none: a forbidden combination that always holds, or ranges that rules narrow
// to nothing.
func (s *Space) contradiction() string {
	always := make([]bool, len(s.params))
	for i := range always {
		always[i] = len(s.active[i]) == 0 && s.params[i].Array == nil
	}
	for _, r := range s.across {
		f := s.rules[r].Forbidden
		if f != nil && !slices.ContainsFunc(f.All, func(c Condition) bool {
			i := s.index[c.Param]
			return !always[i] || !c.always(&s.params[i])
		}) {
			return fmt.Sprintf("rule %s forbids what always is, %s", s.rules[r].ID, f)
		}
	}
	b := make([]bounds, len(s.params))
	for i := range s.params {
		b[i] = s.contribution(i, always[i])
	}
	for range maxNarrowings {
		narrowed := false
		for r := range s.rules {
			var reason string
			var n bool
			switch rule := &s.rules[r]; {
			case rule.Linear != nil:
				n, reason = s.narrowLinear(rule, b)
			case rule.Ordering != nil:
				n, reason = s.narrowOrdering(rule, b)
			}
			if reason != "" {
				return reason
			}
			narrowed = narrowed || n
		}
		if !narrowed {
			break
		}
	}
	return ""
}

// contribution returns the range of parameter i's contribution to a sum, per unit of
// its coefficient.
func (s *Space) contribution(i int, always bool) bounds {
	p := &s.params[i]
	switch {
	case !p.Kind.numeric():
		return bounds{fixed: true}
	case p.Array != nil:
		n := float64(p.Array.Max)
		return bounds{low: min(0, n*p.Min), high: max(0, n*p.Max), fixed: true}
	case !always || len(p.Special) > 0:
		return bounds{low: min(0, p.Min), high: max(0, p.Max), fixed: true}
	}
	return bounds{low: p.Min, high: p.Max}
}

// narrowLinear narrows the range of each term of a sum to what the other terms
// leave.
func (s *Space) narrowLinear(rule *Rule, b []bounds) (narrowed bool, reason string) {
	l := rule.Linear
	least, size := 0.0, 0.0
	term := func(t Term) float64 {
		at := &b[s.index[t.Param]]
		return min(t.Coefficient*at.low, t.Coefficient*at.high)
	}
	var by []string
	for _, t := range l.Terms {
		least += term(t)
		size += math.Abs(term(t))
		by = append(by, b[s.index[t.Param]].by...)
	}
	room := l.Max - least + 1e-6*max(size, math.Abs(l.Max))
	if room < 0 {
		return false, fmt.Sprintf("rule %s asks for %s, but the sum is at least %s%s", rule.ID, l,
			formatNumber(roundDigits(least, maxDigits)), given(by, rule.ID))
	}
	for _, t := range l.Terms {
		at := &b[s.index[t.Param]]
		if at.fixed {
			continue
		}
		bound := (term(t) + room) / t.Coefficient
		width := 1e-6 * (at.high - at.low)
		switch {
		case t.Coefficient > 0 && bound < at.high-width:
			at.high = bound
		case t.Coefficient < 0 && bound > at.low+width:
			at.low = bound
		default:
			continue
		}
		narrowed = true
		at.because(by, rule.ID)
	}
	return narrowed, ""
}

// narrowOrdering narrows ranges by the ranges before and after them in an ordering.
func (s *Space) narrowOrdering(rule *Rule, b []bounds) (narrowed bool, reason string) {
	o := rule.Ordering
	prev := -1
	for _, id := range o.Params {
		i := s.index[id]
		if b[i].fixed {
			continue
		}
		if prev >= 0 {
			if low := o.after(b[prev].low); low > b[i].low+1e-6*math.Abs(low) {
				b[i].low, narrowed = low, true
				b[i].because(b[prev].by, rule.ID)
			}
			high := b[i].high - o.MinGap
			if o.MinRatio > 1 {
				high = min(high, b[i].high/o.MinRatio)
			}
			if high < b[prev].high-1e-6*math.Abs(high) {
				b[prev].high, narrowed = high, true
				b[prev].because(b[i].by, rule.ID)
			}
			for _, k := range []int{prev, i} {
				if b[k].low > b[k].high+1e-6*max(math.Abs(b[k].low), math.Abs(b[k].high)) {
					return false, fmt.Sprintf("no value of %s is left%s", s.params[k].ID, given(b[k].by, ""))
				}
			}
		}
		prev = i
	}
	return narrowed, ""
}

func (b *bounds) because(by []string, rule string) {
	b.by = append(append(b.by, by...), rule)
	slices.Sort(b.by)
	b.by = slices.Compact(b.by)
}

// given names the rules of a proof, except one.
func given(by []string, except string) string {
	by = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(by))), func(r string) bool { return r == except })
	if len(by) == 0 {
		return ""
	}
	return " given " + strings.Join(by, ", ")
}
