package space

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Difference is one thing in which two configurations or two spaces differ. An
// empty text says that one of them has no such thing.
type Difference struct {
	// Field is a parameter's id of two configurations. Of two spaces it is a
	// path by name, such as queues.max_value or rules.not_both.
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// DiffConfigs lists the parameters whose values differ, in the order of a's
// space and then of what only b has. Values are as people write them; a
// parameter that is not active on one side has none there.
func DiffConfigs(a, b Config) []Difference {
	var out []Difference
	ids := a.IDs()
	for _, id := range b.IDs() {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if a.space != nil { // the order of the space also for what a has not
		slices.SortStableFunc(ids, func(x, y string) int { return place(a.space, x) - place(a.space, y) })
	}
	for _, id := range ids {
		if !a.Get(id).Equal(b.Get(id)) {
			out = append(out, Difference{id, a.text(id), b.text(id)})
		}
	}
	return out
}

// place is where a parameter stands in a space; unknown ones come last.
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

// DiffSpaces lists what two specifications say differently, parameters before
// rules. Only what may be set and what depends on what counts, not the order in
// which it is listed.
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

// union is a, then what only b has.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(a, x) {
			out = append(out, x)
		}
	}
	return out
}

// fieldsOf are the fields of a parameter or a rule by their names in JSON.
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
