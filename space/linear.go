package space

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Linear bounds a weighted sum: the terms add up to at most Max. A term whose
// parameter is not active, or has a special value, counts as 0; that of an
// array counts the sum of its elements. For a lower bound, negate both sides.
//
// Projection: every value moves the same share of the way from where it is to
// the end of its range that lowers the sum (within an ordering: as far as the
// ordering lets all of them go), just far enough. Values on a step go on to
// the next one, others are rounded to six digits. Where that breaks another
// linear rule, the values of all of them move the same share of the way to
// their defaults instead.
type Linear struct {
	Terms []Term  `json:"terms"`
	Max   float64 `json:"max_value"`
}

// Term is one summand of a [Linear] rule.
type Term struct {
	Param       string  `json:"param"`
	Coefficient float64 `json:"coefficient"`
}

// String is the rule as people write it: 2 a - b <= 8.
func (l *Linear) String() string {
	var b strings.Builder
	for i, t := range l.Terms {
		c := t.Coefficient
		switch {
		case i == 0 && c < 0:
			b.WriteString("-")
		case i > 0 && c < 0:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" + ")
		}
		if c = math.Abs(c); c != 1 {
			b.WriteString(formatNumber(c) + " ")
		}
		b.WriteString(t.Param)
	}
	fmt.Fprintf(&b, " <= %s", formatNumber(l.Max))
	return b.String()
}

// sum adds up the terms and their sizes. The conversions keep products from being
// fused with the sum, so that every architecture agrees on what is valid.
func (s *Space) sum(l *Linear, values []Value) (sum, size float64) {
	for _, t := range l.Terms {
		i := s.index[t.Param]
		p, v := &s.params[i], values[i]
		switch v.kind {
		case numberValue:
			if p.special(v.num) == nil {
				x := float64(t.Coefficient * v.num)
				sum, size = sum+x, size+math.Abs(x)
			}
		case listValue:
			for _, e := range v.nums {
				x := float64(t.Coefficient * e)
				sum, size = sum+x, size+math.Abs(x)
			}
		}
	}
	return sum, size
}

// fits reports whether the terms stay within the bound. The rounding of the
// products is forgiven, as that of an ordering is.
func (s *Space) fits(l *Linear, values []Value) bool {
	sum, size := s.sum(l, values)
	return sum <= l.Max+slack*max(size, math.Abs(l.Max))
}

func (s *Space) checkLinear(l *Linear, at string, v *Violations) {
	before := len(*v)
	if math.IsNaN(l.Max) || math.IsInf(l.Max, 0) {
		v.add(at+".max_value", "must be finite")
	}
	if len(l.Terms) == 0 {
		v.add(at+".terms", "at least one is needed")
	}
	listed := map[string]int{}
	size := 0.0
	for k, t := range l.Terms {
		field := fmt.Sprintf("%s.terms[%d]", at, k)
		if c := t.Coefficient; c == 0 || math.IsNaN(c) || math.IsInf(c, 0) {
			v.add(field+".coefficient", "must be finite and not 0")
		}
		i, ok := s.index[t.Param]
		if !ok {
			v.add(field+".param", "there is no parameter %q", t.Param)
			continue
		}
		if first, twice := listed[t.Param]; twice {
			v.add(field+".param", "%q is already in terms[%d]", t.Param, first)
		}
		listed[t.Param] = k
		p := &s.params[i]
		if !p.Kind.numeric() {
			v.add(field+".param", "%q is %s and cannot be added", t.Param, p.Kind)
			continue
		}
		n := 1.0
		if p.Array != nil {
			n = float64(p.Array.Max)
		}
		size += n * math.Abs(t.Coefficient) * max(math.Abs(p.Min), math.Abs(p.Max))
	}
	if len(*v) == before && !(size < math.MaxFloat64/4) {
		v.add(at+".terms", "the sum can become too large to be counted")
	}
}

// lower changes values so that the sum comes down to the bound. Effort is an index
// of margins.
func (s *Space) lower(l *Linear, values []Value, effort int) {
	ends := make([]Value, len(values))
	sum, _ := s.sum(l, values)
	least := sum
	for _, t := range l.Terms {
		i := s.index[t.Param]
		p, v := &s.params[i], values[i]
		switch {
		case v.kind == numberValue && p.special(v.num) == nil:
			end := s.chainEnd(i, 0, values, t.Coefficient > 0)
			ends[i] = Num(end)
			least += t.Coefficient * (end - v.num)
		case v.kind == listValue:
			nums := make([]float64, len(v.nums))
			for k, x := range v.nums {
				nums[k] = s.chainEnd(i, k, values, t.Coefficient > 0)
				least += t.Coefficient * (nums[k] - x)
			}
			ends[i] = Value{kind: listValue, nums: nums}
		}
	}
	share := 1.0
	if least < l.Max {
		share = (sum - l.Max) / (sum - least)
	}
	s.move(values, ends, share, effort)
}

