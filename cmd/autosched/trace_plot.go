package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
)

// mostPoints is how many points of a line can be told apart.
const mostPoints = 1200

// plotStats draws what trace stats describes: an image, or an HTML page with the
// image and the numbers.
func plotStats(path string, w *workload.Workload, s *stats.Description) error {
	var rows [][]*plot.Plot
	for _, pair := range [][2]func(*workload.Workload, *stats.Description) (*plot.Plot, error){
		{arrivalsPlot, demandPlot}, {profilePlot, periodsPlot}, {durationsPlot, sizesPlot},
	} {
		var row []*plot.Plot
		for _, draw := range pair {
			p, err := draw(w, s)
			if err != nil {
				return fmt.Errorf("--plot: %w", err)
			}
			row = append(row, p)
		}
		rows = append(rows, row)
	}
	image := newCanvas(path, 13*vg.Inch, 11*vg.Inch)
	tiles := draw.Tiles{Rows: len(rows), Cols: len(rows[0]), PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter, PadTop: 3 * vg.Millimeter, PadBottom: 3 * vg.Millimeter, PadLeft: 3 * vg.Millimeter, PadRight: 6 * vg.Millimeter}
	for i, row := range plot.Align(rows, tiles, draw.New(image)) {
		for k, c := range row {
			rows[i][k].Draw(c)
		}
	}
	var text strings.Builder
	if err := printStats(&text, s); err != nil {
		return err
	}
	return writePlot(path, image, page{s.Name, s.Synthetic, text.String()})
}

// days names the axis of time.
func days(first time.Time) string {
	return "days since " + first.Format(time.DateOnly)
}

func arrivalsPlot(w *workload.Workload, s *stats.Description) (*plot.Plot, error) {
	counts, from := stats.Counts(w, time.Hour)
	step := len(counts)/mostPoints + 1
	title := "Jobs submitted per hour"
	if step > 1 {
		title = fmt.Sprintf("Jobs submitted per hour, most of %d hours", step)
	}
	p := newPlot(title, days(from), "jobs")
	var xys plotter.XYs
	for i := 0; i < len(counts); i += step {
		most := slices.Max(counts[i:min(len(counts), i+step)])
		x := float64(i) / 24
		xys = append(xys, plotter.XY{X: x, Y: most}, plotter.XY{X: x + float64(step)/24, Y: most})
	}
	return p, addLine(p, xys, usedColour, "")
}

func demandPlot(w *workload.Workload, s *stats.Description) (*plot.Plot, error) {
	first, last := w.Span()
	p := newPlot("GPUs in use if no job ever waited", days(s.First), "GPUs")
	p.Y.Min = 0
	bin := max(time.Hour, (last-first)/mostPoints)
	means := make([]float64, (last-first)/bin+1)
	steps := stats.Demand(w)
	for i, x := range steps {
		end := x.At
		if i+1 < len(steps) {
			end = steps[i+1].At
		}
		// The part of the step in each bin.
		for at := x.At; at < end && int((at-first)/bin) < len(means); {
			k := (at - first) / bin
			to := min(end, first+(k+1)*bin)
			means[k] += float64(float64(x.GPUs) / 1000 * (float64(to-at) / float64(bin)))
			at = to
		}
	}
	var xys plotter.XYs
	for i, m := range means {
		x := float64(i) * bin.Hours() / 24
		xys = append(xys, plotter.XY{X: x, Y: m}, plotter.XY{X: x + bin.Hours()/24, Y: m})
	}
	if err := addLine(p, xys, usedColour, ""); err != nil {
		return nil, err
	}
	if s.Load == nil {
		return p, nil
	}
	p.Legend.Top = true
	cluster := float64(s.Load.GPUs)
	p.Y.Max = max(p.Y.Max, cluster) * 1.15 // room for the legend
	return p, addLine(p, plotter.XYs{{X: 0, Y: cluster}, {X: xys[len(xys)-1].X, Y: cluster}}, limitColour, "cluster")
}

func profilePlot(_ *workload.Workload, s *stats.Description) (*plot.Plot, error) {
	p := newPlot("Arrivals by hour of day, and by weekday", "", "over the mean")
	var values plotter.Values
	var names []string
	for h, v := range s.Profile.Hour {
		values = append(values, v)
		name := ""
		if h%3 == 0 {
			name = fmt.Sprint(h)
		}
		names = append(names, name)
	}
	values, names = append(values, 0), append(names, "")
	for d, v := range s.Profile.Weekday {
		values, names = append(values, v), append(names, weekdays[d][:1])
	}
	bars, err := plotter.NewBarChart(values, vg.Points(8))
	if err != nil {
		return nil, err
	}
	bars.Color, bars.LineStyle.Width = usedColour, 0
	p.Add(bars)
	p.NominalX(names...)
	p.X.Min, p.X.Max, p.Y.Min = -.7, float64(len(names))-.3, 0
	return p, nil
}

