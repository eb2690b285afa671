package space

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/units"
)

// Kind is the kind of a parameter's values.
type Kind uint8

// The kinds of parameters.
const (
	KindFloat Kind = iota
	KindInt
	KindBool
	KindCategorical
	KindDuration // in seconds
	KindOrdinal  // ordered names, such as low, medium, high
)

var kindNames = []string{"float", "int", "bool", "categorical", "duration", "ordinal"}

// String returns the kind's name in specifications.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kindNames) {
		return nil, fmt.Errorf("space: unknown parameter kind %d", k)
	}
	return []byte(kindNames[k]), nil
}

// UnmarshalText parses the kind's name.
func (k *Kind) UnmarshalText(b []byte) error {
	i := slices.Index(kindNames, string(b))
	if i < 0 {
		return fmt.Errorf("space: unknown parameter kind %q, want one of %s", b, strings.Join(kindNames, ", "))
	}
	*k = Kind(i)
	return nil
}

func (k Kind) numeric() bool { return k == KindFloat || k == KindInt || k == KindDuration }

// named reports whether values are names from a list.
func (k Kind) named() bool { return k == KindCategorical || k == KindOrdinal }

// Param is one parameter.
type Param struct {
	ID          string `json:"id"`
	Module      string `json:"module,omitempty"` // admission, scheduling, placement or workload
	Unit        string `json:"unit,omitempty"`   // for display; durations are always in seconds
	Description string `json:"description,omitempty"`
	Kind        Kind   `json:"kind"`

	// Min and Max bound numbers and array elements, inclusive.
	Min float64 `json:"min_value,omitempty"`
	Max float64 `json:"max_value,omitempty"`
	// Step restricts values to Min, Min+Step, ... Max. Zero means 1 for integers and
	// no restriction for other kinds.
	Step float64 `json:"step,omitempty"`
	// Log searches on a log scale; Min must be above 0.
	Log bool `json:"log,omitempty"`

	// Categories are the names of a categorical parameter, or of an ordinal one in
	// ascending order.
	Categories []string  `json:"categories,omitempty"`
	Special    []Special `json:"special_values,omitempty"`
	// Array makes the parameter a list of numbers of this Kind.
	Array *Array `json:"array,omitempty"`

	// Default is the value of the default configuration. It is required.
	Default Value `json:"default_value"`
}

// Special is a value outside [Min, Max] with its own meaning, such as 0 for "off".
type Special struct {
	Value float64 `json:"value"`
	Name  string  `json:"name,omitempty"`
	// Weight is the share of the unit interval for this value. Zero means 0.1: about
	// one in ten samples, which leaves most to the range.
	Weight float64 `json:"weight,omitempty"`
}

const defaultSpecialWeight = 0.1

// Array defines the length of a list: the integer parameter Length plus Offset. Max
// is the greatest length and the number of dimensions.
type Array struct {
	Length string `json:"length"`
	Offset int    `json:"offset,omitempty"`
	Max    int    `json:"max_length"`
}

// grid returns the distance between values, 0 for a continuous range.
func (p *Param) grid() float64 {
	if p.Kind == KindInt && p.Step == 0 {
		return 1
	}
	return p.Step
}

// levels returns the number of values of a gridded range.
func (p *Param) levels() int {
	return int(math.Round((p.Max-p.Min)/p.grid())) + 1
}

// count returns the number of values in the range of a finite p, and place the index
// of one of them.
func (p *Param) count() int {
	if p.grid() == 0 {
		return 1
	}
	return p.levels()
}

func (p *Param) place(v float64) int {
	if p.grid() == 0 {
		return 0
	}
	return int(math.Round((v - p.Min) / p.grid()))
}

// level returns value k of the grid. It rounds multiples of steps such as 0.1, so
// that 0.3 is exactly 0.3.
func (p *Param) level(k int) float64 {
	switch n := p.levels(); {
	case k <= 0:
		return p.Min
	case k >= n-1:
		return p.Max
	}
	v := p.Min + float64(k)*p.grid()
	if p.Kind == KindInt {
		return v
	}
	return roundDigits(v, 12)
}

// snap returns the valid number nearest to a finite v.
func (p *Param) snap(v float64) float64 {
	v = min(max(v, p.Min), p.Max)
	if p.grid() == 0 {
		return v
	}
	return p.level(int(math.Round((v - p.Min) / p.grid())))
}

