package explain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/render"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
)

// graphPage draws a causal graph: the links of the first objective by their strength, and all of it.
func graphPage(name string, d *causal.Document) (*chart.Page, error) {
	if len(d.Edges) == 0 {
		return nil, errors.New("--plot: the graph has no edge to draw")
	}
	subject := subjectOf(d)
	p, err := cli.NewPage("causal graph: "+name, false, graphMessage(d, subject), func(w io.Writer) error {
		return render.Table(w, d)
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range d.Warnings {
		p.Details = append(p.Details, "Warning: "+warning+".")
	}
	p.First = linksChart(d, subject)
	whole := drawGraph(d)
	p.Sections = []chart.Section{{Title: "The graph", Hint: "From causes on the left to effects on the right; a line is " +
		"as wide as its link is strong. Variables without a link are left out.",
		Rows: []chart.Row{{Height: whole.height(), Charts: []*chart.Chart{whole.chart()}, Least: chart.PageWidth}}}}
	return p, nil
}

// subjectOf is the variable that the page's answer is about: the first objective with a link, otherwise the variable
// with most.
func subjectOf(d *causal.Document) string {
	most, best := 0, ""
	for _, n := range d.Nodes {
		links := len(linksOf(d, n.ID))
		if n.Tier == causal.TierObjective && links > 0 {
			return n.ID
		}
		if links > most {
			most, best = links, n.ID
		}
	}
	return best
}

// printGraph prints the answer of a graph's page, and its table.
func printGraph(w io.Writer, d *causal.Document) error {
	if len(d.Edges) > 0 {
		table.Strong(w, graphMessage(d, subjectOf(d)))
		fmt.Fprintln(w)
	}
	return render.Table(w, d)
}

// link is an edge seen from one of its ends.
type link struct {
	causal.Edge
	other       string
	mark, there causal.Mark // at this end and at the other
}

// linksOf are the links of a variable, the strongest first.
func linksOf(d *causal.Document, id string) (out []link) {
	for _, e := range d.Edges {
		switch id {
		case e.Source:
			out = append(out, link{e, e.Target, e.MarkSource, e.MarkTarget})
		case e.Target:
			out = append(out, link{e, e.Source, e.MarkTarget, e.MarkSource})
		}
	}
	slices.SortStableFunc(out, func(a, b link) int { return -cmp.Compare(strength(&a.Edge), strength(&b.Edge)) })
	return out
}

// strength of an edge, 0 where it is not known.
func strength(e *causal.Edge) float64 {
	if e.Strength == nil {
		return 0
	}
	return *e.Strength
}

// graphMessage says which parameters have a way to a variable, and which link to it is the strongest.
func graphMessage(d *causal.Document, subject string) string {
	parameters, leading := 0, []string{}
	leads := ancestors(d, subject)
	for _, n := range d.Nodes {
		if n.Tier == causal.TierConfig {
			if parameters++; leads[n.ID] {
				leading = append(leading, n.ID)
			}
		}
	}
	var text []string
	switch {
	case parameters > 0 && len(leading) == 0:
		text = append(text, fmt.Sprintf("No parameter has a way to %s.", subject))
	case parameters > 0:
		text = append(text, fmt.Sprintf("Of %s, %d %s a way to %s: %s.", units.Plural(parameters, "parameter"),
			len(leading), map[bool]string{true: "has", false: "have"}[len(leading) == 1], subject,
			strings.Join(leading, ", ")))
	default:
		text = append(text, fmt.Sprintf("%s of %d variables; %s has most.", units.Plural(len(d.Edges), "link"),
			len(d.Nodes), subject))
	}
	if links := linksOf(d, subject); len(links) > 0 && links[0].Strength != nil {
		text = append(text, fmt.Sprintf("The strongest link of %s is with %s: %s.", subject, links[0].other,
			kindOf(&links[0]).says))
	}
	if d.Learning != nil && !d.Learning.Complete {
		text = append(text, "Time ran out while the graph was learned: it has surplus links.")
	}
	return strings.Join(text, " ")
}

// ancestors are the variables with a directed way to one, in the directed graph that is computed with, if there is one.
func ancestors(d *causal.Document, id string) map[string]bool {
	into := map[string][]string{}
	if d.DAG != nil {
		for _, e := range d.DAG.Edges {
			into[e.Target] = append(into[e.Target], e.Source)
		}
	} else {
		for _, n := range d.Nodes {
			for _, l := range linksOf(d, n.ID) {
				if l.mark == causal.Arrow && l.there == causal.Tail {
					into[n.ID] = append(into[n.ID], l.other)
				}
			}
		}
	}
	out, open := map[string]bool{}, []string{id}
	for len(open) > 0 {
		at := open[0]
		open = open[1:]
		for _, cause := range into[at] {
			if !out[cause] {
				out[cause], open = true, append(open, cause)
			}
		}
	}
	return out
}

// linkKind describes a link.
type linkKind struct {
	says, legend string
	color        chart.Color
	dash         []float64
}

// kindOf is the kind of a link, as its marks say it.
func kindOf(l *link) linkKind {
	const hidden = "something hidden moves both"
	cause, effect, sure := l.other, l.end(), l.there == causal.Tail
	if l.there == causal.Arrow {
		cause, effect, sure = effect, cause, l.mark == causal.Tail
	}
	switch {
	case l.mark == causal.Arrow && l.there == causal.Arrow:
		return linkKind{hidden, hidden, chart.Orange, cli.DashedLine}
	case l.mark != causal.Arrow && l.there != causal.Arrow:
		return linkKind{"the direction is not known", "direction not known", chart.Gray, cli.DashedLine}
	case sure:
		return linkKind{cause + " causes " + effect, "causes", chart.Blue, nil}
	}
	return linkKind{cause + " causes " + effect + ", or " + hidden, "causes, or " + hidden, chart.Series(7), nil}
}

// end is the variable from which a link is seen.
func (l *link) end() string {
	if l.other == l.Source {
		return l.Target
	}
	return l.Source
}

// mostLinks bounds the rows of the first figure.
const mostLinks = 12

// linksChart draws the strengths of a variable's links; nil if none is known.
func linksChart(d *causal.Document, id string) *chart.Chart {
	var rows []chart.Estimate
	for _, l := range linksOf(d, id) {
		if l.Strength == nil || len(rows) == mostLinks {
			continue
		}
		kind := kindOf(&l)
		rows = append(rows, chart.Estimate{Name: l.other, Value: *l.Strength, Low: *l.Strength, High: *l.Strength,
			Color: kind.color, Tip: fmt.Sprintf("%s: strength %.2f; %s", l.other, *l.Strength, kind.says)})
	}
	if len(rows) == 0 {
		return nil
	}
	c := chart.Estimates("strength of the link, of 1", 95, 0, rows)
	c.X.Include = append(c.X.Include, 1)
	c.Title = "Links of " + id
	return c
}

// drawing places the variables of a graph in columns, from causes to effects.
type drawing struct {
	*causal.Document
	names []string // of columns
	at    map[string]chart.Point
	rows  int
}

func drawGraph(d *causal.Document) *drawing {
	out := &drawing{Document: d, at: map[string]chart.Point{}}
	for _, tier := range append(causal.TierNames(), "") {
		var column []string
		for _, n := range d.Nodes {
			if n.Tier == tier && len(linksOf(d, n.ID)) > 0 {
				column = append(column, n.ID)
			}
		}
		if column == nil {
			continue
		}
		for i, id := range column {
			out.at[id] = chart.Point{X: float64(len(out.names)), Y: -(float64(i) + .5) / float64(len(column))}
		}
		out.names, out.rows = append(out.names, cmp.Or(tier, "variables")), max(out.rows, len(column))
	}
	return out
}

// rowHeight is the height of a variable's row in pixels, and columnWidth about the distance of columns.
const rowHeight, columnWidth = 34, 300

func (g *drawing) height() float64 { return max(220, float64(g.rows)*rowHeight+90) }

func (g *drawing) chart() *chart.Chart {
	c := &chart.Chart{Title: "All links", X: chart.Axis{Min: -.55, Max: float64(len(g.names)) - .45, Labels: true},
		Y: chart.Axis{Min: -1, Max: .03, Ticks: []chart.Tick{}, Labels: true}}
	for i, name := range g.names {
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(i), Label: name})
	}
	named := map[string]bool{}
	for _, e := range g.Edges {
		l := link{e, e.Source, e.MarkTarget, e.MarkSource}
		kind := kindOf(&l)
		m := chart.Mark{Color: kind.color, Tip: fmt.Sprintf("%s %s %s", e.Source,
			causal.Arrows(e.MarkSource, e.MarkTarget), e.Target)}
		if e.Strength != nil {
			m.Tip += fmt.Sprintf(", strength %.2f", *e.Strength)
		}
		if !named[kind.legend] {
			m.Name, named[kind.legend] = kind.legend, true
		}
		curve := g.curve(g.at[e.Source], g.at[e.Target])
		c.Layers = append(c.Layers, &chart.Line{Mark: m, Points: curve, Width: 1 + 2*strength(&e), Dash: kind.dash})
		m.Name = ""
		n := len(curve) - 1
		if e.MarkTarget == causal.Arrow {
			c.Layers = append(c.Layers, &chart.Area{Mark: m, Points: g.head(curve[n-1], curve[n])})
		}
		if e.MarkSource == causal.Arrow {
			c.Layers = append(c.Layers, &chart.Area{Mark: m, Points: g.head(curve[1], curve[0])})
		}
	}
	for _, n := range g.Nodes {
		at, drawn := g.at[n.ID]
		if !drawn {
			continue
		}
		t := &chart.Text{Mark: chart.Mark{Color: chart.Ink, Tip: n.ID}, At: at, Text: chart.Clip(n.ID, 28), DY: -7,
			Align: chart.Center}
		c.Layers = append(c.Layers, &chart.Dots{Mark: t.Mark, Points: []chart.Point{at}, Radius: 3}, t)
	}
	return c
}

