package report

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Figures are the figures of an evaluation by themselves: JCTs, waits and the gain of each method.
func Figures(r *replay.Report) *chart.Page {
	p := &page{document: document{r}}
	rows := p.rows()
	for i := range r.Methods {
		p.Swatches = append(p.Swatches, swatch{Of: i, Name: r.Methods[i].Method, Slot: i})
	}
	out := &chart.Page{Name: fmt.Sprintf("AutoSched evaluate: %s on %s", r.Scheduler, r.Trace), Synthetic: r.Synthetic,
		Facts: []chart.Fact{{Name: "Window", Value: r.From + " to " + r.To}, {Name: "Jobs", Value: units.Count(r.Jobs)},
			{Name: "Cluster", Value: r.Cluster.String()}, {Name: "Baseline", Value: r.Baseline.Method}}}
	out.Lead, out.Class = "Keep the settings", "open"
	if v := r.Verdict; v != nil {
		out.Details = []string{v.Text}
		if v.Change {
			out.Lead, out.Class = "Change the settings", "good"
		}
	}
	out.Sections = distributions(p.Swatches, rows, r.Counted)
	ratios := p.ratios(wide)
	ratios.Title = "Average JCT of the baseline over the method's"
	charts := []*chart.Chart{ratios}
	if gains := p.gains(sorted(rows, replay.JobRows.JCTs)); gains != nil {
		inLegend(gains, p.Swatches)
		charts = append(charts, gains)
	}
	out.Sections = append(out.Sections, chart.Section{Title: "Gain", Hint: "Above 1 is better.",
		Rows: []chart.Row{{Height: max(200, ratioRow*float64(len(r.Methods))+90), Charts: charts}}})
	return out
}

// ComparisonFigures are the figures of a comparison by themselves: JCTs and waits of each row in all windows.
func ComparisonFigures(c *replay.Comparison) *chart.Page {
	out := &chart.Page{Name: "AutoSched compare: configurations on " + c.Trace, Synthetic: c.Synthetic, Class: "open",
		Facts: []chart.Fact{{Name: "Cluster", Value: c.Cluster.String()}, {Name: "Baseline", Value: c.Rows[0].Name}}}
	var text string
	if out.Lead, text = BestRow(c); text != "" {
		out.Details = append(out.Details, text)
	}
	if Best(c) > 0 {
		out.Class = "good"
	}
	if text := Assumption(c); text != "" {
		out.Details = append(out.Details, text)
	}
	swatches, rows := make([]swatch, len(c.Rows)), make([]replay.JobRows, len(c.Rows))
	var jobs []workload.Job
	for i := range c.Rows {
		swatches[i] = swatch{Of: i, Name: c.Rows[i].Name, Slot: i}
	}
	for k := range c.Windows {
		w := &c.Windows[k]
		jobs = append(jobs, w.Jobs...)
		for i := range w.Results {
			rows[i] = append(rows[i], w.Results[i].Rows...)
		}
	}
	out.Sections = distributions(swatches, rows, jobs)
	return out
}

// distributions draws JCTs and waits, and waits by the width of the jobs.
func distributions(swatches []swatch, rows []replay.JobRows, jobs []workload.Job) []chart.Section {
	var charts []*chart.Chart
	for _, c := range []struct {
		title string
		chart *chart.Chart
	}{
		{"Job completion time", cdf(swatches, sorted(rows, replay.JobRows.JCTs), "job completion time")},
		{"Wait", cdf(swatches, sorted(rows, replay.JobRows.Waits), "wait")},
	} {
		if c.chart != nil {
			c.chart.Title = c.title
			inLegend(c.chart, swatches)
			charts = append(charts, c.chart)
		}
	}
	var out []chart.Section
	if len(charts) > 0 {
		out = append(out, chart.Section{Title: "Jobs", Hint: "The share of the jobs with at most this.",
			Rows: []chart.Row{{Height: 340, Charts: charts}}})
	}
	return append(out, chart.Section{Title: "Waits by width", Hint: "Mean over the jobs that ended.",
		Rows: []chart.Row{{Height: 320, Charts: []*chart.Chart{waitsByWidth(swatches, rows, jobs)}}}})
}

// inLegend puts the curves of a chart in its legend.
func inLegend(c *chart.Chart, swatches []swatch) {
	for _, l := range c.Layers {
		line, ok := l.(*chart.Line)
		if ok && slices.ContainsFunc(swatches, func(s swatch) bool { return s.Name == line.Tip }) {
			line.Name = line.Tip
		}
	}
}

// waitsByWidth is the mean wait of jobs by their GPUs, a curve for each swatch.
func waitsByWidth(swatches []swatch, rows []replay.JobRows, jobs []workload.Job) *chart.Chart {
	class := map[string]int{}
	for i := range jobs {
		class[jobs[i].ID] = simulator.SizeClass(jobs[i].GPUs.Whole())
	}
	c := &chart.Chart{
		X: chart.Axis{Name: "GPUs of a job", Labels: true, Min: -.3, Max: float64(len(simulator.SizeNames)) - .7},
		Y: chart.Axis{Name: "mean wait, hours", Include: []float64{0, .1}}}
	for k, name := range simulator.SizeNames {
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(k), Label: name})
	}
	for i, s := range swatches {
		var sum, n [len(simulator.SizeNames)]float64
		for _, x := range rows[i] {
			if x.Ended {
				sum[class[x.ID]] += x.Wait / 3600
				n[class[x.ID]]++
			}
		}
		var curve []chart.Point
		for k := range sum {
			if n[k] > 0 {
				curve = append(curve, chart.Point{X: float64(k), Y: sum[k] / n[k]})
			}
		}
		line := s.curve(curve)
		line.Name = s.Name
		c.Layers = append(c.Layers, line, &chart.Dots{Mark: chart.Mark{Color: s.color()}, Points: curve, Radius: 3.5})
	}
	return c
}
