package decide

import (
	"slices"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/simulator"
)

// drawRun draws GPUs in use and queued over time, and the distribution of JCTs.
func drawRun(samples []simulator.Sample, jobs []simulator.Outcome, gpus int) *chart.Picture {
	return &chart.Picture{
		Label: "GPUs in use and queued over time, and the share of jobs by job completion time",
		Rows: []chart.Row{
			{Height: 330, Charts: []*chart.Chart{usageChart(samples, gpus)}},
			{Height: 330, Charts: []*chart.Chart{jctChart(jobs)}},
		},
	}
}

// usageChart is steps: a mean holds for its interval.
func usageChart(samples []simulator.Sample, gpus int) *chart.Chart {
	unit, name := 3600.0, "hours since the first submission"
	if n := len(samples); n > 0 && (samples[n-1].At-samples[0].At).Hours() > 96 {
		unit, name = 24*3600, "days since the first submission"
	}
	var used, queued []chart.Point
	end := 0.0
	for _, x := range samples {
		from := (x.At - samples[0].At).Seconds() / unit
		used, queued = append(used, chart.Point{X: from, Y: x.GPUs}), append(queued, chart.Point{X: from, Y: x.Queued})
		end = from + x.Span.Seconds()/unit
	}
	used = chart.Steps(used, end)
	return &chart.Chart{
		Title: "GPUs in use and asked for by waiting jobs",
		X:     chart.Axis{Name: name, Max: end},
		Y:     chart.Axis{Name: "GPUs", Include: []float64{0}},
		Layers: []chart.Layer{
			&chart.Area{Mark: chart.Mark{Color: chart.Blue.Fade(.12)}, Points: chart.Under(used)},
			&chart.Line{Mark: chart.Mark{Name: "queued", Color: chart.Orange}, Points: chart.Steps(queued, end)},
			&chart.Line{Mark: chart.Mark{Name: "in use", Color: chart.Blue}, Points: used},
			&chart.Line{Mark: chart.Mark{Name: "GPUs of the cluster", Color: chart.Gray},
				Points: cli.HorizontalLine(float64(gpus)),
				Dash:   cli.DashedLine},
		},
	}
}

// jctChart is the share of jobs with at most each JCT.
func jctChart(jobs []simulator.Outcome) *chart.Chart {
	var jcts []float64
	for i := range jobs {
		jcts = append(jcts, max(1, jobs[i].JCT().Seconds()))
	}
	slices.Sort(jcts)
	curve := []chart.Point{{X: jcts[0]}}
	step := len(jcts)/cli.MaxPoints + 1
	for i := step - 1; i < len(jcts); i += step {
		curve = append(curve, chart.Point{X: jcts[i], Y: float64(i+1) / float64(len(jcts))})
	}
	longest := jcts[len(jcts)-1]
	curve = append(curve, chart.Point{X: longest, Y: 1})
	return &chart.Chart{
		Title:  "Job completion time",
		X:      chart.Axis{Name: "JCT, logarithmic", Log: true, Ticks: chart.DurationTicks()},
		Y:      chart.Axis{Name: "share of jobs", Max: 1},
		Layers: []chart.Layer{&chart.Line{Mark: chart.Mark{Color: chart.Blue}, Points: chart.Steps(curve, longest)}},
	}
}
