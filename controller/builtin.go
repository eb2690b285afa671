package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/autosched/autosched/space"
)

// Builtin is a kind of scheduler that can be registered.
type Builtin struct {
	Name   string
	Params []space.Param
	Rules  []space.Rule
	// Site, if set, returns the widest range of a parameter that a site may add, or open beyond Params.
	Site func(id string) (space.Param, bool)
	// Alone says that a registration which names parameters has no others.
	Alone bool
}

// Narrow replaces built-in parameters by narrower ones and adds rules. Fields
// of the violations count within the given ones: parameters[0].min_value is of
// params[0]. Whether the result is a valid space is for space.New to check.
func (b *Builtin) Narrow(params []space.Param, rules []space.Rule) ([]space.Param, []space.Rule, space.Violations) {
	var v space.Violations
	merged, own := slices.Clone(b.Params), slices.Clone(b.Rules)
	if b.Alone && len(params) > 0 {
		has := func(id string) bool {
			return slices.ContainsFunc(params, func(p space.Param) bool { return p.ID == id })
		}
		merged = slices.DeleteFunc(merged, func(p space.Param) bool { return !has(p.ID) })
		own = slices.DeleteFunc(own, func(r space.Rule) bool {
			return slices.ContainsFunc(r.Params(), func(id string) bool { return !has(id) })
		})
	}
	for i, p := range params {
		at := slices.IndexFunc(merged, func(q space.Param) bool { return q.ID == p.ID })
		field := fmt.Sprintf("parameters[%d]", i)
		if at < 0 && b.Site != nil {
			if outer, may := b.Site(p.ID); may {
				v = append(v, beyond(&outer, &p, field)...)
				merged = append(merged, inherit(&outer, p))
				continue
			}
		}
		if at < 0 {
			ids := make([]string, len(b.Params))
			for k := range b.Params {
				ids[k] = b.Params[k].ID
			}
			v = append(v, space.Violation{Field: field + ".id",
				Description: fmt.Sprintf("%s has no parameter %q, only %s",
					b.Name, p.ID, strings.Join(ids, ", "))})
			continue
		}
		if slices.ContainsFunc(params[:i], func(q space.Param) bool { return q.ID == p.ID }) {
			v = append(v, space.Violation{Field: field + ".id", Description: fmt.Sprintf("%q is listed twice", p.ID)})
			continue
		}
		outer := merged[at]
		if b.Site != nil {
			if wide, may := b.Site(p.ID); may {
				outer = wide
			}
		}
		v = append(v, beyond(&outer, &p, field)...)
		merged[at] = inherit(&outer, p)
	}
	return merged, append(own, rules...), v
}

// inherit fills in the fields that a narrower parameter leaves open.
func inherit(outer *space.Param, p space.Param) space.Param {
	if p.Module == "" {
		p.Module = outer.Module
	}
	if p.Unit == "" {
		p.Unit = outer.Unit
	}
	if p.Description == "" {
		p.Description = outer.Description
	}
	if p.Step == 0 {
		p.Step = outer.Step
	}
	return p
}

// beyond says where a parameter goes beyond the built-in one.
func beyond(outer, p *space.Param, field string) (v space.Violations) {
	add := func(name, format string, args ...any) {
		v = append(v, space.Violation{Field: field + name, Description: fmt.Sprintf(format, args...)})
	}
	if p.Kind != outer.Kind || (p.Array == nil) != (outer.Array == nil) {
		add(".kind", "%s is %s, %s", p.ID, kindName(outer), outer.Range())
		return v
	}
	if p.Min < outer.Min {
		add(".min_value", "%v is below the built-in range, %s", p.Min, outer.Range())
	}
	if p.Max > outer.Max {
		add(".max_value", "%v is above the built-in range, %s", p.Max, outer.Range())
	}
	for k, c := range p.Categories {
		if !slices.Contains(outer.Categories, c) {
			add(fmt.Sprintf(".categories[%d]", k), "%q is not %s", c, outer.Range())
		}
	}
	if p.Kind == space.KindOrdinal && !slices.IsSortedFunc(p.Categories,
		func(a, b string) int { return slices.Index(outer.Categories, a) - slices.Index(outer.Categories, b) }) {
		add(".categories", "are not in the built-in order, %s", outer.Range())
	}
	for k, s := range p.Special {
		if !slices.ContainsFunc(outer.Special, func(o space.Special) bool { return o.Value == s.Value }) {
			add(fmt.Sprintf(".special_values[%d].value", k), "%v has no meaning of its own, want %s",
				s.Value, outer.Range())
		}
	}
	if p.Array != nil {
		if p.Array.Length != outer.Array.Length || p.Array.Offset != outer.Array.Offset {
			add(".array.length", "the length is that of the built-in: %s%+d", outer.Array.Length, outer.Array.Offset)
		}
		if p.Array.Max > outer.Array.Max {
			add(".array.max_length", "%d is above the built-in's %d", p.Array.Max, outer.Array.Max)
		}
	}
	return v
}

func kindName(p *space.Param) string {
	if p.Array != nil {
		return "an array of " + p.Kind.String()
	}
	return p.Kind.String()
}
