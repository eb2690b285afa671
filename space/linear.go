package space

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Linear bounds a weighted sum: the terms add up to at most Max. The term of an
// inactive parameter, or of one with a special value, is 0; that of an array uses
// the sum of its elements. For a lower bound, negate both sides.
//
// Projection: every value moves the same share of the distance to the end of its
// range that lowers the sum (within an ordering, to the end that the ordering
// permits), just far enough. Values with a step move on to the next step, others are
// rounded to six digits. If that breaks another linear rule, the values of all
// linear rules move the same share of the distance to their defaults instead.
type Linear struct {
	Terms []Term  `json:"terms"`
	Max   float64 `json:"max_value"`
}

// Term is one term of a [Linear] rule.
type Term struct {
	Param       string  `json:"param"`
	Coefficient float64 `json:"coefficient"`
}

// String returns the rule as text, such as "2 a - b <= 8".
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

// sum returns the sum of the terms and of their magnitudes. The conversions prevent
// fused multiply-add, so that all architectures agree on validity.
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

// fits reports whether the sum is within the bound, up to rounding errors of the
// products.
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

// lower moves values towards the ends of their ranges until the sum meets the bound.
// effort is an index into margins.
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

// lowerAll moves the values of all linear rules towards their defaults at once. It
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

// margins are, by attempt, the shares of the remaining distance by which values move
// beyond what a rule needs. The first is zero. The second is a hundred times what
// rounding to six digits can undo. The last is the whole distance, which with
// lowerAll reaches the defaults, which obey every rule: so linear rules alone always
// terminate. The factors of ten to thirty between the others keep attempts few and
// the overshoot bounded.
var margins = [...]float64{0, 0.001, 0.03, 0.3, 1}

// move moves every value with an end by a share of the distance to it, plus a
// margin.
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

// toward returns the value of p at a share of the distance from x to end, or a
// little beyond: on a step, or with few digits.
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
	r := roundDigits(v, maxDigits)
	if (r-v)*(end-x) < 0 { // rounding moved it back
		back := math.Copysign(max(math.Abs(v)*1e-5, math.Abs(end-x)*1e-9), end-x)
		r = roundDigits(v+back, maxDigits)
	}
	return min(max(r, low), high)
}

// chainEnd returns the least or greatest value that element k of parameter i can
// take within its ordering.
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

// orderingOf returns the ordering of parameter i, or nil.
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
