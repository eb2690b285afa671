package space

import "slices"

// Finite reports whether the space has finitely many configurations: every parameter
// has a step, a list, or a single value.
func (s *Space) Finite() bool {
	return !slices.ContainsFunc(s.dims, func(d Dim) bool { return d.Levels == 0 })
}

// Enumerate returns every configuration of a finite space once, in the order of the
// parameters' levels; the last parameter in dependency order changes fastest. Inactive
// parameters are not varied, so all hashes are distinct. complete is false, and the list
// partial, if there are more than limit or if the search takes more than 100 steps per
// configuration of the limit; an infinite space returns nil, false.
func (s *Space) Enumerate(limit int) (all []Config, complete bool) {
	if !s.Finite() {
		return nil, false
	}
	steps := 100 * (limit + 100)
	complete = true
	s.enumerate(func(c Config) bool {
		if len(all) == limit {
			complete = false
			return false
		}
		all = append(all, c)
		return true
	}, func() bool {
		steps--
		complete = complete && steps > 0
		return complete
	})
	return all, complete
}

// enumerator visits the configurations depth first.
type enumerator struct {
	space  *Space
	values []Value
	due    [][]int // by unit: rules whose parameters are all set once the unit is
	yield  func(Config) bool
	step   func() bool
}

// enumerate yields configurations until either function returns false. It calls step
// for every value tried.
func (s *Space) enumerate(yield func(Config) bool, step func() bool) {
	e := &enumerator{space: s, values: make([]Value, len(s.params)), due: make([][]int, len(s.units)), yield: yield,
		step: step}
	unitOf := make([]int, len(s.params))
	for u := range s.units {
		for _, i := range s.units[u].params {
			unitOf[i] = u
		}
	}
	for _, r := range s.across {
		last := 0
		if l := s.rules[r].Linear; l != nil {
			for _, t := range l.Terms {
				last = max(last, unitOf[s.index[t.Param]])
			}
		} else {
			for _, c := range s.rules[r].Forbidden.All {
				last = max(last, unitOf[s.index[c.Param]])
			}
		}
		e.due[last] = append(e.due[last], r)
	}
	e.unit(0)
}

// slot is one value or array element to set.
type slot struct {
	param, element int // element is -1 for a single value
}

// unit sets the values of unit u and of those after it in every possible way. It
// returns false to stop.
func (e *enumerator) unit(u int) bool {
	s := e.space
	if u == len(s.units) {
		return e.yield(Config{space: s, values: cloneValues(e.values)})
	}
	var slots []slot
	var chain []*Param
	for _, i := range s.units[u].params {
		e.values[i] = Value{}
		if !s.isActive(i, e.values) {
			continue
		}
		if s.params[i].Array == nil {
			slots, chain = append(slots, slot{i, -1}), append(chain, &s.params[i])
			continue
		}
		n := s.arrayLength(i, e.values)
		e.values[i] = Value{kind: listValue, nums: make([]float64, n)}
		for k := range n {
			slots, chain = append(slots, slot{i, k}), append(chain, &s.params[i])
		}
	}
	var o *Ordering
	var ceilings []float64
	if r := s.units[u].ordering; r != nil && len(slots) > 1 {
		o, ceilings = r.Ordering, make([]float64, len(slots))
		o.ceilings(ceilings, chain, false)
	}
	return e.slot(u, slots, 0, o, ceilings)
}

// slot sets slots k and later of a unit in every possible way. It returns false to
// stop.
func (e *enumerator) slot(u int, slots []slot, k int, o *Ordering, ceilings []float64) bool {
	s := e.space
	if k == len(slots) {
		for _, r := range e.due[u] {
			if !s.obeys(&s.rules[r], e.values) {
				return true
			}
		}
		return e.unit(u + 1)
	}
	at := slots[k]
	p := &s.params[at.param]
	set := func(v Value) bool {
		if !e.step() {
			return false
		}
		if at.element >= 0 {
			e.values[at.param].nums[at.element] = v.num
		} else {
			e.values[at.param] = v
		}
		return e.slot(u, slots, k+1, o, ceilings)
	}
	switch {
	case p.Kind == KindBool:
		return set(Bool(false)) && set(Bool(true))
	case p.Kind.named():
		for _, c := range p.Categories {
			if !set(Text(c)) {
				return false
			}
		}
		return true
	}
	for _, x := range p.Special {
		if !set(Num(x.Value)) {
			return false
		}
	}
	first, n := 0, p.count()
	if o != nil && k > 0 {
		first = p.place(o.lowest(p, e.number(slots[k-1])))
	}
	for l := first; l < n; l++ {
		x := p.level(l)
		if o != nil && (x > ceilings[k] || k > 0 && !o.allows(e.number(slots[k-1]), x)) {
			break
		}
		if !set(Num(x)) {
			return false
		}
	}
	return true
}

// number returns the value in a slot of an ordering.
func (e *enumerator) number(at slot) float64 {
	if at.element >= 0 {
		return e.values[at.param].nums[at.element]
	}
	return e.values[at.param].num
}

// cloneValues copies values and their lists, which an enumerator modifies.
func cloneValues(values []Value) []Value {
	out := make([]Value, len(values))
	for i, v := range values {
		if v.kind == listValue {
			v.nums = append(make([]float64, 0, len(v.nums)), v.nums...)
		}
		out[i] = v
	}
	return out
}
