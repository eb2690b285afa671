package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay/plan"
	"github.com/autosched/autosched/round"
)

// page draws recorded beside simulated waits.
func (r *fidelityReport) page() (*chart.Page, error) {
	if len(r.Groups) == 0 {
		return nil, errors.New("--plot: no recorded delay is compared, so there is nothing to draw")
	}
	p, err := cli.NewPage(fmt.Sprintf("fidelity: %s on %s", r.Scheduler, r.Trace), r.Synthetic, r.Graded.String()+".",
		r.print)
	if err != nil {
		return nil, err
	}
	var kinds []string
	for i := range r.Groups {
		if !slices.Contains(kinds, r.Groups[i].By) {
			kinds = append(kinds, r.Groups[i].By)
		}
	}
	p.First = r.waits(kinds[0])
	p.First.Title = "Waits, recorded and simulated, by " + kinds[0]
	if len(kinds) == 1 {
		return p, nil
	}
	s := chart.Section{Title: "Waits, recorded and simulated", Hint: "Mean queueing delay of the jobs of a group."}
	for _, by := range kinds[1:] {
		s.Rows = append(s.Rows, chart.Row{Height: 280, Charts: []*chart.Chart{r.waits(by)}})
	}
	p.Sections = append(p.Sections, s)
	return p, nil
}

// waits has two bars for each group of jobs.
func (r *fidelityReport) waits(by string) *chart.Chart {
	b := chart.Bars{Title: "By " + by, Axis: "mean wait, hours", Series: []string{"recorded", "simulated"}}
	var groups []*fidelity.Group
	for i := range r.Groups {
		if g := &r.Groups[i]; g.By == by {
			groups, b.Groups = append(groups, g), append(b.Groups, g.Name)
		}
	}
	b.Value = func(i, series int) (float64, string) {
		g := groups[i]
		v := []float64{g.Recorded, g.Simulated}[series]
		return v / 3600, fmt.Sprintf("%s %s, %s: %s", by, g.Name, b.Series[series], units.Duration(v))
	}
	return b.Chart()
}

// page draws each metric against the number of nodes.
func (r *planReport) page() (*chart.Page, error) {
	lead := r.Verdict.Text
	if r.Answer != nil {
		lead = r.answer()
	}
	p, err := cli.NewPage(fmt.Sprintf("plan: %s on %s", r.Scheduler, r.Trace), r.Synthetic, lead, r.print)
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
	p.First = charts[0]
	p.First.Title += " by the number of nodes"
	if len(charts) == 1 {
		return p, nil
	}
	s := chart.Section{Title: "By the number of nodes", Hint: "The band is the 95 % interval; dots were simulated."}
	for pair := range slices.Chunk(charts[1:], 2) {
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
