// Package chart draws lines, areas, dots and text over two axes, as SVG or PNG
// files and as SVG inside HTML pages, where colours follow the reader's light or
// dark scheme. Lengths are in pixels. Graphs of nodes and edges are not charts:
// causal/render draws them.
package chart

import (
	"math"
	"slices"
)

// Chart is layers over two axes, with a title and a legend above.
type Chart struct {
	Title  string
	X, Y   Axis
	Layers []Layer // drawn in this order; those with a name are in the legend
}

// Axis is one direction of a chart.
type Axis struct {
	Name     string // with the unit
	Log      bool   // logarithmic, if all of the range is above 0
	Min, Max float64
	// Min and Max fix the range; equal, the range is that of the layers and of
	// Include, with a margin.
	Include []float64
	Ticks   []Tick // nil: round numbers, as many as there is room for
	Labels  bool   // ticks are names of categories, without grid lines
}

// Tick is a labelled value of an axis.
type Tick struct {
	Value float64
	Label string
}

// Point is a place in the units of the axes. An infinite coordinate is the edge
// of the chart.
type Point struct{ X, Y float64 }

// Mark is what all layers have.
type Mark struct {
	Name  string // in the legend
	Class string // CSS class in HTML
	Tip   string // shown in HTML when pointed at
	Color Color
}

// Layer is a Line, an Area, Dots or a Text.
type Layer interface {
	mark() *Mark
	points() []Point
	draw(c canvas, p *plane)
	sample(c canvas, x, y float64) // in the legend, sampleWidth wide around y
}

// Line connects points. A NaN coordinate breaks it.
type Line struct {
	Mark
	Points []Point
	Width  float64   // default 1.5
	Dash   []float64 // lengths of dashes and gaps; nil: solid
}

// Area fills the polygon of its points.
type Area struct {
	Mark
	Points []Point
}

// Dots are circles around points; a point with a NaN coordinate has none.
type Dots struct {
	Mark
	Points []Point
	Radius float64 // default 2.5
}

// Text is a label at a place.
type Text struct {
	Mark
	At     Point
	Text   string
	Align  Align
	Bold   bool
	DX, DY float64 // offset in pixels, right and down
}

// Align says which end of a text is at its place.
type Align int

// Alignments of a text.
const (
	Left Align = iota
	Center
	Right
)

// Box is the rectangle between two corners.
func Box(x0, y0, x1, y1 float64) []Point {
	return []Point{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}
}

// Steps is a curve that holds each value from its X to the X of the next, and
// the last until end.
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

// Under is the area between a curve and the lower edge of the chart.
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

func (l *Line) width() float64 {
	if l.Width == 0 {
		return 1.5
	}
	return l.Width
}

func (a *Area) draw(c canvas, p *plane) { c.area(&a.Mark, p.places(a.Points)) }

func (d *Dots) radius() float64 {
	if d.Radius == 0 {
		return 2.5
	}
	return d.Radius
}

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
