package space

import "slices"

// Difference is a difference between two configurations. An empty text means that one side lacks the parameter.
type Difference struct {
	Field string `json:"field"` // the parameter's id
	From  string `json:"from"`
	To    string `json:"to"`
}

// DiffConfigs returns the parameters whose values differ: those of a's space in
// order, then those that only b has. Values are formatted for readers; an inactive
// parameter's text is empty.
func DiffConfigs(a, b Config) []Difference {
	var out []Difference
	ids := a.IDs()
	for _, id := range b.IDs() {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if a.space != nil { // space order, also for parameters that a lacks
		slices.SortStableFunc(ids, func(x, y string) int { return place(a.space, x) - place(a.space, y) })
	}
	for _, id := range ids {
		if !a.Get(id).Equal(b.Get(id)) {
			out = append(out, Difference{id, a.text(id), b.text(id)})
		}
	}
	return out
}

// place returns the index of a parameter in a space; unknown ones come last.
func place(s *Space, id string) int {
	if i, ok := s.index[id]; ok {
		return i
	}
	return len(s.params)
}

func (c Config) text(id string) string {
	if !c.Has(id) {
		return ""
	}
	p := &c.space.params[c.space.index[id]]
	if v := c.Get(id); v.kind != listValue {
		return p.Format(v)
	} else if len(v.nums) > 0 {
		return v.String()
	}
	return "none"
}
