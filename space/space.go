package space

import "slices"

// Space is a valid list of parameters and rules. It is immutable and safe for
// concurrent use.
type Space struct {
	params []Param
	rules  []Rule

	index   map[string]int
	active  [][]condition // by parameter: conditions that must all hold
	ordered []bool        // by parameter: it has an ordering
	length  []int         // by parameter: index of the array's length parameter, -1 for none
	units   []unit        // in dependency order
	across  []int         // indices of linear and forbidden rules
	dims    []Dim
	initial Config
}

// condition is an activation's condition with the index of its parameter.
type condition struct {
	Condition
	on   int
	rule *Rule
}

// unit is a group of parameters that are set together: those of one ordering, or a
// single one.
type unit struct {
	params   []int
	ordering *Rule
}

// New checks a specification and returns its space. The error is a [Violations] that
// lists everything wrong with it.
func New(params []Param, rules []Rule) (*Space, error) {
	s := &Space{index: make(map[string]int, len(params))}
	for _, p := range params {
		p.Categories = slices.Clone(p.Categories)
		p.Special = slices.Clone(p.Special)
		for i := range p.Special {
			p.Special[i].Value = positiveZero(p.Special[i].Value)
			if p.Special[i].Weight == 0 {
				p.Special[i].Weight = defaultSpecialWeight
			}
		}
		if p.Array != nil {
			a := *p.Array
			p.Array = &a
		}
		p.Default = p.normalise(p.Default)
		s.params = append(s.params, p)
	}
	for _, r := range rules {
		s.rules = append(s.rules, r.clone())
	}
	if err := s.build(); err != nil {
		return nil, err
	}
	return s, nil
}

// Params returns the parameters in order. Slices and pointers in them belong to the
// space and must not be modified; the same holds for Rules and Param.
func (s *Space) Params() []Param { return slices.Clone(s.params) }

// Rules returns the rules in order.
func (s *Space) Rules() []Rule { return slices.Clone(s.rules) }

// Param returns the named parameter and whether it exists.
func (s *Space) Param(id string) (Param, bool) {
	i, ok := s.index[id]
	if !ok {
		return Param{}, false
	}
	return s.params[i], true
}

// Default returns the configuration of default values.
func (s *Space) Default() Config { return s.initial }

// isActive reports whether parameter i is active given the values set so far.
func (s *Space) isActive(i int, values []Value) bool {
	if l := s.length[i]; l >= 0 && values[l].IsZero() {
		return false
	}
	for _, c := range s.active[i] {
		if !c.holds(&s.params[c.on], values[c.on]) {
			return false
		}
	}
	return true
}

// arrayLength returns the required length of array i.
func (s *Space) arrayLength(i int, values []Value) int {
	a := s.params[i].Array
	return min(max(values[s.length[i]].Int()+a.Offset, 0), a.Max)
}
