package space

import (
	"fmt"
	"slices"
)

// order sorts the parameters topologically: each comes after those that its activity
// and length depend on. It reports cycles.
func (s *Space) order(v *Violations) bool {
	unitOf := make([]int, len(s.params))
	for i := range unitOf {
		unitOf[i] = -1
	}
	var units []unit
	s.ordered = make([]bool, len(s.params))
	for r := range s.rules {
		if o := s.rules[r].Ordering; o != nil {
			u := unit{ordering: &s.rules[r]}
			for _, id := range o.Params {
				u.params = append(u.params, s.index[id])
				unitOf[s.index[id]] = len(units)
				s.ordered[s.index[id]] = true
			}
			units = append(units, u)
		}
	}
	for i := range s.params {
		if unitOf[i] < 0 {
			unitOf[i] = len(units)
			units = append(units, unit{params: []int{i}})
		}
	}
	settled := make([]bool, len(units))
	ready := func(u int) bool {
		return !slices.ContainsFunc(s.needs(units[u]), func(n int) bool { return !settled[unitOf[n]] })
	}
	for len(s.units) < len(units) {
		u := 0
		for u < len(units) && (settled[u] || !ready(u)) {
			u++
		}
		if u == len(units) {
			s.reportCycles(units, unitOf, settled, v)
			return false
		}
		settled[u] = true
		s.units = append(s.units, units[u])
	}
	return true
}

// needs returns the parameters that those of a unit depend on.
func (s *Space) needs(u unit) (out []int) {
	for _, i := range u.params {
		if l := s.length[i]; l >= 0 {
			out = append(out, l)
		}
		for _, c := range s.active[i] {
			out = append(out, c.on)
		}
	}
	return out
}

// reportCycles reports each parameter that depends on itself.
func (s *Space) reportCycles(units []unit, unitOf []int, settled []bool, v *Violations) {
	for start := range units {
		if settled[start] {
			continue
		}
		reached := make([]bool, len(units))
		for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
			for _, n := range s.needs(units[queue[0]]) {
				if w := unitOf[n]; !settled[w] && !reached[w] {
					reached[w] = true
					queue = append(queue, w)
				}
			}
		}
		if reached[start] { // others depend on a cycle that is reported elsewhere
			i := units[start].params[0]
			v.add(fmt.Sprintf("parameters[%d]", i), "%q depends on itself, by activations, orderings or lengths",
				s.params[i].ID)
		}
	}
}
