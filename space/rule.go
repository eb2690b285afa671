package space

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is one constraint between parameters. Exactly one of Activation, Ordering,
// Linear and Forbidden is set. Each kind defines its projection; [Rule.Projection]
// describes it.
type Rule struct {
	ID          string      `json:"id"`
	Description string      `json:"description,omitempty"`
	Activation  *Activation `json:"activation,omitempty"`
	Ordering    *Ordering   `json:"ordering,omitempty"`
	Linear      *Linear     `json:"linear,omitempty"`
	Forbidden   *Forbidden  `json:"forbidden,omitempty"`
}

// kinds returns the number of kinds that are set.
func (r *Rule) kinds() (n int) {
	for _, set := range []bool{r.Activation != nil, r.Ordering != nil, r.Linear != nil, r.Forbidden != nil} {
		if set {
			n++
		}
	}
	return n
}

// Params are the ids of the parameters that the rule is about.
func (r *Rule) Params() (out []string) {
	switch {
	case r.Activation != nil:
		out = []string{r.Activation.Param, r.Activation.When}
	case r.Ordering != nil:
		out = r.Ordering.Params
	case r.Linear != nil:
		for _, t := range r.Linear.Terms {
			out = append(out, t.Param)
		}
	case r.Forbidden != nil:
		for _, c := range r.Forbidden.All {
			out = append(out, c.Param)
		}
	}
	return out
}

// String describes the rule.
func (r *Rule) String() string {
	switch {
	case r.Activation != nil:
		c := r.Activation.condition()
		return fmt.Sprintf("%s exists while %s", r.Activation.Param, c.text())
	case r.Ordering != nil:
		return r.Ordering.String()
	case r.Linear != nil:
		return r.Linear.String()
	case r.Forbidden != nil:
		return "never " + r.Forbidden.String()
	}
	return ""
}

// Projection describes how a configuration that breaks the rule is projected.
func (r *Rule) Projection() string {
	switch {
	case r.Activation != nil:
		return "the value is removed; one that comes to exist starts at its default"
	case r.Ordering != nil:
		return "the values are sorted, then each is moved just as far as those beside it require"
	case r.Linear != nil:
		return "every value moves the same share of the way to the end of its range that lowers the sum, just " +
			"far enough"
	case r.Forbidden != nil:
		return "the parameter named last moves to the nearest value that ends the combination, or the one before " +
			"it if there is none"
	}
	return ""
}

// Activation makes Param active only while "When Op Value" holds. All activations of
// a parameter must hold, and a condition on an inactive parameter does not hold.
//
// Projection: an inactive parameter's value is removed; a parameter that becomes
// active without a value takes its default.
type Activation struct {
	Param string `json:"param"`
	When  string `json:"when"`
	Op    Op     `json:"op"`
	Value Value  `json:"value"`
	// Values are the alternatives of Op In.
	Values []Value `json:"values,omitempty"`
}

func (a *Activation) condition() Condition {
	return Condition{Param: a.When, Op: a.Op, Value: a.Value, Values: a.Values}
}

// Forbidden excludes a combination: its conditions must not all hold.
//
// Projection: the parameter of the last condition moves to the nearest value that
// does not meet it (a category to its default, or to the nearest name in its list).
// If there is none, or if it breaks another rule, the condition before is tried.
type Forbidden struct {
	All []Condition `json:"all"`
}

// String returns the combination as text, such as "a = x and b > 1".
func (f *Forbidden) String() string {
	parts := make([]string, len(f.All))
	for i := range f.All {
		parts[i] = f.All[i].text()
	}
	return strings.Join(parts, " and ")
}

// clone returns a deep copy.
func (r Rule) clone() Rule {
	if r.Activation != nil {
		a := *r.Activation
		a.Values = slices.Clone(a.Values)
		r.Activation = &a
	}
	if r.Ordering != nil {
		o := *r.Ordering
		o.Params = slices.Clone(o.Params)
		r.Ordering = &o
	}
	if r.Linear != nil {
		r.Linear = &Linear{Terms: slices.Clone(r.Linear.Terms), Max: r.Linear.Max}
	}
	if r.Forbidden != nil {
		all := slices.Clone(r.Forbidden.All)
		for i := range all {
			all[i].Values = slices.Clone(all[i].Values)
		}
		r.Forbidden = &Forbidden{All: all}
	}
	return r
}
