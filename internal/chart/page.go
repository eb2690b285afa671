package chart

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

// Page is a self-contained HTML page of figures and text in the design of [Style].
type Page struct {
	Name      string
	Synthetic bool
	// Lead is the page's message, in a sentence; Class is good, bad or open. Details
	// follow it, and First stands beside it: the figure that shows it.
	Lead, Class string
	Details     []string
	First       *Chart
	Facts       []Fact
	Sections    []Section
	Text        string // as the command prints it
}

// Say makes sentences the message: the first leads, the others are details.
func (p *Page) Say(text string) {
	lead, rest, more := strings.Cut(text, ". ")
	if p.Lead = lead; more {
		p.Lead, p.Details = lead+".", append(p.Details, rest)
	}
}

// Fact is a name with its value.
type Fact struct {
	Name, Value string
	Mono        bool // a configuration or a digest, across the page
}

// Section is a part of a page.
type Section struct {
	Title, Hint string
	Rows        []Row
}

// Sizes of figures in pixels: PageWidth is that across a screen, PhoneWidth that on a phone, and the first figure is
// beside the message.
const (
	PageWidth, PhoneWidth   = 1076, 340
	firstWidth, firstHeight = 505, 300
)

//go:embed page.html.tmpl
var pageText string

// html/template escapes by context. Marked safe are the drawings and the style sheet of this package, which escapes the
// text in them.
var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Template returns the templates that pages of other packages share with [Page]: "top" of a [Frame] begins a page, with
// its message and first figure; "figure" is of a [Figure], "facts" of facts, and "end" of the page's last line.
func Template() *template.Template { return template.Must(pageTemplate.Clone()) }

// Frame is the begin of a page.
type Frame struct {
	*Page
	Style template.CSS
	First *Figure
}

// Frame returns the begin of the page, with rules of style of its own.
func (p *Page) Frame(rules template.CSS) Frame {
	f := Frame{Page: p, Style: Style() + rules}
	if p.First != nil {
		f.First = newFigure(p.First, cmp.Or(p.First.Title, p.Name), p.First.height(), firstWidth)
	}
	return f
}

// height is that of the first figure of a page.
func (c *Chart) height() float64 {
	if c.Y.Labels {
		return max(160, RowsHeight(len(c.Y.Ticks)))
	}
	return firstHeight
}

// Figure is a drawing with its title.
type Figure struct {
	Title   string
	Drawing template.HTML
}

// Picture is all figures of the page, for a file without text.
func (p *Page) Picture() *Picture {
	out := &Picture{Label: p.Name, Width: 1240}
	if p.Synthetic {
		out.Label += " (synthetic)"
	}
	if p.First != nil {
		out.Rows = append(out.Rows, Row{Height: p.First.height(), Charts: []*Chart{p.First}})
	}
	for _, s := range p.Sections {
		out.Rows = append(out.Rows, s.Rows...)
	}
	return out
}

// figureSection and figureRow are a section's data in the template.
type figureSection struct {
	Section
	Rows []figureRow
}

type figureRow struct {
	Columns int
	Figures []*Figure
}

// Write writes the page's HTML.
func (p *Page) Write(w io.Writer) error {
	var sections []figureSection
	for _, s := range p.Sections {
		out := figureSection{Section: s}
		for _, r := range s.Rows {
			row := figureRow{Columns: len(r.Charts)}
			width := math.Floor(float64(PageWidth-22*(row.Columns-1)) / float64(row.Columns))
			for _, c := range r.Charts {
				switch {
				case c == nil:
				case r.Least > PhoneWidth:
					row.Figures = append(row.Figures, scrolled(c, &r, cmp.Or(c.Title, s.Title)))
				default:
					row.Figures = append(row.Figures, newFigure(c, cmp.Or(c.Title, s.Title), r.Height, width))
				}
			}
			out.Rows = append(out.Rows, row)
		}
		sections = append(sections, out)
	}
	return pageTemplate.Execute(w, struct {
		Frame
		Figures []figureSection
	}{p.Frame(""), sections})
}

// newFigure draws a chart. The title is text of the page.
func newFigure(c *Chart, label string, height, width float64) *Figure {
	drawn := *c
	drawn.Title = ""
	return &Figure{c.Title, Responsive(label, height, width, func(float64) *Chart { return &drawn })}
}

// Responsive draws a chart once for a screen and once for a phone, so that its text keeps its size.
func Responsive(label string, height, width float64, draw func(width float64) *Chart) template.HTML {
	return drawing(label, height, width, "fig wide", draw(width)) +
		drawing(label, height, PhoneWidth, "fig narrow", draw(PhoneWidth))
}

// scrolled draws a chart of a row once, which scrolls on a phone.
func scrolled(c *Chart, r *Row, label string) *Figure {
	drawn := *c
	drawn.Title = ""
	width := max(PageWidth, r.Least)
	return &Figure{c.Title, template.HTML(fmt.Sprintf(`<div class="scroll"><div style="min-width:%.0fpx">`, width)) +
		drawing(label, r.Height, width, "fig", &drawn) + "</div></div>"}
}

func drawing(label string, height, width float64, class string, c *Chart) template.HTML {
	p := Picture{Label: label, Width: width, Rows: []Row{{Height: height, Charts: []*Chart{c}}}}
	return p.HTML(class)
}

// Bands returns transparent layers that give a curve's values where the pointer is: each
// reaches half of the way to the next point. Of many points, some are left out.
func Bands(curve []Point, log bool, tip func(i int) string) []Layer {
	const most = 240
	step := len(curve)/most + 1
	middle := func(a, b float64) float64 {
		if log && a > 0 && b > 0 {
			return math.Sqrt(a * b)
		}
		return (a + b) / 2
	}
	var out []Layer
	from := math.Inf(-1)
	for i := 0; i < len(curve); i += step {
		to := math.Inf(1)
		if i+step < len(curve) {
			to = middle(curve[i].X, curve[i+step].X)
		}
		out = append(out, &Area{Mark: Mark{Class: "band", Tip: tip(i), Color: Ink.Fade(0)},
			Points: Box(from, math.Inf(-1), to, math.Inf(1))})
		from = to
	}
	return out
}