// periodsPlot gathers frequencies into bins of equal ratio: each point is the
// share of the variance around its period.
func periodsPlot(w *workload.Workload, _ *stats.Description) (*plot.Plot, error) {
	counts, _ := stats.Counts(w, time.Hour)
	share := stats.Periodogram(counts, time.Hour)
	if share == nil {
		p := newPlot("Periods of arrivals: less than two days, none can be seen", "", "")
		p.HideAxes()
		return p, nil
	}
	p := newPlot("Periods of arrivals, counted per hour", "period, hours, logarithmic", "% of the variance")
	n := 2 * (len(share) - 1)
	const bins = 60
	low, high := math.Log(2), math.Log(float64(n))
	var sums [bins + 1]float64
	for k := 1; k < len(share); k++ {
		sums[int((math.Log(float64(n)/float64(k))-low)/(high-low)*bins)] += 100 * share[k]
	}
	var xys plotter.XYs
	for i, v := range sums {
		xys = append(xys, plotter.XY{X: math.Exp(low + (high-low)*float64(i)/bins), Y: v})
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, periodTicks{}
	return p, addLine(p, xys, usedColour, "")
}

// periodTicks are the periods people know.
type periodTicks struct{}

func (periodTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for _, h := range []float64{2, 6, 12, 24, 72, 168, 720, 8760} {
		if h >= low && h <= high {
			ticks = append(ticks, plot.Tick{Value: h, Label: hours(h)})
		}
	}
	return ticks
}

func durationsPlot(w *workload.Workload, s *stats.Description) (*plot.Plot, error) {
	p := newPlot("Durations", "seconds, logarithmic", "share of at most so long")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	order := make([]int, w.Len())
	for i := range order {
		order[i] = i
	}
	jobs := w.Jobs()
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case jobs[a].Duration < jobs[b].Duration:
			return -1
		case jobs[a].Duration > jobs[b].Duration:
			return 1
		}
		return 0
	})
	var byJobs, byTime plotter.XYs
	done := 0.0
	step := len(order)/mostPoints + 1
	for n, i := range order {
		j := &jobs[i]
		done += float64(float64(j.GPUs) / 1000 * j.Duration.Hours())
		if (n+1)%step == 0 || n == 0 || n == len(order)-1 {
			byJobs = append(byJobs, plotter.XY{X: j.Duration.Seconds(), Y: float64(n+1) / float64(len(order))})
			byTime = append(byTime, plotter.XY{X: j.Duration.Seconds(), Y: done / s.GPUHours})
		}
	}
	if err := addLine(p, byJobs, usedColour, "jobs"); err != nil {
		return nil, err
	}
	if err := addLine(p, byTime, queuedColour, "GPU-time"); err != nil {
		return nil, err
	}
	p.X.Min, p.X.Max = math.Pow(10, math.Floor(math.Log10(byJobs[0].X))), math.Pow(10, math.Ceil(math.Log10(byJobs[len(byJobs)-1].X*1.0001)))
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Top, p.Legend.Left = true, true
	return p, nil
}

func sizesPlot(_ *workload.Workload, s *stats.Description) (*plot.Plot, error) {
	p := newPlot("Sizes", "GPUs of a job, at most", "%")
	var jobs, service plotter.Values
	var names []string
	for _, z := range s.SizeBands {
		jobs, service = append(jobs, 100*z.JobShare), append(service, 100*z.GPUTimeShare)
		switch z.GPUs {
		case 0:
			names = append(names, "more")
		case .999:
			names = append(names, "<1")
		default:
			names = append(names, fmt.Sprintf("%g", z.GPUs))
		}
	}
	width := vg.Points(12)
	for i, b := range []struct {
		values plotter.Values
		name   string
		colour color.Color
	}{{jobs, "jobs", usedColour}, {service, "GPU-time", queuedColour}} {
		bars, err := plotter.NewBarChart(b.values, width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width, bars.Offset = b.colour, 0, width*vg.Length(2*i-1)/2 // side by side
		p.Add(bars)
		p.Legend.Add(b.name, bars)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max, p.Y.Min = -.7, float64(len(names))-.3, 0
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	return p, nil
}

func addLine(p *plot.Plot, xys plotter.XYs, c color.Color, name string) error {
	line, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, vg.Points(1.1)
	p.Add(line)
	if name != "" {
		p.Legend.Add(name, line)
		p.Legend.Padding = vg.Points(3)
	}
	return nil
}
