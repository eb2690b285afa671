package space

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxDocument is the largest specification that Load accepts, in bytes: a thousand
// times the largest known one.
const MaxDocument = 4 << 20

// Load reads a specification from YAML or JSON and returns its space. Its fields are
// the JSON fields of [Param] and [Rule]. Numbers of duration parameters may be
// written as 10m or 2h, and special values by name:
//
//	parameters:
//	  - {id: queues, kind: int, min_value: 1, max_value: 6, default_value: 3}
//	  - id: starve_limit
//	    kind: duration
//	    min_value: 5m
//	    max_value: 12h
//	    special_values: [{value: 0, name: "off"}]
//	    default_value: "off"
//	rules:
//	  - id: starving_needs_queues
//	    activation: {param: starve_limit, when: queues, op: ">=", value: 2}
//	  - id: not_both
//	    forbidden:
//	      all:
//	        - {param: queues, op: "==", value: 6}
//	        - {param: starve_limit, op: "==", value: "off"}
//
// The error is a [Violations] that lists everything wrong with the document, with
// fields and lines. Unknown fields are errors.
func Load(text []byte) (*Space, error) {
	if len(text) > MaxDocument {
		return nil, Violations{{Field: "document", Description: fmt.Sprintf("is larger than %d MiB", MaxDocument>>20)}}
	}
	root, err := parseDocument(text)
	if err != nil {
		return nil, Violations{{Field: "document", Description: err.Error()}}
	}
	r := &specReader{lines: map[string]int{}}
	params, rules := r.document(root)
	s, err := New(params, rules)
	if found, ok := err.(Violations); ok {
		r.v.addAll(r.beside(found))
	}
	if len(r.v) > 0 {
		return nil, r.v.at(r.lines)
	}
	return s, nil
}

// beside drops violations that follow from parts that could not be read.
func (r *specReader) beside(found Violations) Violations {
	if len(r.v) == 0 {
		return found
	}
	unread := map[string]bool{}
	for _, v := range r.v {
		unread[part(v.Field)] = true
	}
	return slices.DeleteFunc(found, func(v Violation) bool {
		return part(v.Field) == v.Field || unread[part(v.Field)]
	})
}

// part returns the parameter or rule of a field path.
func part(field string) string {
	head, _, _ := strings.Cut(field, ".")
	return head
}

// at sets the lines of violations from their fields, or from the nearest enclosing
// field.
func (v Violations) at(lines map[string]int) Violations {
	for i := range v {
		for field := v[i].Field; field != "" && v[i].Line == 0; {
			v[i].Line = lines[field]
			field = field[:max(strings.LastIndexAny(field, ".["), 0)]
		}
	}
	return v
}

// specReader converts nodes to a specification and collects violations.
type specReader struct {
	v     Violations
	lines map[string]int // by field
}

// fields calls set for the fields of a table. set returns false for an unknown name.
func (r *specReader) fields(n *node, at string, known []string, set func(name, field string, n *node)) {
	r.lines[at] = n.line
	if n.kind != mapNode {
		r.v.add(at, "is %s, want a table of fields", n.kind)
		return
	}
	for i, name := range n.keys {
		field := name
		if !idPattern.MatchString(name) {
			field = strconv.Quote(name)
		}
		if at != "" {
			field = at + "." + field
		}
		r.lines[field] = n.items[i].line
		switch {
		case !slices.Contains(known, name):
			r.v.add(field, "there is no such field, want one of %s", strings.Join(known, ", "))
		case slices.Index(n.keys, name) < i:
			r.v.add(field, "is set twice")
		case n.items[i].kind == nullNode:
			// A null counts as absent.
		default:
			set(name, field, n.items[i])
		}
	}
}

// list calls each for the items of a list.
func (r *specReader) list(n *node, at string, each func(n *node, field string)) {
	if n.kind != listNode {
		r.v.add(at, "is %s, want a list", n.kind)
		return
	}
	if len(n.items) > maxEntries {
		r.v.add(at, "%d are too many, want at most %d", len(n.items), maxEntries)
		return
	}
	for i, item := range n.items {
		field := fmt.Sprintf("%s[%d]", at, i)
		r.lines[field] = item.line
		each(item, field)
	}
}

func (r *specReader) document(n *node) (params []Param, rules []Rule) {
	if n.kind != mapNode {
		r.v.add("document", "is %s, want the fields parameters and rules", n.kind)
		return nil, nil
	}
	r.fields(n, "", []string{"parameters", "rules"}, func(name, field string, n *node) {
		if name == "parameters" {
			r.list(n, field, func(n *node, field string) { params = append(params, r.param(n, field)) })
		} else {
			r.list(n, field, func(n *node, field string) { rules = append(rules, r.rule(n, field)) })
		}
	})
	if len(params) == 0 && len(r.v) == 0 {
		r.v.add("parameters", "at least one is needed")
	}
	return params, rules
}

