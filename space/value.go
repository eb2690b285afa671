package space

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Value is one immutable parameter value: a number, a boolean, a text or a list of
// numbers. The zero Value is the value of an inactive parameter.
type Value struct {
	kind valueKind
	num  float64 // also 0 or 1 for a boolean
	text string
	nums []float64
}

type valueKind uint8

const (
	noValue valueKind = iota
	numberValue
	boolValue
	textValue
	listValue
)

func (k valueKind) String() string {
	return [...]string{"nothing", "a number", "true or false", "text", "a list of numbers"}[k]
}

// Num returns a number value.
func Num(v float64) Value { return Value{kind: numberValue, num: positiveZero(v)} }

// Int returns a number value; it equals Num of the same number.
func Int(v int) Value { return Value{kind: numberValue, num: float64(v)} }

// Bool returns a boolean value.
func Bool(v bool) Value {
	if v {
		return Value{kind: boolValue, num: 1}
	}
	return Value{kind: boolValue}
}

// Text returns a text value, the name of a category.
func Text(v string) Value { return Value{kind: textValue, text: v} }

// Nums returns a list value with a copy of v.
func Nums(v ...float64) Value {
	nums := make([]float64, len(v))
	for i, x := range v {
		nums[i] = positiveZero(x)
	}
	return Value{kind: listValue, nums: nums}
}

// positiveZero maps -0 to 0, so that equal values have equal hashes.
func positiveZero(v float64) float64 {
	if v == 0 {
		return 0
	}
	return v
}

// IsZero reports whether v is the zero Value.
func (v Value) IsZero() bool { return v.kind == noValue }

// Float returns the number of v, or 0 for other kinds.
func (v Value) Float() float64 {
	if v.kind != numberValue {
		return 0
	}
	return v.num
}

// Duration returns the number of v as seconds, or 0 for other kinds.
func (v Value) Duration() time.Duration { return time.Duration(v.Float() * float64(time.Second)) }

// Int returns the number of v truncated to an integer, or 0 for other kinds.
func (v Value) Int() int {
	if v.kind != numberValue || math.IsNaN(v.num) {
		return 0
	}
	return int(v.num)
}

// Bool returns the boolean of v, or false for other kinds.
func (v Value) Bool() bool { return v.kind == boolValue && v.num != 0 }

// Text returns the text of v, or "" for other kinds.
func (v Value) Text() string { return v.text }

// Floats returns a copy of the list of v, or nil for other kinds.
func (v Value) Floats() []float64 {
	if v.kind != listValue {
		return nil
	}
	return append(make([]float64, 0, len(v.nums)), v.nums...)
}

// Len returns the length of the list of v, or 0 for other kinds.
func (v Value) Len() int { return len(v.nums) }

// At returns element i of the list of v.
func (v Value) At(i int) float64 { return v.nums[i] }

// Equal reports whether v and o have the same kind and value.
func (v Value) Equal(o Value) bool {
	return v.kind == o.kind && v.num == o.num && v.text == o.text && slices.Equal(v.nums, o.nums)
}

// String returns the value as text: 3, true, las, or 3250,7200.
func (v Value) String() string {
	switch v.kind {
	case numberValue:
		return formatNumber(v.num)
	case boolValue:
		return strconv.FormatBool(v.num != 0)
	case textValue:
		return v.text
	case listValue:
		parts := make([]string, len(v.nums))
		for i, x := range v.nums {
			parts[i] = formatNumber(x)
		}
		return strings.Join(parts, ",")
	}
	return ""
}

// MarshalJSON returns a number, a boolean, a string, an array or null.
func (v Value) MarshalJSON() ([]byte, error) { return v.appendJSON(nil), nil }

func (v Value) appendJSON(b []byte) []byte {
	switch v.kind {
	case numberValue:
		return appendNumber(b, v.num)
	case boolValue:
		return strconv.AppendBool(b, v.num != 0)
	case textValue:
		q, _ := json.Marshal(v.text) // marshalling a string cannot fail
		return append(b, q...)
	case listValue:
		b = append(b, '[')
		for i, x := range v.nums {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendNumber(b, x)
		}
		return append(b, ']')
	}
	return append(b, "null"...)
}

// UnmarshalJSON parses what MarshalJSON returns.
func (v *Value) UnmarshalJSON(b []byte) error {
	var decoded any
	if err := json.Unmarshal(b, &decoded); err != nil {
		return err
	}
	switch x := decoded.(type) {
	case nil:
		*v = Value{}
	case bool:
		*v = Bool(x)
	case float64:
		*v = Num(x)
	case string:
		*v = Text(x)
	case []any:
		nums := make([]float64, len(x))
		for i, e := range x {
			n, ok := e.(float64)
			if !ok {
				return fmt.Errorf("space: element %d of a list is not a number", i)
			}
			nums[i] = n
		}
		*v = Nums(nums...)
	default:
		return fmt.Errorf("space: a value cannot be an object")
	}
	return nil
}

// appendNumber appends the shortest text that parses to v; NaN and infinities become
// null.
func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return append(b, formatNumber(v)...)
}

func formatNumber(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// roundDigits returns v rounded to n significant decimal digits.
func roundDigits(v float64, n int) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	var buf [40]byte
	r, err := strconv.ParseFloat(string(strconv.AppendFloat(buf[:0], v, 'e', n-1, 64)), 64)
	if err != nil {
		return v
	}
	return positiveZero(r)
}
