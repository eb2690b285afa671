package chart

import (
	"fmt"
	"html"
	"image"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
)

// canvas draws shapes at pixels from the upper left corner.
type canvas interface {
	line(m *Mark, points []Point, width float64, dash []float64)
	area(m *Mark, points []Point)
	dot(m *Mark, at Point, radius float64)
	text(m *Mark, at Point, s string, f style)
}

// style is the style of a text.
type style struct {
	size  float64
	bold  bool
	align Align
	up    bool // rotated to read upwards
	halo  bool // outlined in the background colour, to be legible over lines
}

const (
	labelSize   = 12
	targetWidth = 8
)

// fonts are the fonts of PNG files. They also measure the text of SVG, whose font
// the reader's machine chooses: the widths of common sans-serif fonts differ little.
var fonts = sync.OnceValue(func() *font.Cache { return font.NewCache(liberation.Collection()) })

func (f style) face() font.Face {
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(f.size)}
	if f.bold {
		face.Weight = xfont.WeightBold
	}
	return fonts().Lookup(face, face.Size)
}

func (f style) width(s string) float64 {
	face := f.face()
	return float64(face.Width(s))
}

// svg writes SVG elements. If themed, colours are CSS variables of the page.
type svg struct {
	strings.Builder
	themed bool
}

func (s *svg) paint(attribute string, c Color) {
	if s.themed {
		fmt.Fprintf(s, ` %s="var(--%s)"`, attribute, palette[c.entry].name)
	} else {
		fmt.Fprintf(s, ` %s="#%06x"`, attribute, palette[c.entry].light)
	}
	if c.clarity != 0 {
		fmt.Fprintf(s, ` %s-opacity="%.2g"`, attribute, 1-c.clarity)
	}
}

func (s *svg) class(m *Mark) {
	if s.themed && m.Class != "" {
		fmt.Fprintf(s, ` class="%s"`, html.EscapeString(m.Class))
	}
}

// end closes an element, with its tooltip.
func (s *svg) end(name string, m *Mark) {
	if s.themed && m.Tip != "" {
		fmt.Fprintf(s, "><title>%s</title></%s>", html.EscapeString(m.Tip), name)
		return
	}
	s.WriteString("/>")
}

