package main

import (
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/autosched/autosched/simulator"
)

// Colours that people who see few colours can tell apart (Okabe and Ito).
var (
	usedColour   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	queuedColour = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	limitColour  = color.RGBA{0x77, 0x77, 0x77, 0xff}
)

// plotRun draws a run: GPUs in use and queued over time, and how the JCTs are
// distributed, in the format that the path is named for.
func plotRun(out io.Writer, path string, samples []simulator.Sample, jobs []simulator.Outcome, gpus int) error {
	used, err := timePlot(samples, gpus)
	if err != nil {
		return err
	}
	jcts, err := jctPlot(jobs)
	if err != nil {
		return err
	}
	image := newCanvas(path, 9*vg.Inch, 7*vg.Inch)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadX: vg.Millimeter, PadY: 6 * vg.Millimeter, PadTop: 3 * vg.Millimeter, PadBottom: 3 * vg.Millimeter, PadLeft: 3 * vg.Millimeter, PadRight: 6 * vg.Millimeter}
	for row, c := range plot.Align([][]*plot.Plot{{used}, {jcts}}, tiles, draw.New(image)) {
		[]*plot.Plot{used, jcts}[row].Draw(c[0])
	}
	_, err = image.WriteTo(out)
	return err
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	for _, s := range []*font.Length{&p.X.Padding, &p.Y.Padding} {
		*s = vg.Points(4)
	}
	p.Add(plotter.NewGrid())
	return p
}

// timePlot is steps: a mean holds for its interval.
func timePlot(samples []simulator.Sample, gpus int) (*plot.Plot, error) {
	unit, name := 3600.0, "hours since the first submission"
	if n := len(samples); n > 0 && (samples[n-1].At-samples[0].At).Hours() > 96 {
		unit, name = 24*3600, "days since the first submission"
	}
	var used, queued plotter.XYs
	for _, x := range samples {
		from := (x.At - samples[0].At).Seconds() / unit
		to := from + x.Span.Seconds()/unit
		used = append(used, plotter.XY{X: from, Y: x.GPUs}, plotter.XY{X: to, Y: x.GPUs})
		queued = append(queued, plotter.XY{X: from, Y: x.Queued}, plotter.XY{X: to, Y: x.Queued})
	}
	p := newPlot("GPUs in use and asked for by waiting jobs", name, "GPUs")
	p.Y.Min = 0
	for _, l := range []struct {
		name string
		xys  plotter.XYs
		c    color.Color
		dash bool
	}{{"queued", queued, queuedColour, false}, {"in use", used, usedColour, false}, {"cluster", plotter.XYs{{X: used[0].X, Y: float64(gpus)}, {X: used[len(used)-1].X, Y: float64(gpus)}}, limitColour, true}} {
		line, err := plotter.NewLine(l.xys)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = l.c, vg.Points(1.2)
		if l.dash {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	p.Y.Max *= 1.25 // room for the legend
	return p, nil
}

// jctPlot is the share of jobs whose JCT is at most so long.
func jctPlot(jobs []simulator.Outcome) (*plot.Plot, error) {
	var jcts []float64
	for i := range jobs {
		jcts = append(jcts, max(1, jobs[i].JCT().Seconds()))
	}
	slices.Sort(jcts)
	p := newPlot("Job completion time", "seconds, logarithmic", "share of jobs")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	xys := plotter.XYs{{X: jcts[0], Y: 0}}
	// More points than pixels are not seen.
	step := max(1, len(jcts)/4000)
	for i := 0; i < len(jcts); i += step {
		xys = append(xys, plotter.XY{X: jcts[i], Y: float64(i+1) / float64(len(jcts))})
	}
	xys = append(xys, plotter.XY{X: jcts[len(jcts)-1], Y: 1})
	line, err := plotter.NewLine(xys)
	if err != nil {
		return nil, err
	}
	line.StepStyle, line.Color, line.Width = plotter.PostStep, usedColour, vg.Points(1.5)
	p.Add(line)
	p.X.Min, p.X.Max = math.Pow(10, math.Floor(math.Log10(jcts[0]))), math.Pow(10, math.Ceil(math.Log10(jcts[len(jcts)-1]*1.0001)))
	p.Y.Min, p.Y.Max = 0, 1
	return p, nil
}
