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
	out := p.front()
	out.Facts = []chart.Fact{{Name: "Window", Value: minute(r.From) + " to " + minute(r.To) + " UTC"},
		{Name: "Jobs", Value: units.Count(r.Jobs)}, {Name: "Cluster", Value: r.Cluster.String()},
		{Name: "Baseline", Value: r.Baseline.Method}}
	out.Sections = distributions(p.Swatches, rows, r.Counted)
	if gains := p.gains(sorted(rows, replay.JobRows.JCTs)); gains != nil {
		inLegend(gains, p.Swatches)
		out.Sections = append(out.Sections, chart.Section{Title: "Where a gain comes from", Hint: "Above 1 is better.",
			Rows: []chart.Row{{Height: 310, Charts: []*chart.Chart{gains}}}})
	}
	return out
}

// front is the begin of the pages of an evaluation: the answer, and the ratio of each method.
func (p *page) front() *chart.Page {
	a := p.answer()
	sentences := a.Sentences()
	out := &chart.Page{Name: fmt.Sprintf("AutoSched evaluation: tuning %s on %s", p.Scheduler, p.Trace),
		Synthetic: p.Synthetic, Class: "open"}
	out.Say(sentences[0])
	out.Details = append(out.Details, sentences[1:]...)
	if a.Once.Finding == Better || a.Tuning.Finding == Better {
		out.Class = "good"
	}
	if p.Fidelity != nil {
		out.Details = append(out.Details, p.Fidelity.String()+".")
	}
	if p.Synthetic {
		out.Details = append(out.Details, generated)
	}
	if len(p.Methods) > 0 {
		out.First = p.ratios()
	}
	return out
}

const generated = "The jobs were generated, not recorded: the answer need not hold on your cluster. Ask with your " +
	"own trace."

// ComparisonFigures are the figures of a comparison by themselves: JCTs and waits of each row in all windows.
func ComparisonFigures(c *replay.Comparison) *chart.Page {
	out := comparisonFront(c)
	out.Facts = []chart.Fact{{Name: "Cluster", Value: c.Cluster.String()}, {Name: "Baseline", Value: c.Rows[0].Name}}
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

// comparisonFront is the begin of the pages of a comparison: the answer, and the ratio of each row.
func comparisonFront(c *replay.Comparison) *chart.Page {
	out := &chart.Page{Name: "AutoSched comparison: configurations on " + c.Trace, Synthetic: c.Synthetic,
		Class: "open"}
	var text string
	out.Lead, text = BestRow(c)
	for _, text := range []string{text, Assumption(c)} {
		if text != "" {
			out.Details = append(out.Details, text)
		}
	}
	if Best(c) > 0 {
		out.Class = "good"
	}
	if c.Synthetic {
		out.Details = append(out.Details, generated)
	}
	results := Overall(c)
	var rows []chart.Estimate
	for i := range results {
		r := &results[i]
		e := chart.Estimate{Name: r.Row, Value: r.Ratio, Color: chart.Series(i),
			Tip: fmt.Sprintf("%s: ratio %.3f, average JCT %s", r.Row, r.Ratio, units.Duration(r.AvgJCT))}
		if r.High > 0 {
			e.Low, e.High = r.Low, r.High
			e.Tip += fmt.Sprintf(", 95 %% interval %.3f to %.3f", r.Low, r.High)
		}
		rows = append(rows, e)
	}
	out.First = chart.Estimates("average JCT of "+c.Rows[0].Name+" over the row's", 95, 1, rows)
	out.First.Title = "Ratio to " + c.Rows[0].Name + ": above 1 is better"
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