// pixel formats a coordinate with one decimal, which keeps files small.
func pixel(v float64) string {
	if v = math.Round(v*10) / 10; v != v || math.IsInf(v, 0) || v == 0 {
		return "0"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func (s *svg) path(points []Point) {
	s.WriteString(`<path d="`)
	verb := "M"
	for _, p := range points {
		if p.X != p.X || p.Y != p.Y {
			verb = "M"
			continue
		}
		s.WriteString(verb + pixel(p.X) + " " + pixel(p.Y))
		verb = "L"
	}
	s.WriteString(`"`)
}

func (s *svg) line(m *Mark, points []Point, width float64, dash []float64) {
	if s.themed && m.Tip != "" && len(points) == 2 && width < targetWidth { // widen the hover target
		s.line(&Mark{Color: m.Color}, points, width, dash)
		m = &Mark{Class: m.Class, Tip: m.Tip, Color: Ink.Fade(0)}
		width = targetWidth
	}
	s.path(points)
	s.class(m)
	s.WriteString(` fill="none"`)
	s.paint("stroke", m.Color)
	fmt.Fprintf(s, ` stroke-width="%s"`, pixel(width))
	if dash != nil {
		fmt.Fprintf(s, ` stroke-dasharray="%s"`, strings.Trim(fmt.Sprint(dash), "[]"))
	}
	s.end("path", m)
}

func (s *svg) area(m *Mark, points []Point) {
	s.path(points)
	s.class(m)
	s.paint("fill", m.Color)
	s.end("path", m)
}

func (s *svg) dot(m *Mark, at Point, radius float64) {
	fmt.Fprintf(s, `<circle cx="%s" cy="%s" r="%s"`, pixel(at.X), pixel(at.Y), pixel(radius))
	s.class(m)
	s.paint("fill", m.Color)
	s.end("circle", m)
}

func (s *svg) text(m *Mark, at Point, text string, f style) {
	fmt.Fprintf(s, `<text x="%s" y="%s"`, pixel(at.X), pixel(at.Y))
	s.class(m)
	s.paint("fill", m.Color)
	if f.size != labelSize {
		fmt.Fprintf(s, ` font-size="%s"`, pixel(f.size))
	}
	if f.bold {
		s.WriteString(` font-weight="600"`)
	}
	if f.align != Left {
		fmt.Fprintf(s, ` text-anchor="%s"`, [...]string{Center: "middle", Right: "end"}[f.align])
	}
	if f.halo {
		s.paint("stroke", Paper)
		s.WriteString(` stroke-width="3" paint-order="stroke"`)
	}
	if f.up {
		fmt.Fprintf(s, ` transform="rotate(-90 %s %s)"`, pixel(at.X), pixel(at.Y))
	}
	fmt.Fprintf(s, ">%s</text>", html.EscapeString(text))
}

// raster draws on gonum's image canvas, whose origin is the lower left corner and
// whose unit is the point.
type raster struct {
	*vgimg.Canvas
	height float64
}

func newRaster(width, height float64) *raster {
	const sharp = 2 // file pixels per picture pixel
	size := image.Rect(0, 0, int(sharp*width), int(sharp*height))
	c := vgimg.NewWith(vgimg.UseImage(image.NewRGBA(size)), vgimg.UseDPI(sharp*int(vg.Inch)))
	return &raster{c, height}
}

func (r *raster) at(p Point) vg.Point {
	return vg.Point{X: vg.Length(p.X), Y: vg.Length(r.height - p.Y)}
}

func (r *raster) path(points []Point) vg.Path {
	var path vg.Path
	pen := path.Move
	for _, p := range points {
		if p.X != p.X || p.Y != p.Y {
			pen = path.Move
			continue
		}
		pen(r.at(p))
		pen = path.Line
	}
	return path
}

func (r *raster) line(m *Mark, points []Point, width float64, dash []float64) {
	lengths := make([]vg.Length, len(dash))
	for i, d := range dash {
		lengths[i] = vg.Length(d)
	}
	r.SetColor(m.Color)
	r.SetLineWidth(vg.Length(width))
	r.SetLineDash(lengths, 0)
	r.Stroke(r.path(points))
}

func (r *raster) area(m *Mark, points []Point) {
	path := r.path(points)
	path.Close()
	r.SetColor(m.Color)
	r.Fill(path)
}

func (r *raster) dot(m *Mark, at Point, radius float64) {
	var path vg.Path
	path.Move(r.at(Point{at.X + radius, at.Y}))
	path.Arc(r.at(at), vg.Length(radius), 0, 2*math.Pi)
	path.Close()
	r.SetColor(m.Color)
	r.Fill(path)
}

func (r *raster) text(m *Mark, at Point, text string, f style) {
	if f.halo {
		f.halo = false
		for _, d := range []Point{{-1, 0}, {1, 0}, {0, -1}, {0, 1}} {
			r.text(&Mark{Color: Paper}, Point{at.X + d.X, at.Y + d.Y}, text, f)
		}
	}
	r.SetColor(m.Color)
	r.Push()
	r.Translate(r.at(at))
	if f.up {
		r.Rotate(math.Pi / 2)
	}
	shift := [...]float64{Left: 0, Center: .5, Right: 1}[f.align] * f.width(text)
	r.FillString(f.face(), vg.Point{X: vg.Length(-shift)}, text)
	r.Pop()
}

func (r *raster) writeTo(w io.Writer) error {
	_, err := vgimg.PngCanvas{Canvas: r.Canvas}.WriteTo(w)
	return err
}
