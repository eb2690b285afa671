package space

import (
	"math"
	"slices"
)

// Rule is one dependency between parameters. Exactly one of Activation and
// Ordering is set.
type Rule struct {
	ID          string      `json:"id"`
	Description string      `json:"description,omitempty"`
	Activation  *Activation `json:"activation,omitempty"`
	Ordering    *Ordering   `json:"ordering,omitempty"`
}

// Activation makes Param exist only while "When Op Value" holds. Several
// activations of one parameter must all hold, and a condition on a parameter
// that is itself not active does not hold.
//
// Projection: a parameter that is not active is removed; one that becomes
// active without a value gets its default.
type Activation struct {
	Param string `json:"param"`
	When  string `json:"when"`
	Op    Op     `json:"op"`
	Value Value  `json:"value"`
	// Values are the alternatives of Op In.
	Values []Value `json:"values,omitempty"`
}

// Op compares a parameter with a value.
type Op string

// The comparisons. Categories and booleans only know Equal, NotEqual and In.
const (
	Equal        Op = "=="
	NotEqual     Op = "!="
	Less         Op = "<"
	LessEqual    Op = "<="
	Greater      Op = ">"
	GreaterEqual Op = ">="
	In           Op = "in"
)

func (a *Activation) holds(v Value) bool {
	if v.kind == noValue {
		return false
	}
	switch a.Op {
	case Equal:
		return v.Equal(a.Value)
	case NotEqual:
		return !v.Equal(a.Value)
	case In:
		return slices.ContainsFunc(a.Values, v.Equal)
	case Less:
		return v.num < a.Value.num
	case LessEqual:
		return v.num <= a.Value.num
	case Greater:
		return v.num > a.Value.num
	case GreaterEqual:
		return v.num >= a.Value.num
	}
	return false
}

// Ordering makes values strictly increase: the elements of one array, or
// several single parameters in the order listed (those not active are skipped).
// The next value is at least the previous one times MinRatio and plus MinGap.
//
// Projection: values are sorted, then each is raised just as far as the one
// before it requires, and lowered where those after it would run out of room.
type Ordering struct {
	Params   []string `json:"params"`
	MinRatio float64  `json:"min_ratio,omitempty"` // 0 means 1
	MinGap   float64  `json:"min_gap,omitempty"`
}

// slack forgives the rounding of ratios and gaps: 1100 may follow 1000 at
// ratio 1.1 though 1000*1.1 is a little more than 1100 in binary.
const slack = 1e-9

// after returns the least value that may follow prev, before slack.
func (o *Ordering) after(prev float64) float64 {
	return max(prev*max(o.MinRatio, 1), prev+o.MinGap)
}

// allows reports whether next may follow prev. It is monotone: whatever may
// follow prev may follow anything smaller.
func (o *Ordering) allows(prev, next float64) bool {
	least := o.after(prev)
	if least >= 0 {
		least *= 1 - slack
	} else {
		least *= 1 + slack
	}
	return next > prev && next >= least
}

// lowest returns the least value of p that may follow prev.
func (o *Ordering) lowest(p *Param, prev float64) float64 {
	least := max(o.after(prev), p.Min)
	if o.allows(prev, p.Min) {
		return p.Min
	}
	if step := p.grid(); step != 0 {
		k := int(min((least-p.Min)/step, float64(p.levels()))) - 1
		for k < p.levels()-1 && !o.allows(prev, p.level(k)) {
			k++
		}
		return p.level(k)
	}
	// A readable number a little above the bound, if there is one.
	for _, v := range []float64{roundDigits(least, readable), roundDigits(least+math.Abs(least)*1e-5, readable), least} {
		if o.allows(prev, v) {
			return v
		}
	}
	return math.Nextafter(least, math.Inf(1))
}

// highest returns the greatest value of p that next may follow, -Inf if there
// is none.
func (o *Ordering) highest(p *Param, next float64) float64 {
	if !o.allows(p.Min, next) {
		return math.Inf(-1)
	}
	most := min(p.Max, next-o.MinGap)
	if o.MinRatio > 1 {
		most = min(most, next/o.MinRatio)
	}
	most = max(most, p.Min)
	if step := p.grid(); step != 0 {
		k := min(int((most-p.Min)/step)+1, p.levels()-1)
		for !o.allows(p.level(k), next) {
			k--
		}
		return p.level(k)
	}
	for !o.allows(most, next) {
		most = math.Nextafter(most, math.Inf(-1))
	}
	return most
}

// ceilings fills dst with the greatest value each of a chain of parameters may
// have so that those after it still fit.
func (o *Ordering) ceilings(dst []float64, chain []*Param) {
	for i := len(chain) - 1; i >= 0; i-- {
		if i == len(chain)-1 {
			dst[i] = chain[i].Max
		} else {
			dst[i] = o.highest(chain[i], dst[i+1])
		}
	}
}

// arrange changes vals, each already a value of its parameter, until they obey
// the ordering. Values that obey it already stay as they are.
func (o *Ordering) arrange(vals []float64, chain []*Param) (changed bool) {
	var buf [16]float64
	ceiling := append(buf[:0], vals...)
	o.ceilings(ceiling, chain)
	before := slices.Clone(vals)
	slices.Sort(vals)
	for i := range vals {
		v := chain[i].snap(vals[i])
		if i > 0 && !o.allows(vals[i-1], v) {
			v = o.lowest(chain[i], vals[i-1])
		}
		if v > ceiling[i] {
			v = ceiling[i]
			if down := roundDigits(v-math.Abs(v)*1e-5, readable); chain[i].grid() == 0 && down >= chain[i].Min && (i == 0 || o.allows(vals[i-1], down)) {
				v = down // a readable number, where there is room for one
			}
		}
		vals[i] = v
	}
	return !slices.Equal(before, vals)
}

// clone returns a copy that shares nothing with r.
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
	return r
}