// lowerAll moves the values of all linear rules at once towards their defaults. It
// returns false if the defaults break a rule.
func (s *Space) lowerAll(values []Value, effort int) bool {
	ends := make([]Value, len(values))
	target := slices.Clone(values)
	for _, r := range s.across {
		l := s.rules[r].Linear
		if l == nil {
			continue
		}
		for _, t := range l.Terms {
			i := s.index[t.Param]
			p := &s.params[i]
			if v := values[i]; v.IsZero() || v.kind == numberValue && p.special(v.num) != nil {
				continue
			}
			end, _ := s.projectOne(i, Value{}, values)
			if end.kind == numberValue && p.special(end.num) != nil {
				continue // a special value is not a point of the range
			}
			ends[i], target[i] = end, end
		}
	}
	share := 0.0
	for _, r := range s.across {
		l := s.rules[r].Linear
		if l == nil || s.fits(l, values) {
			continue
		}
		sum, _ := s.sum(l, values)
		least, _ := s.sum(l, target)
		if !s.fits(l, target) {
			return false
		}
		share = max(share, (sum-l.Max)/(sum-least))
	}
	s.move(values, ends, share, effort)
	return true
}

// margins are the shares of the remaining way to its end that a value moves beyond
// what a rule needs, by attempt. The first is none. The second is a hundred times
// what rounding to six digits can give back. The last is the whole way, with
// lowerAll to the defaults, which obey every rule: so linear rules alone always end.
// Each of the others is ten to thirty times the one before, which keeps attempts few
// and the overshoot bounded.
var margins = [...]float64{0, 0.001, 0.03, 0.3, 1}

// move moves every value that has an end a share of the way to it, and a margin
// beyond.
func (s *Space) move(values, ends []Value, share float64, effort int) {
	share = min(max(share, 0), 1)
	share += (1 - share) * margins[min(effort, len(margins)-1)]
	for i := range values {
		p := &s.params[i]
		switch v, end := values[i], ends[i]; end.kind {
		case numberValue:
			values[i] = Num(p.toward(v.num, end.num, share))
		case listValue:
			nums := make([]float64, len(v.nums))
			for k, x := range v.nums {
				nums[k] = p.toward(x, end.nums[k], share)
			}
			values[i] = Value{kind: listValue, nums: nums}
		}
	}
}

// toward returns the value of p that lies share of the way from x to end, or a
// little further: on a step, or with few digits.
func (p *Param) toward(x, end, share float64) float64 {
	v := x + share*(end-x)
	low, high := min(x, end), max(x, end)
	if share >= 1 || !(v > low && v < high) {
		if share <= 0 {
			return x
		}
		return end
	}
	if step := p.grid(); step != 0 {
		k := (v - p.Min) / step
		if end < x {
			return max(p.level(int(math.Floor(k+slack))), end)
		}
		return min(p.level(int(math.Ceil(k-slack))), end)
	}
	r := roundDigits(v, readable)
	if (r-v)*(end-x) < 0 { // rounded back
		back := math.Copysign(max(math.Abs(v)*1e-5, math.Abs(end-x)*1e-9), end-x)
		r = roundDigits(v+back, readable)
	}
	return min(max(r, low), high)
}

// chainEnd returns the least or greatest value that element k of parameter i
// can be given beside the others of its ordering.
func (s *Space) chainEnd(i, k int, values []Value, least bool) float64 {
	p := &s.params[i]
	o := s.orderingOf(i)
	if o == nil {
		if least {
			return p.Min
		}
		return p.Max
	}
	var chain []*Param
	at := k
	for _, id := range o.Params {
		j := s.index[id]
		if j == i && p.Array == nil {
			at = len(chain)
		}
		switch values[j].kind {
		case numberValue:
			chain = append(chain, &s.params[j])
		case listValue:
			for range values[j].nums {
				chain = append(chain, &s.params[j])
			}
		}
	}
	if !least {
		ceiling := make([]float64, len(chain))
		o.ceilings(ceiling, chain, false)
		return ceiling[at]
	}
	v := chain[0].Min
	for _, next := range chain[1 : at+1] {
		v = o.lowest(next, v)
	}
	return v
}

// orderingOf returns the ordering that holds parameter i, nil if none does.
func (s *Space) orderingOf(i int) *Ordering {
	if !s.ordered[i] {
		return nil
	}
	for u := range s.units {
		if r := s.units[u].ordering; r != nil {
			for _, j := range s.units[u].params {
				if j == i {
					return r.Ordering
				}
			}
		}
	}
	return nil
}
