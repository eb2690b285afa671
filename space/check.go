package space

import "fmt"

// Check says everything that is wrong with a configuration, as a [Violations];
// nil if it is valid. It never changes or completes anything and shares with
// Project only the comparisons of values and rules, so that it can stand guard
// over what Project made: nothing that Check refuses may leave the process.
func (s *Space) Check(c Config) error {
	var v Violations
	if c.space == nil {
		v.add("configuration", "is empty")
		return v
	}
	if c.space != s {
		// Another space's configuration is judged by the names of its values.
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
	return v.err()
}

// checkOrder checks one ordering over the values that are sound by themselves.
func (s *Space) checkOrder(r *Rule, values []Value, sound []bool, v *Violations) {
	prevField, prev, any := "", 0.0, false
	step := func(field string, x float64) {
		if any && !r.Ordering.allows(prev, x) {
			v.add(field, "%s must be above %s = %s%s (rule %s)", formatNumber(x), prevField, formatNumber(prev), r.Ordering.margin(), r.ID)
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

// margin describes how far apart an ordering keeps its values.
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

// activeWhen describes what parameter i needs to exist.
func (s *Space) activeWhen(i int) string {
	out := ""
	for _, c := range s.active[i] {
		a := c.rule.Activation
		if out == "" {
			out = ": it needs "
		} else {
			out += " and "
		}
		if a.Op == In {
			out += fmt.Sprintf("%s in %v", a.When, a.Values)
		} else {
			out += fmt.Sprintf("%s %s %s", a.When, a.Op, a.Value)
		}
	}
	return out
}