func (p *Param) special(v float64) *Special {
	for i := range p.Special {
		if p.Special[i].Value == v {
			return &p.Special[i]
		}
	}
	return nil
}

// want returns the kind of Value that the parameter holds.
func (p *Param) want() valueKind {
	switch {
	case p.Array != nil:
		return listValue
	case p.Kind == KindBool:
		return boolValue
	case p.Kind.named():
		return textValue
	}
	return numberValue
}

// fault describes what is wrong with v as a value of p, "" if nothing. It ignores
// array lengths and rules.
func (p *Param) fault(v Value) string {
	if v.kind != p.want() {
		return fmt.Sprintf("is %s, want %s", v.kind, p.want())
	}
	switch v.kind {
	case numberValue:
		return p.numberFault(v.num)
	case textValue:
		if !slices.Contains(p.Categories, v.text) {
			return fmt.Sprintf("%q is not one of %s", v.text, strings.Join(p.Categories, ", "))
		}
	}
	return ""
}

// numberFault describes what is wrong with one number of p, "" if nothing.
func (p *Param) numberFault(v float64) string {
	switch {
	case p.special(v) != nil:
		return ""
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "is not a finite number, want " + p.Range()
	case v < p.Min || v > p.Max:
		return formatNumber(v) + " is out of range, want " + p.Range()
	case p.snap(v) != v:
		return formatNumber(v) + " is not on a step, want " + p.Range()
	}
	return ""
}

// Range describes the valid values: "60 to 1e+06 GPU-s" or "one of fifo, las".
func (p *Param) Range() string {
	switch p.Kind {
	case KindBool:
		return "true or false"
	case KindCategorical:
		return "one of " + strings.Join(p.Categories, ", ")
	case KindOrdinal:
		return "one of " + strings.Join(p.Categories, " < ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s", formatNumber(p.Min), formatNumber(p.Max))
	switch {
	case p.Kind == KindDuration:
		b.WriteString(" seconds")
	case p.Unit != "":
		b.WriteString(" " + p.Unit)
	}
	switch {
	case p.Kind == KindInt && p.grid() == 1:
		b.WriteString(", whole numbers")
	case p.grid() != 0:
		b.WriteString(" in steps of " + formatNumber(p.grid()))
	}
	for _, s := range p.Special {
		b.WriteString(" or " + formatNumber(s.Value))
		if s.Name != "" {
			b.WriteString(" (" + s.Name + ")")
		}
	}
	return b.String()
}

// Format formats a value of p in the form that [Space.Parse] accepts: durations with
// their unit, special values by name.
func (p *Param) Format(v Value) string {
	if v.kind == numberValue {
		if s := p.special(v.num); s != nil && s.Name != "" {
			return s.Name
		}
		if span, ok := units.Span(v.num); ok && p.Kind == KindDuration {
			return span
		}
	}
	return v.String()
}

// parseNumber parses one number of p: a number, a duration such as 10m, or the name
// of a special value.
func (p *Param) parseNumber(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	for _, special := range p.Special {
		if special.Name != "" && strings.EqualFold(special.Name, s) {
			return special.Value, true
		}
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return positiveZero(v), true
	}
	if p.Kind == KindDuration {
		if d, err := time.ParseDuration(s); err == nil {
			return d.Seconds(), true
		}
	}
	return 0, false
}

// parse parses a value of p.
func (p *Param) parse(s string) (Value, bool) {
	s = strings.TrimSpace(s)
	switch {
	case p.Array != nil:
		s = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
		if s == "" {
			return Nums(), true
		}
		parts := strings.Split(s, ",")
		nums := make([]float64, len(parts))
		for i, part := range parts {
			n, ok := p.parseNumber(part)
			if !ok {
				return Value{}, false
			}
			nums[i] = n
		}
		return Nums(nums...), true
	case p.Kind.named():
		return Text(s), true
	case p.Kind == KindBool:
		switch strings.ToLower(s) {
		case "on", "yes":
			return Bool(true), true
		case "off", "no":
			return Bool(false), true
		}
		b, err := strconv.ParseBool(s)
		return Bool(b), err == nil
	}
	n, ok := p.parseNumber(s)
	return Num(n), ok
}

// normalise converts text that stands for a number ("10m", "off") and returns any
// other value unchanged.
func (p *Param) normalise(v Value) Value {
	if v.kind == textValue && p.want() == numberValue {
		if n, ok := p.parseNumber(v.text); ok {
			return Num(n)
		}
	}
	return v
}
