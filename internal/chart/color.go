package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

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

// CSS declares the palette as CSS variables (--ink, --soft, --grid, --card, --c0 to
// --c7) for the light and dark schemes and for print. HTML pages with pictures must
// include it.
func CSS() template.CSS {
	var light, dark strings.Builder
	for _, p := range palette {
		fmt.Fprintf(&light, "--%s:#%06x;", p.name, p.light)
		fmt.Fprintf(&dark, "--%s:#%06x;", p.name, p.dark)
	}
	return template.CSS(fmt.Sprintf(":root{%s}\n@media (prefers-color-scheme:dark){:root{%s}}\n@media "+
		"print{:root{%[1]s}}\n", light.String(), dark.String()))
}

//go:embed page.css
var pageCSS string

// Style is the style sheet of a page with figures: the palette ([CSS]), and the design of
// its text, tables and figures.
func Style() template.CSS { return CSS() + template.CSS(pageCSS) }
