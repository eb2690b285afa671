package space

import (
	"fmt"
	"math"
	"regexp"
	"slices"
)

// maxEntries bounds the number of parameters and of rules, so that checking a
// specification is fast. The largest known scheduler has a few dozen.
const maxEntries = 500

// maxLevels bounds the number of values of a gridded parameter, so that floating
// point counts them exactly.
const maxLevels = 1 << 53

var idPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)

// build checks the specification and computes the derived fields.
func (s *Space) build() error {
	var v Violations
	if len(s.params) > maxEntries {
		v.add("parameters", "%d are too many, want at most %d", len(s.params), maxEntries)
	}
	if len(s.rules) > maxEntries {
		v.add("rules", "%d are too many, want at most %d", len(s.rules), maxEntries)
	}
	if len(v) > 0 {
		return v
	}
	for i := range s.params {
		p, at := &s.params[i], fmt.Sprintf("parameters[%d]", i)
		if p.ID == "" {
			v.add(at+".id", "is missing")
		} else if !idPattern.MatchString(p.ID) {
			v.add(at+".id", "%q is not a name: want a letter or _, then up to 62 of A-Z a-z 0-9 _ . -", p.ID)
		}
		if first, ok := s.index[p.ID]; ok {
			v.add(at+".id", "%q is already the name of parameters[%d]", p.ID, first)
		} else {
			s.index[p.ID] = i
		}
		p.check(at, &v)
	}
	s.length = make([]int, len(s.params))
	for i := range s.params {
		s.length[i] = s.checkArray(i, fmt.Sprintf("parameters[%d].array", i), &v)
	}
	s.active = make([][]condition, len(s.params))
	ids := map[string]int{}
	ordered := map[string]int{}
	for i := range s.rules {
		r, at := &s.rules[i], fmt.Sprintf("rules[%d]", i)
		if r.ID == "" {
			v.add(at+".id", "is missing")
		} else if !idPattern.MatchString(r.ID) {
			v.add(at+".id", "%q is not a name: want a letter or _, then up to 62 of A-Z a-z 0-9 _ . -", r.ID)
		}
		if first, ok := ids[r.ID]; ok {
			v.add(at+".id", "%q is already the name of rules[%d]", r.ID, first)
		} else {
			ids[r.ID] = i
		}
		switch {
		case r.kinds() != 1:
			v.add(at, "want exactly one of activation, ordering, linear and forbidden")
		case r.Activation != nil:
			s.checkActivation(r, at+".activation", &v)
		case r.Ordering != nil:
			s.checkOrdering(i, ordered, at+".ordering", &v)
		case r.Linear != nil:
			s.checkLinear(r.Linear, at+".linear", &v)
			s.across = append(s.across, i)
		default:
			s.checkForbidden(r.Forbidden, at+".forbidden", &v)
			s.across = append(s.across, i)
		}
	}
	if len(v) > 0 {
		return v // the following checks rely on valid parts
	}
	if !s.order(&v) {
		return v
	}
	s.dims = s.listDims()
	s.checkDefault(&v)
	return v.err()
}

// check checks a parameter by itself.
func (p *Param) check(at string, v *Violations) {
	before := len(*v)
	switch {
	case int(p.Kind) >= len(kindNames):
		v.add(at+".kind", "unknown kind %d", p.Kind)
		return
	case p.Kind.numeric():
		p.checkRange(at, v)
	default:
		if p.Min != 0 || p.Max != 0 || p.Step != 0 || p.Log || len(p.Special) > 0 || p.Array != nil {
			v.add(at, "a %s parameter has no range, step, scale, special values or array", p.Kind)
		}
	}
	if p.Kind.named() {
		if len(p.Categories) == 0 {
			v.add(at+".categories", "at least one is needed")
		}
		for i, c := range p.Categories {
			if c == "" {
				v.add(fmt.Sprintf("%s.categories[%d]", at, i), "must not be empty")
			}
			if slices.Index(p.Categories, c) < i {
				v.add(fmt.Sprintf("%s.categories[%d]", at, i), "%q is listed twice", c)
			}
		}
	} else if len(p.Categories) > 0 {
		v.add(at+".categories", "only a categorical or ordinal parameter has categories")
	}
	if len(*v) > before {
		return
	}
	if p.Default.IsZero() {
		v.add(at+".default_value", "is required")
	} else if fault := p.fault(p.Default); fault != "" {
		v.add(at+".default_value", "%s", fault)
	}
	for i, x := range p.Default.nums {
		if fault := p.numberFault(x); fault != "" {
			v.add(fmt.Sprintf("%s.default_value[%d]", at, i), "%s", fault)
		}
	}
}

