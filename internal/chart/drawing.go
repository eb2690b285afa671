package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
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

// Clip shortens a name to n characters.
func Clip(name string, n int) string {
	if r := []rune(name); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return name
}

// DurationTicks returns ticks of a logarithmic axis in seconds.
func DurationTicks() (out []Tick) {
	const day = 24 * time.Hour
	for _, d := range [...]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
		10 * time.Hour, day, 3 * day, 10 * day, 30 * day, 100 * day, 1000 * day} {
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

// Color is an entry of the palette with an opacity. Pages render it in their light
// or dark scheme.
type Color struct {
	entry   uint8
	clarity float64 // 1 - opacity, so that the zero Color is opaque
}

// Colours besides the series'.
var (
	Ink   = Color{}         // important text
	Soft  = Color{entry: 1} // other text and tick marks
	Grid  = Color{entry: 2}
	Paper = Color{entry: 3} // background
)

// series is the first palette entry of the series colours, and nSeries their number.
const series, nSeries = 4, 8

// Series colours with a fixed meaning in every chart.
var (
	Gray   = Series(0) // reference
	Blue   = Series(4)
	Orange = Series(5) // choice or alarm
)

// palette holds the colours as 0xRRGGBB, by entry. Adjacent series differ in
// lightness as well as in hue.
var palette = [series + nSeries]struct {
	name        string
	light, dark uint32
}{
	{"ink", 0x1a1f26, 0xe6e9ee}, {"soft", 0x5a6472, 0x9aa5b4}, {"grid", 0xe4e7ec, 0x272e38},
	{"card", 0xffffff, 0x1a1f26},
	{"c0", 0x6b7280, 0x9aa3b0}, {"c1", 0x4d7c0f, 0xa8d05a}, {"c2", 0xb0408f, 0xf08bd0}, {"c3", 0xbe123c, 0xff7f9d},
	{"c4", 0x1d4ed8, 0x84a9ff}, {"c5", 0xd4500c, 0xff8a4c}, {"c6", 0x16181d, 0xf4f5f7}, {"c7", 0x00805a, 0x2fd6a0},
}

// design holds the colours of pages besides the palette: of the ground, of lines and of
// messages.
var design = []struct {
	name        string
	light, dark uint32
}{
	{"bg", 0xf6f7f9, 0x12151a}, {"line", 0xdde1e7, 0x313945},
	{"good", 0x0b6b4f, 0x5fdcb0}, {"good-bg", 0xe5f4ee, 0x12322a},
	{"bad", 0x9a3412, 0xffb38a}, {"bad-bg", 0xfdf0e7, 0x3a2318},
	{"open", 0x3b4a6b, 0xb4c6f0}, {"open-bg", 0xeaeef7, 0x20293d},
	{"warn", 0x7a4b00, 0xffd98a}, {"warn-bg", 0xfff3d1, 0x3a2e12},
}

// dashes tell series of one colour apart: the first eight are solid.
var dashes = [][]float64{nil, {8, 3}, {2, 3}, {11, 3, 2, 3}}

// Series returns the colour of series i, which repeats after eight (see SeriesDash).
func Series(i int) Color { return Color{entry: uint8(series + i%nSeries)} }

// SeriesDash returns the dash pattern of series i, another one for each that has a colour of an earlier one.
func SeriesDash(i int) []float64 { return dashes[i/nSeries%len(dashes)] }

// Name is the CSS variable of the colour, without --.
func (c Color) Name() string { return palette[c.entry].name }

// Fade returns the colour with an opacity from 0 to 1.
func (c Color) Fade(opacity float64) Color { return Color{c.entry, 1 - opacity} }

// RGBA implements [color.Color] with the light scheme.
func (c Color) RGBA() (r, g, b, a uint32) {
	v, opacity := palette[c.entry].light, 1-c.clarity
	part := func(shift int) uint32 { return uint32(float64(v>>shift&0xff) * 0x101 * opacity) }
	return part(16), part(8), part(0), uint32(opacity * 0xffff)
}

// CSS declares the colours as CSS variables, for the light and dark schemes and for print: the palette (--ink, --soft,
// --grid, --card, --c0 to --c7) and those of the design. HTML pages with pictures must include it.
func CSS() template.CSS {
	var light, dark strings.Builder
	for _, p := range append(palette[:], design...) {
		fmt.Fprintf(&light, "--%s:#%06x;", p.name, p.light)
		fmt.Fprintf(&dark, "--%s:#%06x;", p.name, p.dark)
	}
	return template.CSS(fmt.Sprintf(":root{%s}\n@media (prefers-color-scheme:dark){:root{%s}}\n@media "+
		"print{:root{%[1]s}}\n", light.String(), dark.String()))
}

//go:embed page.css
var pageCSS string

// Style is the style sheet of reports and of the dashboard: the colours ([CSS]), and the design of text, tables and
// figures.
func Style() template.CSS { return CSS() + template.CSS(pageCSS) }

// Dimension is an axis of parallel coordinates, from 0 at the bottom to 1 at the
// top.
type Dimension struct {
	Name  string
	Ticks []Tick
}

// Polyline is one item of parallel coordinates.
type Polyline struct {
	Mark
	At    []float64 // by dimension; NaN for no value
	Width float64
}

// Parallel returns a chart of items as lines across parallel axes.
func Parallel(title string, dimensions []Dimension, items []Polyline) *Chart {
	last := float64(len(dimensions) - 1)
	c := &Chart{Title: title, X: Axis{Min: -.05, Max: last + .6, Ticks: []Tick{}},
		Y: Axis{Min: -.04, Max: 1.2, Ticks: []Tick{}}}
	for _, item := range items {
		l := &Line{Mark: item.Mark, Width: item.Width}
		for k, v := range item.At {
			l.Points = append(l.Points, Point{float64(k), v})
		}
		c.Layers = append(c.Layers, l)
	}
	for k, d := range dimensions {
		x, above := float64(k), 14+16*float64(k%2) // stagger long names
		c.Layers = append(c.Layers, &Line{Mark: Mark{Color: Soft}, Points: []Point{{x, 0}, {x, 1}}, Width: 1},
			&Text{Mark: Mark{Color: Ink}, At: Point{x, 1}, Text: d.Name, DX: -2, DY: -above, Bold: true})
		for _, t := range d.Ticks {
			c.Layers = append(c.Layers,
				&Text{Mark: Mark{Color: Soft}, At: Point{x, t.Value}, Text: t.Label, DX: 4, DY: 4})
		}
	}
	return c
}

// Spread selects labels with values at least apart from each other: both ends, and
// fitting ones in between.
func Spread(labels []Tick, apart float64) []Tick {
	if len(labels) < 2 {
		return labels
	}
	last := labels[len(labels)-1]
	out := labels[:1:1]
	for _, t := range labels[1 : len(labels)-1] {
		if t.Value-out[len(out)-1].Value >= apart && last.Value-t.Value >= apart {
			out = append(out, t)
		}
	}
	return append(out, last)
}