var paramFields = []string{"id", "module", "unit", "description", "kind", "min_value", "max_value", "step", "log",
	"categories", "special_values", "array", "default_value"}

func (r *specReader) param(n *node, at string) (p Param) {
	// Read the kind first: it determines how numbers are parsed.
	kinded := false
	for i := range n.keys {
		if n.kind == mapNode && n.keys[i] == "kind" {
			kinded = true
			if err := p.Kind.UnmarshalText([]byte(n.items[i].text)); err != nil {
				r.v.add(at+".kind", "%s", strings.TrimPrefix(err.Error(), "space: "))
			}
		}
	}
	r.fields(n, at, paramFields, func(name, field string, n *node) {
		switch name {
		case "id":
			p.ID = r.text(n, field)
		case "module":
			p.Module = r.text(n, field)
		case "unit":
			p.Unit = r.text(n, field)
		case "description":
			p.Description = r.text(n, field)
		case "min_value":
			p.Min = r.number(n, field, &p)
		case "max_value":
			p.Max = r.number(n, field, &p)
		case "step":
			p.Step = r.number(n, field, &p)
		case "log":
			p.Log = r.bool(n, field)
		case "categories":
			r.list(n, field, func(n *node, field string) { p.Categories = append(p.Categories, r.text(n, field)) })
		case "special_values":
			r.list(n, field, func(n *node, field string) { p.Special = append(p.Special, r.special(n, field)) })
		case "array":
			p.Array = r.array(n, field)
		case "default_value":
			p.Default = r.value(n, field, &p)
		}
	})
	if !kinded && n.kind == mapNode {
		r.v.add(at+".kind", "is required: %s", strings.Join(kindNames, ", "))
	}
	return p
}

func (r *specReader) special(n *node, at string) (out Special) {
	r.fields(n, at, []string{"value", "name", "weight"}, func(name, field string, n *node) {
		switch name {
		case "value":
			out.Value = r.number(n, field, nil)
		case "name":
			out.Name = r.text(n, field)
		case "weight":
			out.Weight = r.number(n, field, nil)
		}
	})
	return out
}

func (r *specReader) array(n *node, at string) *Array {
	out := &Array{}
	r.fields(n, at, []string{"length", "offset", "max_length"}, func(name, field string, n *node) {
		switch name {
		case "length":
			out.Length = r.text(n, field)
		case "offset":
			out.Offset = r.int(n, field)
		case "max_length":
			out.Max = r.int(n, field)
		}
	})
	return out
}

func (r *specReader) rule(n *node, at string) (out Rule) {
	r.fields(n, at, []string{"id", "description", "activation", "ordering", "linear", "forbidden"},
		func(name, field string, n *node) {
			switch name {
			case "id":
				out.ID = r.text(n, field)
			case "description":
				out.Description = r.text(n, field)
			case "activation":
				a := &Activation{}
				c := r.condition(n, field, "when", func(name, field string, n *node) {
					a.Param = r.text(n, field)
				}, "param")
				a.When, a.Op, a.Value, a.Values = c.Param, c.Op, c.Value, c.Values
				out.Activation = a
			case "ordering":
				out.Ordering = r.ordering(n, field)
			case "linear":
				out.Linear = r.linear(n, field)
			case "forbidden":
				out.Forbidden = &Forbidden{}
				r.fields(n, field, []string{"all"}, func(_, field string, n *node) {
					r.list(n, field, func(n *node, field string) {
						out.Forbidden.All = append(out.Forbidden.All, r.condition(n, field, "param", nil))
					})
				})
			}
		})
	return out
}

// condition reads a comparison whose parameter is in the field named param; more
// handles the other fields.
func (r *specReader) condition(n *node, at, param string, more func(name, field string, n *node),
	others ...string) (c Condition) {
	r.fields(n, at, append(others, param, "op", "value", "values"), func(name, field string, n *node) {
		switch name {
		case param:
			c.Param = r.text(n, field)
		case "op":
			c.Op = Op(r.text(n, field))
		case "value":
			c.Value = r.value(n, field, nil)
		case "values":
			r.list(n, field, func(n *node, field string) { c.Values = append(c.Values, r.value(n, field, nil)) })
		default:
			more(name, field, n)
		}
	})
	return c
}

