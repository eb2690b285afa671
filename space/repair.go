package space

import (
	"cmp"
	"slices"
)

// Linear and forbidden rules span several units, so they are applied to settled
// values, and every repair settles the values again.

const (
	// maxRepairs is the number of times each rule is applied: a linear rule once
	// alone, then with each margin, the last of which reaches the defaults. If the
	// rule is broken after that, a rule of another kind undoes the repair.
	maxRepairs = 1 + len(margins)
	// maxSettles bounds the repairs of all rules together, for specifications with
	// hundreds of rules.
	maxSettles = 200
)

// firstBroken returns the first linear or forbidden rule that values break, or -1.
func (s *Space) firstBroken(values []Value) int {
	for _, r := range s.across {
		if !s.obeys(&s.rules[r], values) {
			return r
		}
	}
	return -1
}

// repair makes settled values obey all rules; broken is the first rule that they
// break.
func (s *Space) repair(raw, values []Value, why []string, broken int) ([]Value, []string) {
	if out, reasons, ok := s.applyBroken(raw, values, why, broken); ok {
		return out, reasons
	}
	// The repairs undo each other: reset the parameters that a broken rule depends on
	// to their defaults, then those of the rules that this breaks, and so on.
	kept := slices.Clone(raw)
	values, why = s.settle(raw)
	for range s.across {
		r := s.firstBroken(values)
		if r < 0 {
			return values, why
		}
		for _, i := range s.dependencies(&s.rules[r]) {
			kept[i] = s.params[i].Default
		}
		values, why = s.settle(kept)
		for i := range values {
			if why[i] == "" && !values[i].Equal(raw[i]) {
				why[i] = s.rules[r].ID
			}
		}
	}
	r := s.firstBroken(values)
	if r < 0 {
		return values, why
	}
	for i := range why {
		why[i] = s.rules[r].ID
	}
	return slices.Clone(s.initial.values), why
}

// applyBroken applies broken rules one after another until none is broken; ok is
// false if the attempts run out or a forbidden combination has no escape.
func (s *Space) applyBroken(raw, values []Value, why []string, broken int) (out []Value, reasons []string, ok bool) {
	attempts := make([]int, len(s.rules))
	by := make([]string, len(s.params)) // rule that changed the value
	current := slices.Clone(raw)
	for range min(maxRepairs*len(s.across), maxSettles) {
		r := &s.rules[broken]
		moved := slices.Clone(values)
		if n := attempts[broken]; r.Linear != nil {
			// A rule that is broken again conflicts with another: move the values of both.
			if n == 0 || !s.lowerAll(moved, n-1) {
				s.lower(r.Linear, moved, n)
			}
		} else if !s.evade(r.Forbidden, moved, attempts[broken]) {
			return nil, nil, false
		}
		attempts[broken]++
		for i := range moved {
			if !moved[i].Equal(values[i]) {
				by[i] = r.ID
			}
			if !moved[i].IsZero() { // inactive parameters may become active again
				current[i] = moved[i]
			}
		}
		var last []string
		values, last = s.settle(current)
		if broken = s.firstBroken(values); broken < 0 {
			for i := range by {
				by[i] = cmp.Or(by[i], why[i], last[i])
			}
			return values, by, true
		}
	}
	return nil, nil, false
}

// evade changes a value so that a condition of the combination no longer holds: the
// attempt-th changeable condition, from the last one, cyclically. It returns false
// if none is changeable.
func (s *Space) evade(f *Forbidden, values []Value, attempt int) bool {
	var choices []int
	for k := len(f.All) - 1; k >= 0; k-- {
		c := &f.All[k]
		i := s.index[c.Param]
		if _, ok := c.escape(&s.params[i], values[i]); ok {
			choices = append(choices, k)
		}
	}
	if len(choices) == 0 {
		return false
	}
	c := &f.All[choices[attempt%len(choices)]]
	i := s.index[c.Param]
	values[i], _ = c.escape(&s.params[i], values[i])
	return true
}

// dependencies returns the parameters of a linear or forbidden rule and those that
// determine their activity, length or ordering.
func (s *Space) dependencies(r *Rule) []int {
	var out []int
	listed := make([]bool, len(s.params))
	var add func(i int)
	add = func(i int) {
		if listed[i] {
			return
		}
		listed[i] = true
		out = append(out, i)
		if s.length[i] >= 0 {
			add(s.length[i])
		}
		for _, c := range s.active[i] {
			add(c.on)
		}
		if o := s.orderingOf(i); o != nil {
			for _, id := range o.Params {
				add(s.index[id])
			}
		}
	}
	if r.Linear != nil {
		for _, t := range r.Linear.Terms {
			add(s.index[t.Param])
		}
	} else {
		for _, c := range r.Forbidden.All {
			add(s.index[c.Param])
		}
	}
	return out
}
