package space

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Condition compares a parameter with a value. It is false for an inactive
// parameter.
type Condition struct {
	Param string `json:"param"`
	Op    Op     `json:"op"`
	Value Value  `json:"value"`
	// Values are the alternatives of Op In.
	Values []Value `json:"values,omitempty"`
}

// Op is a comparison operator.
type Op string

// The operators. Categories and booleans support only Equal, NotEqual and In; the
// values of an ordinal parameter are ordered as listed.
const (
	Equal        Op = "=="
	NotEqual     Op = "!="
	Less         Op = "<"
	LessEqual    Op = "<="
	Greater      Op = ">"
	GreaterEqual Op = ">="
	In           Op = "in"
)

func (o Op) ordered() bool {
	return o == Less || o == LessEqual || o == Greater || o == GreaterEqual
}

// holds reports whether v, a value of p, meets the condition.
func (c *Condition) holds(p *Param, v Value) bool {
	if v.kind == noValue {
		return false
	}
	switch c.Op {
	case Equal:
		return v.Equal(c.Value)
	case NotEqual:
		return !v.Equal(c.Value)
	case In:
		return slices.ContainsFunc(c.Values, v.Equal)
	}
	a, b := p.rank(v), p.rank(c.Value)
	switch c.Op {
	case Less:
		return a < b
	case LessEqual:
		return a <= b
	case Greater:
		return a > b
	case GreaterEqual:
		return a >= b
	}
	return false
}

// rank returns the sort key of ordered comparisons: a number itself, or the index of
// an ordinal value.
func (p *Param) rank(v Value) float64 {
	if p.Kind == KindOrdinal {
		return float64(slices.Index(p.Categories, v.text))
	}
	return v.num
}

// text returns the condition as text, such as "starve_limit > 0".
func (c *Condition) text() string {
	if c.Op == In {
		parts := make([]string, len(c.Values))
		for i, v := range c.Values {
			parts[i] = v.String()
		}
		return fmt.Sprintf("%s in %s", c.Param, strings.Join(parts, ", "))
	}
	return fmt.Sprintf("%s %s %s", c.Param, c.Op, c.Value)
}

// checkCondition checks a condition and returns the index of its parameter. It
// converts texts that stand for numbers. at is the condition's path, and field the
// name of its parameter field.
func (s *Space) checkCondition(c *Condition, at, field string, v *Violations) (on int, ok bool) {
	before := len(*v)
	on, known := s.index[c.Param]
	if !known {
		v.add(at+"."+field, "there is no parameter %q", c.Param)
		return 0, false
	}
	p := &s.params[on]
	if p.Array != nil {
		v.add(at+"."+field, "%q is an array", c.Param)
		return 0, false
	}
	c.Value = p.normalise(c.Value)
	for k := range c.Values {
		c.Values[k] = p.normalise(c.Values[k])
	}
	switch {
	case c.Op == Equal, c.Op == NotEqual:
		if fault := p.fault(c.Value); fault != "" {
			v.add(at+".value", "%s %s", c.Param, fault)
		}
	case c.Op == In:
		if len(c.Values) == 0 {
			v.add(at+".values", "at least one is needed")
		}
		for _, x := range c.Values {
			if fault := p.fault(x); fault != "" {
				v.add(at+".values", "%s %s", c.Param, fault)
			}
		}
	case !c.Op.ordered():
		v.add(at+".op", "unknown comparison %q, want one of == != < <= > >= in (in quotes in YAML)", c.Op)
	case p.Kind == KindOrdinal:
		if fault := p.fault(c.Value); fault != "" {
			v.add(at+".value", "%s %s", c.Param, fault)
		}
	case !p.Kind.numeric():
		v.add(at+".op", "%s cannot compare a %s parameter", c.Op, p.Kind)
	case c.Value.kind != numberValue || math.IsNaN(c.Value.num):
		v.add(at+".value", "must be a number") // it may lie outside the range
	}
	return on, len(*v) == before
}

// escape returns the value of p nearest to v that does not meet the condition; for a
// category the default is nearest. It returns false if there is none.
func (c *Condition) escape(p *Param, v Value) (Value, bool) {
	var best Value
	distance := math.Inf(1)
	try := func(x Value, d float64) {
		if d < distance && !c.holds(p, x) {
			best, distance = x, d
		}
	}
	switch {
	case p.Kind == KindBool:
		try(Bool(!v.Bool()), 1)
	case p.Kind == KindCategorical || p.Kind == KindOrdinal:
		at := slices.Index(p.Categories, v.text)
		if p.Kind == KindCategorical {
			try(p.Default, 0.5)
		}
		for k, x := range p.Categories {
			try(Text(x), math.Abs(float64(k-at)))
		}
	default:
		for _, x := range c.around(p, v.num) {
			try(Num(x), math.Abs(x-v.num))
		}
		for _, x := range p.Special {
			// Special values are unordered: they are a last resort.
			try(Num(x.Value), math.MaxFloat64)
		}
	}
	return best, distance < math.Inf(1)
}

// around returns candidates for escape in the range of a numeric p: its ends, and
// values next to v and to the condition's value.
func (c *Condition) around(p *Param, v float64) []float64 {
	out := []float64{p.Min, p.Max}
	near := func(x float64) {
		x = min(max(x, p.Min), p.Max)
		out = append(out, p.snap(x))
		if step := p.grid(); step != 0 {
			k := int(math.Round((x - p.Min) / step))
			// One more on each side than the values that may be excluded.
			for d := 1; d <= len(c.Values)+2; d++ {
				out = append(out, p.level(k-d), p.level(k+d))
			}
			return
		}
		for d := 1; d <= len(c.Values)+1; d++ {
			// Numbers with few digits, where there are any.
			gap := float64(d) * max(math.Abs(x), (p.Max-p.Min)*1e-3) * 1e-4
			for _, y := range []float64{x - gap, x + gap} {
				if y = roundDigits(y, maxDigits); y > p.Min && y < p.Max {
					out = append(out, y)
				}
			}
		}
	}
	near(v)
	if c.Value.kind == numberValue {
		near(c.Value.num)
	}
	return out
}
