package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay/plan"
	"github.com/autosched/autosched/round"
)

// pageOf begins the page of a command, whose text is what it prints.
func pageOf(name string, synthetic bool, lead string, print func(*strings.Builder) error) (*chart.Page, error) {
	var text strings.Builder
	if err := print(&text); err != nil {
		return nil, err
	}
	return &chart.Page{Name: "AutoSched " + name, Synthetic: synthetic, Lead: lead, Class: "open",
		Text: text.String()}, nil
}

// page draws recorded beside simulated waits.
func (r *fidelityReport) page() (*chart.Page, error) {
	if len(r.Groups) == 0 {
		return nil, errors.New("--plot: no recorded delay is compared, so there is nothing to draw")
	}
	p, err := pageOf(fmt.Sprintf("fidelity: %s on %s", r.Scheduler, r.Trace), r.Synthetic, r.Graded.String(),
		func(text *strings.Builder) error { return r.print(text) })
	if err != nil {
		return nil, err
	}
	var kinds []string
	for i := range r.Groups {
		if !slices.Contains(kinds, r.Groups[i].By) {
			kinds = append(kinds, r.Groups[i].By)
		}
	}
	s := chart.Section{Title: "Waits, recorded and simulated", Hint: "Mean queueing delay of the jobs of a group."}
	for _, by := range kinds {
		s.Rows = append(s.Rows, chart.Row{Height: 280, Charts: []*chart.Chart{r.waits(by)}})
	}
	p.Sections = append(p.Sections, s)
	return p, nil
}

// waits has two bars for each group of jobs.
func (r *fidelityReport) waits(by string) *chart.Chart {
	c := &chart.Chart{Title: "By " + by,
		Y: chart.Axis{Name: "mean wait, hours", Include: []float64{0, .1}}}
	n := 0.0
	for i := range r.Groups {
		g := &r.Groups[i]
		if g.By != by {
			continue
		}
		for k, v := range []float64{g.Recorded, g.Simulated} {
			m := chart.Mark{Color: []chart.Color{chart.Gray, chart.Blue}[k],
				Tip: fmt.Sprintf("%s %s, %s: %s", by, g.Name, []string{"recorded", "simulated"}[k], units.Duration(v))}
			if n == 0 {
				m.Name = []string{"recorded", "simulated"}[k]
			}
			at := n - .38 + .38*float64(k)
			c.Layers = append(c.Layers, &chart.Area{Mark: m, Points: chart.Box(at, 0, at+.36, v/3600)})
		}
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: n, Label: chart.Clip(g.Name, 10)})
		n++
	}
	return c
}

// page draws each metric against the number of nodes.
func (r *planReport) page() (*chart.Page, error) {
	lead := r.Verdict.Text
	if r.Answer != nil {
		lead = r.answer()
	}
	p, err := pageOf(fmt.Sprintf("plan: %s on %s", r.Scheduler, r.Trace), r.Synthetic, lead,
		func(text *strings.Builder) error { return r.print(text) })
	if err != nil {
		return nil, err
	}
	var cases []*plan.Case
	for i := range r.Cases {
		if c := &r.Cases[i]; c.Refused == "" && len(c.Tenants) == 0 {
			cases = append(cases, c)
		}
	}
	slices.SortStableFunc(cases, func(a, b *plan.Case) int { return cmp.Compare(a.Nodes, b.Nodes) })
	var charts []*chart.Chart
	for k := range r.Cases[0].Metrics {
		charts = append(charts, planned(cases, k))
	}
	s := chart.Section{Title: "By the number of nodes", Hint: "The band is the 95 % interval; dots were simulated."}
	for pair := range slices.Chunk(charts, 2) {
		s.Rows = append(s.Rows, chart.Row{Height: 300, Charts: pair})
	}
	p.Sections = append(p.Sections, s)
	return p, nil
}

// planned is a metric of the cases.
func planned(cases []*plan.Case, metric int) *chart.Chart {
	name := cases[0].Metrics[metric].Metric
	scale, unit := 1., ""
	if round.Unit(name) == "s" {
		scale, unit = 3600, ", hours"
	}
	var curve, band, low []chart.Point
	var nodes []chart.Tick
	for _, c := range cases {
		m, x := &c.Metrics[metric], float64(c.Nodes)
		nodes = append(nodes, chart.Tick{Value: x, Label: strconv.Itoa(c.Nodes)})
		curve = append(curve, chart.Point{X: x, Y: m.Value / scale})
		band = append(band, chart.Point{X: x, Y: m.High / scale})
		low = append(low, chart.Point{X: x, Y: m.Low / scale})
	}
	slices.Reverse(low)
	return &chart.Chart{Title: name, X: chart.Axis{Name: "nodes", Ticks: nodes},
		Y: chart.Axis{Name: round.Label(name) + unit, Include: []float64{0, .1}},
		Layers: []chart.Layer{
			&chart.Area{Mark: chart.Mark{Color: chart.Blue.Fade(.14)}, Points: append(band, low...)},
			&chart.Line{Mark: chart.Mark{Color: chart.Blue}, Points: curve},
			&chart.Dots{Mark: chart.Mark{Color: chart.Blue}, Points: curve, Radius: 3.5},
		}}
}
