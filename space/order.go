package space

import (
	"fmt"
	"strings"
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
		for _, n := range s.needs(units[u]) {
			if !settled[unitOf[n.on]] {
				return false
			}
		}
		return true
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

// need is a dependency of a parameter on another.
type need struct {
	param, on int
	rule      *Rule // nil: the array's length
}

// needs returns the dependencies of a unit's parameters.
func (s *Space) needs(u unit) (out []need) {
	for _, i := range u.params {
		if l := s.length[i]; l >= 0 {
			out = append(out, need{i, l, nil})
		}
		for _, c := range s.active[i] {
			out = append(out, need{i, c.on, c.rule})
		}
	}
	return out
}

// reportCycles reports, for each parameter that depends on itself, a shortest cycle.
func (s *Space) reportCycles(units []unit, unitOf []int, settled []bool, v *Violations) {
	for start := range units {
		if settled[start] {
			continue
		}
		// Breadth-first search from start until it reaches start again. by holds the
		// dependency by which a unit was reached.
		by := make([]*need, len(units))
		from := make([]int, len(units))
		queue := []int{start}
		for len(queue) > 0 && by[start] == nil {
			u := queue[0]
			queue = queue[1:]
			for _, n := range s.needs(units[u]) {
				if w := unitOf[n.on]; !settled[w] && by[w] == nil {
					by[w], from[w] = &n, u
					queue = append(queue, w)
				}
			}
		}
		if by[start] == nil {
			continue // it depends on a cycle that is reported elsewhere
		}
		var steps []need
		for u := start; ; {
			steps = append(steps, *by[u])
			if u = from[u]; u == start {
				break
			}
		}
		// The steps are in reverse order.
		var text []string
		for k := len(steps) - 1; k >= 0; k-- {
			text = append(text, s.needText(steps[k]))
			next := steps[len(steps)-1]
			if k > 0 {
				next = steps[k-1]
			}
			if at := steps[k].on; at != next.param {
				text = append(text, fmt.Sprintf("%s is ordered with %s (rule %s)",
					s.params[at].ID, s.params[next.param].ID,
					units[unitOf[at]].ordering.ID))
			}
		}
		i := steps[len(steps)-1].param
		v.add(fmt.Sprintf("parameters[%d]", i), "%q depends on itself: %s", s.params[i].ID, strings.Join(text, ", "))
	}
}

func (s *Space) needText(n need) string {
	if n.rule == nil {
		return fmt.Sprintf("%s has the length of %s", s.params[n.param].ID, s.params[n.on].ID)
	}
	return fmt.Sprintf("%s needs %s (rule %s)", s.params[n.param].ID, s.params[n.on].ID, n.rule.ID)
}