// checkRange checks the numbers of a numeric parameter.
func (p *Param) checkRange(at string, v *Violations) {
	before := len(*v)
	for _, f := range []struct {
		name  string
		value float64
	}{{"min_value", p.Min}, {"max_value", p.Max}, {"step", p.Step}} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			v.add(at+"."+f.name, "must be finite")
		} else if p.Kind == KindInt && (f.value != math.Trunc(f.value) || math.Abs(f.value) >= maxLevels) {
			v.add(at+"."+f.name, "%s must be a whole number below 2^53", formatNumber(f.value))
		}
	}
	if len(*v) > before {
		return
	}
	if p.Max < p.Min {
		v.add(at+".max_value", "%s is below min_value %s", formatNumber(p.Max), formatNumber(p.Min))
		return
	}
	if math.IsInf(p.Max-p.Min, 0) {
		v.add(at+".max_value", "max_value - min_value is not a finite number")
		return
	}
	if p.Log && p.Min <= 0 {
		v.add(at+".min_value", "%s must be above 0 on a log scale", formatNumber(p.Min))
	}
	if p.Step < 0 {
		v.add(at+".step", "must not be negative")
	} else if step := p.grid(); step > 0 {
		n := (p.Max - p.Min) / step
		if n >= maxLevels || p.Kind != KindInt && step < 1e-11*max(math.Abs(p.Min), math.Abs(p.Max)) {
			v.add(at+".step", "%s is too small for the range", formatNumber(step))
		} else if math.Abs(n-math.Round(n)) > min(1e-9*n, 1e-3) {
			v.add(at+".step", "%s does not divide max_value - min_value = %s",
				formatNumber(step), formatNumber(p.Max-p.Min))
		}
	}
	if p.Array != nil && len(p.Special) > 0 {
		v.add(at+".special_values", "an array has none")
	}
	var weight float64
	for i, sp := range p.Special {
		field := fmt.Sprintf("%s.special_values[%d]", at, i)
		switch {
		case math.IsNaN(sp.Value) || math.IsInf(sp.Value, 0):
			v.add(field+".value", "must be finite")
		case sp.Value >= p.Min && sp.Value <= p.Max:
			v.add(field+".value", "%s is inside the range", formatNumber(sp.Value))
		case p.special(sp.Value) != &p.Special[i]:
			v.add(field+".value", "%s is listed twice", formatNumber(sp.Value))
		}
		if !(sp.Weight > 0 && sp.Weight < 1) {
			v.add(field+".weight", "%s must be above 0 and below 1", formatNumber(sp.Weight))
		}
		weight += sp.Weight
	}
	if weight > 0.95 {
		v.add(at+".special_values", "weights add up to %s, which leaves less than 0.05 to the range",
			formatNumber(weight))
	}
}

