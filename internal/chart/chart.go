// Package chart draws lines, areas, dots and text over two axes, as SVG or PNG files
// and as SVG inside HTML pages, where colours follow the reader's light or dark
// scheme. Lengths are in pixels.
package chart

import (
	"cmp"
	"math"
	"slices"
)

// Chart is a plot of layers over two axes, with a title and a legend.
type Chart struct {
	Title  string
	X, Y   Axis
	Layers []Layer // in drawing order; named ones appear in the legend
}

// Axis is an axis of a chart.
type Axis struct {
	Name     string // with unit
	Log      bool   // logarithmic if the whole range is above 0
	Min, Max float64
	// Min and Max fix the range. If they are equal, the range is that of the layers
	// and of Include, with a margin.
	Include []float64
	Ticks   []Tick // default: round numbers, as many as there is room for
	Labels  bool   // ticks are category names, without grid lines
}

// Tick is a labelled value of an axis.
type Tick struct {
	Value float64
	Label string
}

// Point is a point in axis units. An infinite coordinate is at the edge of the
// chart.
type Point struct{ X, Y float64 }

// Mark holds the properties common to all layers.
type Mark struct {
	Name  string // for the legend
	Class string // CSS class in HTML
	Tip   string // tooltip in HTML
	Color Color
}

// Layer is implemented by Line, Area, Dots and Text.
type Layer interface {
	mark() *Mark
	points() []Point
	draw(c canvas, p *plane)
	sample(c canvas, x, y float64) // draws the legend's sample, sampleWidth wide and centred at y
}

// Line connects points. A point with a NaN coordinate interrupts it.
type Line struct {
	Mark
	Points []Point
	Width  float64   // default 1.5
	Dash   []float64 // lengths of dashes and gaps; default solid
}

// Area fills a polygon.
type Area struct {
	Mark
	Points []Point
}

// Dots are circles at points; points with a NaN coordinate are skipped.
type Dots struct {
	Mark
	Points []Point
	Radius float64 // default 2.5
}

// Text is a label at a point.
type Text struct {
	Mark
	At     Point
	Text   string
	Align  Align
	Bold   bool
	DX, DY float64 // offset in pixels, right and down
}

// Align selects the part of a text at its point.
type Align int

// The alignments.
const (
	Left Align = iota
	Center
	Right
)

// Box returns the rectangle between two corners.
func Box(x0, y0, x1, y1 float64) []Point {
	return []Point{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}
}

// Steps returns a step curve: each value holds from its X to the next X, and the
// last until end.
func Steps(values []Point, end float64) []Point {
	var out []Point
	for i, v := range values {
		to := end
		if i+1 < len(values) {
			to = values[i+1].X
		}
		out = append(out, v, Point{to, v.Y})
	}
	return out
}

// Under returns the area between a curve and the lower edge of the chart.
func Under(curve []Point) []Point {
	if len(curve) == 0 {
		return nil
	}
	last := curve[len(curve)-1]
	return append(slices.Clone(curve), Point{last.X, math.Inf(-1)}, Point{curve[0].X, math.Inf(-1)})
}

func (m *Mark) mark() *Mark { return m }

func (l *Line) points() []Point { return l.Points }
func (a *Area) points() []Point { return a.Points }
func (d *Dots) points() []Point { return d.Points }
func (t *Text) points() []Point { return []Point{t.At} }

func (l *Line) draw(c canvas, p *plane) {
	c.line(&l.Mark, p.places(l.Points), l.width(), l.Dash)
}

func (l *Line) width() float64 { return cmp.Or(l.Width, 1.5) }

func (a *Area) draw(c canvas, p *plane) { c.area(&a.Mark, p.places(a.Points)) }

func (d *Dots) radius() float64 { return cmp.Or(d.Radius, 2.5) }

func (d *Dots) draw(c canvas, p *plane) {
	for _, at := range d.Points {
		if at.X == at.X && at.Y == at.Y {
			c.dot(&d.Mark, p.place(at), d.radius())
		}
	}
}

func (t *Text) draw(c canvas, p *plane) {
	at := p.place(t.At)
	c.text(&t.Mark, Point{at.X + t.DX, at.Y + t.DY}, t.Text,
		style{size: labelSize, bold: t.Bold, align: t.Align, halo: true})
}

const sampleWidth = 18

func (l *Line) sample(c canvas, x, y float64) {
	c.line(&Mark{Color: l.Color}, []Point{{x, y}, {x + sampleWidth, y}}, l.width(), l.Dash)
}

func (a *Area) sample(c canvas, x, y float64) {
	c.area(&Mark{Color: a.Color}, Box(x, y-5, x+sampleWidth, y+5))
}

func (d *Dots) sample(c canvas, x, y float64) {
	c.dot(&Mark{Color: d.Color}, Point{x + sampleWidth/2, y}, d.radius())
}

func (t *Text) sample(canvas, float64, float64) {}
