package space

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Difference is a difference between two configurations or two spaces. An empty text
// means that one side lacks the field.
type Difference struct {
	// Field is a parameter's id for configurations; for spaces it is a path by name,
	// such as queues.max_value or rules.not_both.
	Field string `json:"field"`
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

// DiffSpaces returns the differences of two specifications, parameters before rules.
// The order of parameters and rules does not count.
func DiffSpaces(a, b *Space) []Difference {
	var out []Difference
	each := func(prefix string, x, y map[string]any, order []string) {
		for _, field := range order {
			from, to := fieldText(x[field]), fieldText(y[field])
			if from != to {
				out = append(out, Difference{prefix + field, from, to})
			}
		}
	}
	for _, id := range union(a.ids(), b.ids()) {
		p, had := a.Param(id)
		q, has := b.Param(id)
		switch {
		case !has:
			out = append(out, Difference{id, p.Range(), ""})
		case !had:
			out = append(out, Difference{id, "", q.Range()})
		default:
			each(id+".", fieldsOf(p), fieldsOf(q), paramFields[1:])
		}
	}
	rules := func(s *Space) (ids []string, by map[string]Rule) {
		by = map[string]Rule{}
		for _, r := range s.rules {
			ids, by[r.ID] = append(ids, r.ID), r
		}
		return ids, by
	}
	idsA, rulesA := rules(a)
	idsB, rulesB := rules(b)
	for _, id := range union(idsA, idsB) {
		x, had := rulesA[id]
		y, has := rulesB[id]
		if from, to := x.String(), y.String(); !had || !has || from != to ||
			fieldText(fieldsOf(x)) != fieldText(fieldsOf(y)) {
			if had && has && from == to {
				from, to = x.Description, y.Description
			}
			out = append(out, Difference{"rules." + id, from, to})
		}
	}
	return out
}

// union returns a followed by the elements that only b has.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(a, x) {
			out = append(out, x)
		}
	}
	return out
}

// fieldsOf returns the fields of a parameter or rule by JSON name.
func fieldsOf(x any) map[string]any {
	b, err := json.Marshal(x)
	if err != nil {
		panic("space: a checked specification does not marshal: " + err.Error())
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		panic("space: a specification does not read back: " + err.Error())
	}
	return out
}

func fieldText(x any) string {
	switch x := x.(type) {
	case nil:
		return ""
	case string:
		return x
	case float64:
		return formatNumber(x)
	}
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Sprint(x)
	}
	return string(b)
}