// scale is the size of a unit of both axes in pixels, about.
func (g *drawing) scale() (x, y float64) { return columnWidth, g.height() - 90 }

// curve is a line between variables, which bends to the right between those of one column.
func (g *drawing) curve(a, b chart.Point) (out []chart.Point) {
	const steps = 16
	bend := 0.
	if a.X == b.X {
		bend = .1 + .5*math.Abs(a.Y-b.Y)
	}
	for i := range steps + 1 {
		t := float64(i) / steps
		out = append(out, chart.Point{X: a.X + (b.X-a.X)*t + bend*4*t*(1-t)*.5, Y: a.Y + (b.Y-a.Y)*t})
	}
	return out
}

// head is the head of an arrow.
func (g *drawing) head(from, to chart.Point) []chart.Point {
	const length, half, gap = 9, 4, 4 // pixels
	sx, sy := g.scale()
	dx, dy := (to.X-from.X)*sx, (to.Y-from.Y)*sy
	n := math.Hypot(dx, dy)
	dx, dy = dx/n, dy/n
	at := func(back, aside float64) chart.Point {
		return chart.Point{X: to.X + (-back*dx-aside*dy)/sx, Y: to.Y + (-back*dy+aside*dx)/sy}
	}
	return []chart.Point{at(gap, 0), at(gap+length, half), at(gap+length, -half)}
}