func (r *specReader) ordering(n *node, at string) *Ordering {
	out := &Ordering{}
	r.fields(n, at, []string{"params", "min_ratio", "min_gap"}, func(name, field string, n *node) {
		switch name {
		case "params":
			r.list(n, field, func(n *node, field string) { out.Params = append(out.Params, r.text(n, field)) })
		case "min_ratio":
			out.MinRatio = r.number(n, field, nil)
		case "min_gap":
			out.MinGap = r.number(n, field, &Param{Kind: KindDuration})
		}
	})
	return out
}

func (r *specReader) linear(n *node, at string) *Linear {
	out := &Linear{}
	r.fields(n, at, []string{"terms", "max_value"}, func(name, field string, n *node) {
		if name == "max_value" {
			out.Max = r.number(n, field, nil)
			return
		}
		r.list(n, field, func(n *node, field string) {
			var t Term
			r.fields(n, field, []string{"param", "coefficient"}, func(name, field string, n *node) {
				if name == "param" {
					t.Param = r.text(n, field)
				} else {
					t.Coefficient = r.number(n, field, nil)
				}
			})
			out.Terms = append(out.Terms, t)
		})
	})
	return out
}

// text reads a text. Numbers and booleans count as written: an ordinal parameter may
// list 2, 8, 32.
func (r *specReader) text(n *node, at string) string {
	if n.kind != scalarNode {
		r.v.add(at, "is %s, want text", n.kind)
	}
	return n.text
}

func (r *specReader) bool(n *node, at string) bool {
	if n.kind != scalarNode || n.value.kind != boolValue {
		r.v.add(at, "want true or false")
	}
	return n.value.Bool()
}

// number reads a number; for a duration parameter p it accepts texts such as 10m.
func (r *specReader) number(n *node, at string, p *Param) float64 {
	v := n.value
	if p != nil && p.Kind == KindDuration {
		v = p.normalise(v)
	}
	if n.kind != scalarNode || v.kind != numberValue {
		r.v.add(at, "want a number")
	}
	return v.num
}

func (r *specReader) int(n *node, at string) int {
	v := r.number(n, at, nil)
	if v != float64(int32(v)) {
		r.v.add(at, "%s is not a whole number below 2^31", formatNumber(v))
		return 0
	}
	return int(v)
}

// value reads a parameter's value: a text if the parameter has names.
func (r *specReader) value(n *node, at string, p *Param) Value {
	switch {
	case n.kind == scalarNode && p != nil && p.Kind.named():
		return Text(n.text)
	case n.kind == scalarNode:
		return n.value
	case n.kind != listNode:
		r.v.add(at, "is %s, want a value", n.kind)
		return Value{}
	}
	var nums []float64
	r.list(n, at, func(n *node, field string) { nums = append(nums, r.number(n, field, p)) })
	return Nums(nums...)
}

// nested are the members of documents that hold a configuration: a revision's, a
// simulation's, a search's.
var nested = []string{"parameters", "configuration", "best"}

// LoadConfig reads a configuration from YAML or JSON: values by parameter id, or a
// document with them under "parameters", "configuration" or "best". The values may also
// be one text, as [Config.String] returns it. Missing and invalid values are projected,
// and changes lists the differences. Values may be written as for [Space.Parse]. An
// unknown name is an error.
func (s *Space) LoadConfig(text []byte) (c Config, changes []Change, err error) {
	if len(text) > MaxDocument {
		return Config{}, nil, Violations{{Field: "document",
			Description: fmt.Sprintf("is larger than %d MiB", MaxDocument>>20)}}
	}
	root, err := parseDocument(text)
	if err != nil {
		return Config{}, nil, Violations{{Field: "document", Description: err.Error()}}
	}
	for _, name := range nested {
		i := slices.Index(root.keys, name)
		if i >= 0 && (root.items[i].kind == mapNode || root.items[i].kind == scalarNode) {
			root = root.items[i]
			break
		}
	}
	if root.kind == scalarNode && strings.Contains(root.text, "=") {
		c, err := s.Parse(s.Default(), []string{root.text})
		return c, nil, err
	}
	if root.kind != mapNode {
		return Config{}, nil, Violations{{Field: "document", Description: "is " + root.kind.String() +
			", want values by parameter"}}
	}
	r := &specReader{lines: map[string]int{}}
	raw := Values{}
	r.fields(root, "", s.ids(), func(id, field string, n *node) {
		p := &s.params[s.index[id]]
		raw[id] = r.value(n, field, p)
		if n.kind == scalarNode {
			if x, ok := p.parse(n.text); ok {
				raw[id] = x
			}
		}
	})
	if len(r.v) > 0 {
		return Config{}, nil, r.v.at(r.lines)
	}
	c, changes = s.Project(raw)
	return c, changes, nil
}
