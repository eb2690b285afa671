package space

import (
	"cmp"
	"slices"
)

// Linear and forbidden rules span parameters that are settled one by one, so they
// are applied after everything else, and everything else again after them.

const (
	// maxRepairs bounds how often each rule is applied: a linear rule once alone and
	// then with each of the margins, the last of which is the defaults. If the rule is
	// still broken after that, another kind of rule undoes the repair.
	maxRepairs = 1 + len(margins)
	// maxSettles bounds the repairs of all rules together, for specifications with
	// hundreds of them.
	maxSettles = 200
)

// firstBroken returns the first linear or forbidden rule that values break, -1
// if there is none.
func (s *Space) firstBroken(values []Value) int {
	for _, r := range s.across {
		if !s.obeys(&s.rules[r], values) {
			return r
		}
	}
	return -1
}

// repair makes settled values obey the rules from the broken one on.
func (s *Space) repair(raw, values []Value, why []string, broken int) ([]Value, []string) {
	if out, reasons, ok := s.mend(raw, values, why, broken); ok {
		return out, reasons
	}
	// The repairs undo each other: reset the parameters that a broken rule names to
	// their defaults, then those of the rules which that breaks, and so on.
	kept := slices.Clone(raw)
	values, why = s.settle(raw)
	for range s.across {
		r := s.firstBroken(values)
		if r < 0 {
			return values, why
		}
		for _, i := range s.named(&s.rules[r]) {
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

// mend applies broken rules one after the other until none is broken; ok is false
// if the attempts run out.
func (s *Space) mend(raw, values []Value, why []string, broken int) (out []Value, reasons []string, ok bool) {
	attempts := make([]int, len(s.rules))
	by := make([]string, len(s.params)) // the rule that moved a value
	current := slices.Clone(raw)
	for range min(maxRepairs*len(s.across), maxSettles) {
		r := &s.rules[broken]
		moved := slices.Clone(values)
		if n := attempts[broken]; r.Linear != nil {
			// A rule that is broken again conflicts with another: move both.
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

// evade changes a value so that one condition of the combination no longer holds:
// the attempt-th that can be changed, from the last on.
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

// named lists the parameters of a linear or forbidden rule and those whose
// values decide whether they exist, how long they are or where they may lie.
func (s *Space) named(r *Rule) []int {
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