// checkArray returns the index of the parameter that determines array i's length.
func (s *Space) checkArray(i int, at string, v *Violations) int {
	a := s.params[i].Array
	if a == nil {
		return -1
	}
	if a.Max < 1 || a.Max > 256 {
		v.add(at+".max_length", "%d must be from 1 to 256", a.Max)
	}
	l, ok := s.index[a.Length]
	if !ok {
		v.add(at+".length", "there is no parameter %q", a.Length)
		return -1
	}
	p := &s.params[l]
	if p.Kind != KindInt || p.Array != nil || len(p.Special) > 0 {
		v.add(at+".length", "%q must be a single integer without special values", a.Length)
		return -1
	}
	if p.Min+float64(a.Offset) < 0 || p.Max+float64(a.Offset) > float64(a.Max) {
		v.add(at+".max_length", "lengths from %s to %s do not fit in 0 to %d",
			formatNumber(p.Min+float64(a.Offset)), formatNumber(p.Max+float64(a.Offset)), a.Max)
	}
	return l
}

func (s *Space) checkActivation(r *Rule, at string, v *Violations) {
	a := r.Activation
	i, ok := s.index[a.Param]
	if !ok {
		v.add(at+".param", "there is no parameter %q", a.Param)
	}
	c := a.condition()
	on, sound := s.checkCondition(&c, at, "when", v)
	if !ok || !sound {
		return
	}
	a.Value = c.Value
	s.active[i] = append(s.active[i], condition{Condition: c, on: on, rule: r})
}

func (s *Space) checkForbidden(f *Forbidden, at string, v *Violations) {
	if len(f.All) == 0 {
		v.add(at+".all", "at least one condition is needed")
	}
	if len(f.All) > maxEntries {
		v.add(at+".all", "%d are too many, want at most %d", len(f.All), maxEntries)
		return
	}
	for k := range f.All {
		s.checkCondition(&f.All[k], fmt.Sprintf("%s.all[%d]", at, k), "param", v)
	}
}

func (s *Space) checkOrdering(rule int, ordered map[string]int, at string, v *Violations) {
	o := s.rules[rule].Ordering
	before := len(*v)
	if bad := o.MinGap; math.IsNaN(bad) || math.IsInf(bad, 0) || bad < 0 {
		v.add(at+".min_gap", "must be finite and not negative")
	}
	if bad := o.MinRatio; math.IsNaN(bad) || math.IsInf(bad, 0) || bad != 0 && bad < 1 {
		v.add(at+".min_ratio", "must be finite and at least 1")
	}
	var chain []*Param
	for k, id := range o.Params {
		field := fmt.Sprintf("%s.params[%d]", at, k)
		i, ok := s.index[id]
		if !ok {
			v.add(field, "there is no parameter %q", id)
			continue
		}
		if first, twice := ordered[id]; twice {
			v.add(field, "%q is already ordered by rules[%d]", id, first)
			continue
		}
		ordered[id] = rule
		p := &s.params[i]
		switch {
		case !p.Kind.numeric():
			v.add(field, "%q is %s and cannot be ordered", id, p.Kind)
		case len(p.Special) > 0:
			v.add(field, "%q has special values and cannot be ordered", id)
		case p.Array != nil && len(o.Params) > 1:
			v.add(field, "an array is ordered on its own")
		case o.MinRatio > 1 && p.Min <= 0:
			v.add(field, "min_ratio needs %q above 0", id)
		}
		chain = append(chain, p)
		if p.Array != nil && len(o.Params) == 1 {
			chain = slices.Repeat(chain, min(max(p.Array.Max, 1), 256))
		}
	}
	if len(chain) < 2 && (len(chain) == 0 || chain[0].Array == nil) {
		v.add(at+".params", "want one array or at least two single parameters")
	}
	if len(*v) > before || slices.ContainsFunc(chain,
		func(p *Param) bool { return !(p.Max >= p.Min) || p.levelsUnsound() }) {
		return
	}
	ceiling := make([]float64, len(chain))
	if !o.ceilings(ceiling, chain, false) {
		v.add(at, "there is no room: %d values cannot increase within %s", len(chain), chain[0].Range())
	}
}

// levelsUnsound reports whether the grid of p is invalid, as reported before, and
// cannot be counted.
func (p *Param) levelsUnsound() bool {
	return p.grid() < 0 || p.grid() > 0 && !((p.Max-p.Min)/p.grid() < maxLevels)
}
