package chart

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// scale maps values of an axis to pixels: lo to start, hi to end.
type scale struct {
	lo, hi, start, end float64
	log                bool
}

// fit returns the scale of an axis for the given values, without pixels.
func (a *Axis) fit(values []float64) scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range append(values, a.Include...) {
		if !math.IsInf(v, 0) && v == v {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo > hi {
		lo, hi = 0, 1
	}
	s := scale{lo: lo, hi: hi}
	if a.Min < a.Max {
		s.lo, s.hi = a.Min, a.Max
	}
	if s.log = a.Log && s.lo > 0; a.Min < a.Max {
		return s
	}
	const margin = .04
	switch {
	case s.log && lo < hi:
		f := math.Pow(hi/lo, margin)
		s.lo, s.hi = lo/f, hi*f
	case s.log:
		s.lo, s.hi = lo/2, hi*2
	case lo < hi:
		if lo != 0 {
			s.lo -= margin * (hi - lo)
		}
		s.hi += margin * (hi - lo)
	default:
		s.lo, s.hi = lo-.5, hi+.5
	}
	return s
}

// at returns the pixel of a value, clamped to the axis.
func (s *scale) at(v float64) float64 {
	v = min(max(v, s.lo), s.hi)
	share := (v - s.lo) / (s.hi - s.lo)
	if s.log {
		share = math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	}
	return s.start + (s.end-s.start)*share
}

// ticks returns the axis's ticks within its range, at least apart pixels from each
// other.
func (a *Axis) ticks(s *scale, apart float64) []Tick {
	all := a.Ticks
	if all == nil {
		n := max(2, math.Abs(s.end-s.start)/apart)
		if s.log {
			all = LogTicks(s.lo, s.hi)
		} else {
			all = RoundTicks(s.lo, s.hi, int(n))
		}
	}
	slack := 1e-9 * (s.hi - s.lo)
	var out []Tick
	for _, t := range all {
		if t.Value < s.lo-slack || t.Value > s.hi+slack {
			continue
		}
		if n := len(out); n > 0 && math.Abs(s.at(t.Value)-s.at(out[n-1].Value)) < apart {
			continue
		}
		out = append(out, t)
	}
	return out
}

// RoundTicks returns about n ticks at multiples of 1, 2 or 5 times a power of ten.
func RoundTicks(lo, hi float64, n int) []Tick {
	if !(hi > lo) || math.IsInf(hi-lo, 0) {
		return nil
	}
	raw := (hi - lo) / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, k := range []float64{1, 2, 5} {
		if k*unit >= raw*(1-1e-9) {
			step = k * unit
			break
		}
	}
	digits := 0 // decimals that distinguish neighbours
	for u, _ := siUnit(max(math.Abs(lo), math.Abs(hi))); digits < 9 && step/u*math.Pow10(digits) < .999; {
		digits++
	}
	var out []Tick
	for k := math.Ceil(lo / step); k*step <= hi; k++ {
		out = append(out, Tick{k * step, number(k*step, max(math.Abs(lo), math.Abs(hi)), digits)})
	}
	return out
}

// LogTicks returns ticks at powers of ten; if there are fewer than three, at
// multiples of 1, 2 and 5 of them, or at round numbers.
func LogTicks(lo, hi float64) []Tick {
	for _, multiples := range [][]float64{{1}, {1, 2, 5}} {
		var out []Tick
		for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range multiples {
				if v := m * math.Pow(10, e); v >= lo && v <= hi {
					out = append(out, Tick{v, Compact(v)})
				}
			}
		}
		if len(out) >= 3 {
			return out
		}
	}
	return RoundTicks(lo, hi, 4)
}

// durations are the ticks of a duration axis.
var durations = []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
	10 * time.Hour, 24 * time.Hour,
	3 * 24 * time.Hour, 10 * 24 * time.Hour, 30 * 24 * time.Hour, 100 * 24 * time.Hour, 1000 * 24 * time.Hour}

// DurationTicks returns ticks of a logarithmic axis in seconds.
func DurationTicks() []Tick {
	var out []Tick
	for _, d := range durations {
		out = append(out, Tick{d.Seconds(), ShortDuration(d)})
	}
	return out
}

// ShortDuration formats a duration in its largest whole unit: 90s as 1m.
func ShortDuration(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// siUnit returns the largest of 1, k, M and G that is at most v.
func siUnit(v float64) (float64, string) {
	switch {
	case v >= 1e9:
		return 1e9, "G"
	case v >= 1e6:
		return 1e6, "M"
	case v >= 1e4:
		return 1e3, "k"
	}
	return 1, ""
}

// number formats v in the unit of top.
func number(v, top float64, digits int) string {
	u, name := siUnit(top)
	if v == 0 {
		return "0"
	}
	return strconv.FormatFloat(v/u, 'f', digits, 64) + name
}

// Compact formats a number with three digits and its unit: 12345 as 12.3k.
func Compact(v float64) string {
	u, name := siUnit(math.Abs(v) * 10)
	if v != 0 && math.Abs(v) < u {
		u, name = siUnit(math.Abs(v))
	}
	return fmt.Sprintf("%.3g", v/u) + name
}
