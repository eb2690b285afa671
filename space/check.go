package space

import "fmt"

// Check returns a [Violations] with everything that is wrong with a configuration,
// or nil if it is valid. It never changes or completes anything. It shares with
// [Space.Project] only the comparisons of values and rules, so that it guards what
// Project returns: no configuration that Check refuses may leave the process.
func (s *Space) Check(c Config) error {
	var v Violations
	if c.space == nil {
		v.add("configuration", "is empty")
		return v
	}
	if c.space != s {
		// The names in a configuration of another space may be unknown here.
		for _, id := range c.IDs() {
			if _, ok := s.index[id]; !ok {
				v.add(id, "there is no such parameter")
			}
		}
	}
	values := make([]Value, len(s.params))
	for i := range s.params {
		values[i] = c.Get(s.params[i].ID)
	}
	sound := make([]bool, len(s.params))
	for i := range s.params {
		p, x := &s.params[i], values[i]
		active := s.isActive(i, values)
		switch {
		case active && x.IsZero():
			v.add(p.ID, "is missing, want %s", p.Range())
			continue
		case !active && !x.IsZero():
			v.add(p.ID, "is not active%s", s.activeWhen(i))
			continue
		case !active:
			continue
		}
		if fault := p.fault(x); fault != "" {
			v.add(p.ID, "%s", fault)
			continue
		}
		sound[i] = true
		if p.Array == nil {
			continue
		}
		for k, e := range x.nums {
			if fault := p.numberFault(e); fault != "" {
				v.add(fmt.Sprintf("%s[%d]", p.ID, k), "%s", fault)
				sound[i] = false
			}
		}
		length := &s.params[s.length[i]]
		if length.fault(values[s.length[i]]) == "" {
			if want := s.arrayLength(i, values); len(x.nums) != want {
				v.add(p.ID, "has %d values, want %d (%s is %s)", len(x.nums), want, length.ID, values[s.length[i]])
			}
		}
	}
	for r := range s.rules {
		if s.rules[r].Ordering != nil {
			s.checkOrder(&s.rules[r], values, sound, &v)
		}
	}
	if len(v) == 0 { // sums and combinations of invalid values are meaningless
		for _, r := range s.across {
			s.checkAcross(&s.rules[r], values, &v)
		}
	}
	return v.err()
}

// checkAcross checks one linear or forbidden rule on valid values.
func (s *Space) checkAcross(r *Rule, values []Value, v *Violations) {
	if s.obeys(r, values) {
		return
	}
	if l := r.Linear; l != nil {
		sum, _ := s.sum(l, values)
		v.add(l.Terms[0].Param, "%s is broken: the sum is %s (rule %s)",
			l, formatNumber(roundDigits(sum, maxDigits)), r.ID)
		return
	}
	v.add(r.Forbidden.All[len(r.Forbidden.All)-1].Param, "%s is forbidden (rule %s)", r.Forbidden, r.ID)
}

// obeys reports whether values obey a linear or forbidden rule.
func (s *Space) obeys(r *Rule, values []Value) bool {
	if r.Linear != nil {
		return s.fits(r.Linear, values)
	}
	for k := range r.Forbidden.All {
		c := &r.Forbidden.All[k]
		if i := s.index[c.Param]; !c.holds(&s.params[i], values[i]) {
			return true
		}
	}
	return false
}

// checkOrder checks one ordering on the values that are valid by themselves.
func (s *Space) checkOrder(r *Rule, values []Value, sound []bool, v *Violations) {
	prevField, prev, any := "", 0.0, false
	step := func(field string, x float64) {
		if any && !r.Ordering.allows(prev, x) {
			v.add(field, "%s must be above %s = %s%s (rule %s)", formatNumber(x), prevField, formatNumber(prev),
				r.Ordering.margin(), r.ID)
		}
		prevField, prev, any = field, x, true
	}
	for _, id := range r.Ordering.Params {
		i := s.index[id]
		if !sound[i] {
			continue
		}
		if s.params[i].Array == nil {
			step(id, values[i].num)
			continue
		}
		for k, x := range values[i].nums {
			step(fmt.Sprintf("%s[%d]", id, k), x)
		}
	}
}

// margin describes the minimum distance of an ordering's values.
func (o *Ordering) margin() string {
	switch {
	case o.MinRatio > 1 && o.MinGap > 0:
		return fmt.Sprintf(" by a factor of %s and by %s", formatNumber(o.MinRatio), formatNumber(o.MinGap))
	case o.MinRatio > 1:
		return fmt.Sprintf(" by a factor of %s", formatNumber(o.MinRatio))
	case o.MinGap > 0:
		return fmt.Sprintf(" by %s", formatNumber(o.MinGap))
	}
	return ""
}

// activeWhen describes the conditions under which parameter i is active.
func (s *Space) activeWhen(i int) string {
	out := ""
	for _, c := range s.active[i] {
		if out == "" {
			out = ": it needs "
		} else {
			out += " and "
		}
		out += c.text()
	}
	return out
}
