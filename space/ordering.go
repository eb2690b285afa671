package space

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Ordering makes values strictly increase: the elements of one array, or several
// single parameters in the order listed, without inactive ones. Each value is at
// least the previous one times MinRatio, and at least the previous one plus MinGap.
//
// Projection: values are sorted, then each is raised as far as the one before it
// requires, and lowered where those after it would otherwise not fit.
type Ordering struct {
	Params   []string `json:"params"`
	MinRatio float64  `json:"min_ratio,omitempty"` // 0 means 1
	MinGap   float64  `json:"min_gap,omitempty"`
}

// slack is the relative tolerance for rounding of ratios and gaps: 1100 may follow
// 1000 at ratio 1.1 although 1000*1.1 is slightly more than 1100 in binary.
const slack = 1e-9

// after returns the least value that may follow prev, without slack.
func (o *Ordering) after(prev float64) float64 {
	return max(prev*max(o.MinRatio, 1), prev+o.MinGap)
}

// allows reports whether next may follow prev. It is monotone: if next may follow
// prev, it may follow any smaller value.
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
	// Prefer a number with few digits slightly above the bound.
	for _, v := range []float64{roundDigits(least, maxDigits), roundDigits(least+math.Abs(least)*1e-5, maxDigits),
		least} {
		if o.allows(prev, v) {
			return v
		}
	}
	return math.Nextafter(least, math.Inf(1))
}

// highest returns the greatest value of p that next may follow, or -Inf. If round is
// set, it prefers one with few digits.
func (o *Ordering) highest(p *Param, next float64, round bool) float64 {
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
	if round {
		for _, v := range []float64{roundDigits(most, maxDigits), roundDigits(most-math.Abs(most)*1e-5, maxDigits)} {
			if v >= p.Min && v <= p.Max && o.allows(v, next) {
				return v
			}
		}
	}
	for !o.allows(most, next) {
		most = math.Nextafter(most, math.Inf(-1))
	}
	return most
}

// ceilings fills dst with the greatest value of each parameter of a chain that
// leaves room for those after it. It returns false if there is no room.
func (o *Ordering) ceilings(dst []float64, chain []*Param, round bool) bool {
	for i := len(chain) - 1; i >= 0; i-- {
		if i == len(chain)-1 {
			dst[i] = chain[i].Max
		} else {
			dst[i] = o.highest(chain[i], dst[i+1], round)
		}
		if dst[i] < chain[i].Min {
			return false
		}
	}
	return true
}

// obeyed reports whether values obey the ordering.
func (o *Ordering) obeyed(vals []float64) bool {
	for i := 1; i < len(vals); i++ {
		if !o.allows(vals[i-1], vals[i]) {
			return false
		}
	}
	return true
}

// arrange changes vals, each a valid value of its parameter, until they obey the
// ordering, and reports whether it changed any. Where there is room, the results
// have few digits, so that the unit cube can represent them.
func (o *Ordering) arrange(vals []float64, chain []*Param) (changed bool) {
	if o.obeyed(vals) {
		return false
	}
	var buf [16]float64
	ceiling := append(buf[:0], vals...)
	if !o.ceilings(ceiling, chain, true) {
		o.ceilings(ceiling, chain, false)
	}
	slices.Sort(vals)
	for i := range vals {
		v := chain[i].snap(vals[i])
		if i > 0 && !o.allows(vals[i-1], v) {
			v = o.lowest(chain[i], vals[i-1])
		}
		vals[i] = min(v, ceiling[i])
	}
	return true
}

// String describes the ordering.
func (o *Ordering) String() string {
	text := strings.Join(o.Params, " < ") + " increase"
	if len(o.Params) == 1 {
		text = "values of " + o.Params[0] + " increase"
	}
	if o.MinRatio > 1 {
		text += fmt.Sprintf(", each at least %s times the one before", formatNumber(o.MinRatio))
	}
	if o.MinGap > 0 {
		text += fmt.Sprintf(", by at least %s", formatNumber(o.MinGap))
	}
	return text
}
