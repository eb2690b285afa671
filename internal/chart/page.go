package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
)

// Page is a self-contained HTML page of figures and text in the design of [Style].
type Page struct {
	Name      string
	Synthetic bool
	// Lead is the page's message, in a sentence; Class is good, bad or open. Details
	// follow it.
	Lead, Class string
	Details     []string
	Facts       []Fact
	Sections    []Section
	Text        string // as the command prints it
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

// pageWidth is the width of figures on a screen, phoneWidth on a phone, in pixels.
const pageWidth, phoneWidth = 1076, 340

var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Name}}</title>
<style>
{{.Style}}
</style>
</head>
<body>
<main>
<header><h1>{{.Name}}</h1>{{if .Synthetic}}<span class="badge">SYNTHETIC WORKLOAD</span>{{end}}</header>
{{if .Lead}}<div class="verdict {{.Class}}">
<h2>{{.Lead}}</h2>
{{range .Details}}<p>{{.}}</p>
{{end}}</div>
{{end}}{{if .Facts}}<section>
<dl class="facts">
{{range .Facts}}<div{{if .Mono}} class="mono"{{end}}><dt>{{.Name}}</dt><dd>{{.Value}}</dd></div>
{{end}}</dl>
</section>
{{end}}{{range .Figures}}<section>
<h2>{{.Title}}</h2>
{{with .Hint}}<p class="hint">{{.}}</p>
{{end}}{{range .Rows}}<div class="figs figs{{.Columns}}">
{{range .Figures}}<figure>{{with .Title}}<h3>{{.}}</h3>{{end}}{{range .Pictures}}{{.}}{{end}}</figure>
{{end}}</div>
{{end}}</section>
{{end}}{{with .Text}}<section>
<h2>As text</h2>
<div class="scroll"><pre>{{.}}</pre></div>
</section>
{{end}}</main>
</body>
</html>
`))

// Picture is all figures of the page, for a file without text.
func (p *Page) Picture() *Picture {
	out := &Picture{Label: p.Name, Width: 1240}
	if p.Synthetic {
		out.Label += " (synthetic)"
	}
	for _, s := range p.Sections {
		out.Rows = append(out.Rows, s.Rows...)
	}
	return out
}

// figureSection, figureRow and figure are a section's data in the template.
type figureSection struct {
	Section
	Rows []figureRow
}

type figureRow struct {
	Columns int
	Figures []figure
}

type figure struct {
	Title    string
	Pictures []template.HTML
}

// Write writes the page's HTML.
func (p *Page) Write(w io.Writer) error {
	var sections []figureSection
	for _, s := range p.Sections {
		out := figureSection{Section: s}
		for _, r := range s.Rows {
			row := figureRow{Columns: len(r.Charts)}
			for _, c := range r.Charts {
				if c != nil {
					row.Figures = append(row.Figures, newFigure(c, &r, cmp.Or(c.Title, s.Title)))
				}
			}
			out.Rows = append(out.Rows, row)
		}
		sections = append(sections, out)
	}
	return pageTemplate.Execute(w, struct {
		*Page
		Style   template.CSS
		Figures []figureSection
	}{p, Style(), sections})
}

// newFigure draws a chart of a row once for a screen and once for a phone, so that its
// text keeps its size. The title is text of the page.
func newFigure(c *Chart, r *Row, label string) figure {
	drawn := *c
	drawn.Title = ""
	draw := func(width float64, class string) template.HTML {
		p := Picture{Label: label, Width: width, Rows: []Row{{Height: r.Height, Charts: []*Chart{&drawn}}}}
		return p.HTML(class)
	}
	columns := float64(len(r.Charts))
	if r.Least > phoneWidth { // one drawing, which scrolls
		width := math.Max(pageWidth, r.Least)
		begin := fmt.Sprintf(`<div class="scroll"><div style="min-width:%.0fpx">`, width)
		return figure{c.Title, []template.HTML{template.HTML(begin), draw(width, "fig"), "</div></div>"}}
	}
	return figure{c.Title, []template.HTML{draw(math.Floor((pageWidth-22*(columns-1))/columns), "fig wide"),
		draw(phoneWidth, "fig narrow")}}
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
