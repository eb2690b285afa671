package space

import (
	"math"
	"slices"
)

// Source provides raw values by parameter id. [Config] and [Values] implement it.
type Source interface{ Get(id string) Value }

// Values is a map of values that implements [Source].
type Values map[string]Value

// Get returns the value of id, zero if there is none.
func (v Values) Get(id string) Value { return v[id] }

// Change is one value that Project changed.
type Change struct {
	Param string `json:"param"`
	From  Value  `json:"from"`
	To    Value  `json:"to"`
	// Rule is the id of the rule that required the change, or one of missing, type,
	// range, step and length for the parameter's own limits.
	Rule string `json:"rule"`
}

// Values of Change.Rule without a rule.
const (
	changeMissing = "missing"
	changeType    = "type"
	changeRange   = "range"
	changeStep    = "step"
	changeLength  = "length"
)

// Project returns a valid configuration close to raw, and the changes. It accepts
// any input: missing values and values of the wrong type become the default, numbers
// move to the nearest valid one, arrays are cut or extended to their length, broken
// rules are applied as their kind defines ([Activation], [Ordering], [Linear],
// [Forbidden]), and unknown names are ignored. A valid configuration is returned
// unchanged.
//
// Conflicting rules are applied in turn, with growing margins. If that does not
// converge, the parameters of the rules still broken take their defaults, and
// finally all parameters do, so that there is always a result.
func (s *Space) Project(raw Source) (Config, []Change) {
	from := make([]Value, len(s.params))
	for i := range s.params {
		from[i] = raw.Get(s.params[i].ID)
	}
	values, why := s.project(from)
	var changes []Change
	for i := range values {
		if !values[i].Equal(from[i]) {
			if why[i] == "" {
				why[i] = changeType // "10m" became 600
			}
			changes = append(changes, Change{Param: s.params[i].ID, From: from[i], To: values[i], Rule: why[i]})
		}
	}
	return Config{space: s, values: values}, changes
}

func (s *Space) project(raw []Value) (values []Value, why []string) {
	values, why = s.settle(raw)
	if r := s.firstBroken(values); r >= 0 {
		return s.repair(raw, values, why, r)
	}
	return values, why
}

// settle applies all rules but the linear and forbidden ones, which need the settled
// values.
func (s *Space) settle(raw []Value) (values []Value, why []string) {
	values = make([]Value, len(s.params))
	why = make([]string, len(s.params))
	for _, u := range s.units {
		for _, i := range u.params {
			switch {
			case s.isActive(i, values):
				values[i], why[i] = s.projectOne(i, raw[i], values)
			case len(s.active[i]) > 0:
				why[i] = s.active[i][0].rule.ID
			default:
				why[i] = changeLength
			}
		}
		if u.ordering != nil {
			s.projectOrder(u, values, why)
		}
	}
	return values, why
}

// projectOne returns the valid value of parameter i for raw, and the reason if it
// differs.
func (s *Space) projectOne(i int, raw Value, values []Value) (Value, string) {
	p := &s.params[i]
	raw = p.normalise(raw)
	if p.Array != nil {
		return s.projectArray(i, raw, values)
	}
	if raw.IsZero() {
		return p.Default, changeMissing
	}
	if raw.kind != p.want() {
		return p.Default, changeType
	}
	switch raw.kind {
	case numberValue:
		v, why := p.projectNumber(raw.num, p.Default.num)
		return Num(v), why
	case textValue:
		if p.fault(raw) != "" {
			return p.Default, changeRange
		}
	}
	return raw, ""
}

// projectNumber returns the valid number nearest to v.
func (p *Param) projectNumber(v, fallback float64) (float64, string) {
	switch {
	case p.special(v) != nil:
		return v, ""
	case math.IsNaN(v):
		return fallback, changeType
	case v < p.Min || v > p.Max:
		return p.snap(v), changeRange
	}
	return p.snap(v), changeStep
}

// projectArray cuts or extends a list to its length and projects each element.
func (s *Space) projectArray(i int, raw Value, values []Value) (Value, string) {
	p, want := &s.params[i], s.arrayLength(i, values)
	nums, why := raw.nums, ""
	switch {
	case raw.IsZero():
		nums, why = p.Default.nums, changeMissing
	case raw.kind != listValue:
		nums, why = p.Default.nums, changeType
	case len(nums) != want:
		why = changeLength
	}
	out := make([]float64, 0, want)
	for k := 0; k < want; k++ {
		if k >= len(nums) || math.IsNaN(nums[k]) {
			if s.ordered[i] {
				slices.Sort(out) // continue from the largest
			}
			out = append(out, p.extend(out))
			continue
		}
		v, reason := p.projectNumber(nums[k], p.Min)
		if v != nums[k] && why == "" {
			why = reason
		}
		out = append(out, v)
	}
	return Value{kind: listValue, nums: out}, why
}

// extend returns the next element of a list: the default's if it is greater than the
// last one, otherwise the last one plus the last step (on a log scale, times the
// last ratio).
func (p *Param) extend(nums []float64) float64 {
	n := len(nums)
	if d := p.Default.nums; n < len(d) && (n == 0 || d[n] > nums[n-1]) {
		return d[n]
	}
	var v float64
	switch {
	case n == 0 && p.Log:
		v = math.Sqrt(p.Min) * math.Sqrt(p.Max)
	case n == 0:
		v = p.Min + (p.Max-p.Min)/2
	case p.Log:
		ratio := 2.0
		if n > 1 && nums[n-2] < nums[n-1] {
			ratio = nums[n-1] / nums[n-2]
		}
		v = nums[n-1] * ratio
	default:
		gap := (p.Max - p.Min) / float64(p.Array.Max+1)
		if n > 1 && nums[n-2] < nums[n-1] {
			gap = nums[n-1] - nums[n-2]
		}
		v = nums[n-1] + gap
	}
	return p.snap(roundDigits(min(max(v, p.Min), p.Max), maxDigits))
}

// projectOrder applies a unit's ordering to its active values.
func (s *Space) projectOrder(u unit, values []Value, why []string) {
	o, id := u.ordering.Ordering, u.ordering.ID
	var chain []*Param
	if i := u.params[0]; s.params[i].Array != nil {
		nums := values[i].nums // allocated by projectArray, so safe to modify
		for range nums {
			chain = append(chain, &s.params[i])
		}
		if len(nums) > 1 && o.arrange(nums, chain) {
			why[i] = id
		}
		return
	}
	var nums []float64
	var at []int
	for _, i := range u.params {
		if !values[i].IsZero() {
			nums, chain, at = append(nums, values[i].num), append(chain, &s.params[i]), append(at, i)
		}
	}
	if len(nums) > 1 && o.arrange(nums, chain) {
		for k, i := range at {
			if values[i].num != nums[k] {
				values[i], why[i] = Num(nums[k]), id
			}
		}
	}
}
