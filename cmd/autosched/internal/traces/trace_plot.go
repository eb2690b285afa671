package traces

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
)

// statsPage draws the statistics of trace stats.
func statsPage(w *workload.Workload, s *stats.Description) (*chart.Page, error) {
	p, err := cli.NewPage("trace: "+s.Name, s.Synthetic, statsMessage(s), func(w io.Writer) error {
		return printStats(w, s)
	})
	if err != nil {
		return nil, err
	}
	section := func(title, hint string, charts ...*chart.Chart) chart.Section {
		return chart.Section{Title: title, Hint: hint, Rows: []chart.Row{{Height: 300, Charts: charts}}}
	}
	p.First, p.Facts = demandChart(w, s), statsFacts(s)
	p.Sections = []chart.Section{
		section("Arrivals", "Point at a figure for its values.", arrivalsChart(w)),
		section("Rhythm", "When jobs arrive, and the periods that their numbers have.", profileChart(s),
			periodsChart(w)),
		section("Jobs", "How long jobs run and how many GPUs they ask for, by number and by GPU-time.",
			durationsChart(w, s), sizesChart(s)),
	}
	return p, nil
}

// statsMessage says how much of the cluster the jobs ask for.
func statsMessage(s *stats.Description) string {
	l := s.Load
	if l == nil {
		return fmt.Sprintf("%s jobs ask for %s GPU-hours; the size of the cluster is not known", units.Count(s.Jobs),
			units.Count(int(math.Round(s.GPUHours))))
	}
	text := fmt.Sprintf("The jobs ask for %s of the GPU-time of %s GPUs. ",
		units.Percent(l.Offered), units.Count(l.GPUs))
	if l.Over == 0 {
		return text + "If none waited, they would never need more GPUs than there are."
	}
	return text + fmt.Sprintf("If none waited, they would need more GPUs than there are for %s of the time.",
		units.Percent(l.Over))
}

// statsFacts are the numbers above the figures.
func statsFacts(s *stats.Description) []chart.Fact {
	day := func(t time.Time) string { return t.Format("2006-01-02 15:04") }
	facts := []chart.Fact{
		{Name: "Jobs", Value: units.Count(s.Jobs)},
		{Name: "Submitted", Value: day(s.First) + " to " + day(s.Last) + " UTC"},
		{Name: "GPU-hours", Value: units.Count(int(math.Round(s.GPUHours)))},
		{Name: "GPUs of a job, mean", Value: fmt.Sprintf("%.2f", s.MeanGPUs)},
		{Name: "Duration, median", Value: units.Duration(s.Durations.P50)},
		{Name: "Duration, p95", Value: units.Duration(s.Durations.P95)},
		{Name: "Tenants", Value: units.Count(len(s.Tenants))},
	}
	if s.Load != nil {
		facts = append(facts, chart.Fact{Name: "Offered load", Value: fmt.Sprintf("%.2f of %s GPUs", s.Load.Offered,
			units.Count(s.Load.GPUs))})
	}
	return facts
}

// days names the axis of time.
func days(first time.Time) string {
	return "days since " + first.Format(time.DateOnly)
}

// blue is a chart of one blue curve.
func blue(title string, x, y chart.Axis, curve []chart.Point) *chart.Chart {
	return &chart.Chart{Title: title, X: x, Y: y,
		Layers: []chart.Layer{&chart.Line{Mark: chart.Mark{Color: chart.Blue}, Points: curve}}}
}

// hover gives a curve's values where the pointer is.
func hover(c *chart.Chart, curve []chart.Point, tip func(chart.Point) string) {
	c.Layers = append(c.Layers, chart.Bands(curve, c.X.Log, func(i int) string { return tip(curve[i]) })...)
}

func arrivalsChart(w *workload.Workload) *chart.Chart {
	counts, from := stats.Counts(w, time.Hour)
	step := len(counts)/cli.MaxPoints + 1
	title := "Jobs submitted per hour"
	if step > 1 {
		title = fmt.Sprintf("Jobs submitted per hour, highest of each %d hours", step)
	}
	var most []chart.Point
	for i := 0; i < len(counts); i += step {
		most = append(most, chart.Point{X: float64(i) / 24, Y: slices.Max(counts[i:min(len(counts), i+step)])})
	}
	end := float64(len(counts)) / 24
	c := blue(title, chart.Axis{Name: days(from), Max: end}, chart.Axis{Name: "jobs", Include: []float64{0}},
		chart.Steps(most, end))
	hover(c, most, func(p chart.Point) string {
		return fmt.Sprintf("%s: %.0f jobs", from.Add(time.Duration(24*p.X)*time.Hour).Format("2006-01-02 15:04"), p.Y)
	})
	return c
}

func demandChart(w *workload.Workload, s *stats.Description) *chart.Chart {
	means, bin := meanDemand(w)
	end := float64(len(means)) * bin.Hours() / 24
	var curve []chart.Point
	for i, m := range means {
		curve = append(curve, chart.Point{X: float64(i) * bin.Hours() / 24, Y: m})
	}
	c := blue("GPUs in use if no job ever waited", chart.Axis{Name: days(s.First), Max: end},
		chart.Axis{Name: "GPUs", Include: []float64{0}}, chart.Steps(curve, end))
	if s.Load != nil {
		c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Name: "GPUs of the cluster", Color: chart.Gray},
			Points: cli.HorizontalLine(float64(s.Load.GPUs)), Dash: cli.DashedLine})
	}
	hover(c, curve, func(p chart.Point) string { return fmt.Sprintf("day %.2f: %.0f GPUs", p.X, p.Y) })
	return c
}

// meanDemand is the demand for GPUs in each bin of time.
func meanDemand(w *workload.Workload) ([]float64, time.Duration) {
	first, last := w.Span()
	bin := max(time.Hour, (last-first)/cli.MaxPoints)
	means := make([]float64, (last-first)/bin+1)
	before := stats.DemandStep{At: first}
	for x := range stats.Demand(w) {
		// The part of the step before in each bin.
		for at := before.At; at < x.At && int((at-first)/bin) < len(means); {
			k := (at - first) / bin
			to := min(x.At, first+(k+1)*bin)
			means[k] += float64(before.GPUs) / 1000 * (float64(to-at) / float64(bin))
			at = to
		}
		before = x
	}
	return means, bin
}

// bar stands on the horizontal axis.
func bar(x, width, height float64, m chart.Mark) *chart.Area {
	return &chart.Area{Mark: m, Points: chart.Box(x-width/2, 0, x+width/2, height)}
}

func profileChart(s *stats.Description) *chart.Chart {
	c := &chart.Chart{
		Title: "Arrivals by hour of day, and by weekday",
		X:     chart.Axis{Name: "hour (UTC), weekday", Labels: true},
		Y:     chart.Axis{Name: "times the mean", Include: []float64{0}},
	}
	add := func(x int, width, v float64, name, of string) {
		c.Layers = append(c.Layers, bar(float64(x), width, v,
			chart.Mark{Color: chart.Blue, Tip: fmt.Sprintf("%s: %.2f times the mean", of, v)}))
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(x), Label: name})
	}
	for h, v := range s.Profile.Hour {
		name := ""
		if h%3 == 0 {
			name = fmt.Sprint(h)
		}
		add(h, .7, v, name, fmt.Sprintf("%02d:00 to %02d:00", h, h+1))
	}
	for d, v := range s.Profile.Weekday {
		add(26+2*d, 1.5, v, weekdays[d][:1], weekdays[d])
	}
	return c
}

// periodsChart gathers frequencies into bins of equal ratio: each point is the
// share of the variance around its period.
func periodsChart(w *workload.Workload) *chart.Chart {
	counts, _ := stats.Counts(w, time.Hour)
	share := stats.Periodogram(counts, time.Hour)
	none := []chart.Tick{}
	if share == nil {
		return &chart.Chart{Title: "Periods of arrivals: less than two days, none can be seen",
			X: chart.Axis{Ticks: none}, Y: chart.Axis{Ticks: none}}
	}
	n := 2 * (len(share) - 1)
	const bins = 60
	low, high := math.Log(2), math.Log(float64(n))
	var sums [bins + 1]float64
	for k := 1; k < len(share); k++ {
		sums[int((math.Log(float64(n)/float64(k))-low)/(high-low)*bins)] += 100 * share[k]
	}
	var curve []chart.Point
	for i, v := range sums {
		curve = append(curve, chart.Point{X: math.Exp(low + (high-low)*float64(i)/bins), Y: v})
	}
	x := chart.Axis{Name: "period, logarithmic", Log: true}
	for _, h := range []float64{2, 6, 12, 24, 72, 168, 720, 8760} { // the periods people know
		x.Ticks = append(x.Ticks, chart.Tick{Value: h, Label: hours(h)})
	}
	c := blue("Periods of arrivals, counted per hour", x,
		chart.Axis{Name: "% of the variance", Include: []float64{0}}, curve)
	hover(c, curve, func(p chart.Point) string {
		return fmt.Sprintf("about %s: %.1f %% of the variance", hours(p.X), p.Y)
	})
	return c
}

func durationsChart(w *workload.Workload, s *stats.Description) *chart.Chart {
	jobs := slices.Clone(w.Jobs())
	slices.SortStableFunc(jobs, func(a, b workload.Job) int { return cmp.Compare(a.Duration, b.Duration) })
	var byJobs, byTime []chart.Point
	done := 0.0
	step := len(jobs)/cli.MaxPoints + 1
	for n := range jobs {
		j := &jobs[n]
		done += float64(j.GPUs) / 1000 * j.Duration.Hours()
		if (n+1)%step == 0 || n == 0 || n == len(jobs)-1 {
			x := max(j.Duration.Seconds(), .1)
			byJobs = append(byJobs, chart.Point{X: x, Y: float64(n+1) / float64(len(jobs))})
			byTime = append(byTime, chart.Point{X: x, Y: done / s.GPUHours})
		}
	}
	c := blue("Durations", chart.Axis{Name: "duration, logarithmic", Log: true, Ticks: chart.DurationTicks()},
		chart.Axis{Name: "share with at most this", Max: 1}, byJobs)
	c.Layers[0].(*chart.Line).Name = "jobs"
	c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Name: "GPU-time", Color: chart.Orange}, Points: byTime})
	c.Layers = append(c.Layers, chart.Bands(byJobs, true, func(i int) string {
		return fmt.Sprintf("at most %s: %s of the jobs, %s of the GPU-time", units.Duration(byJobs[i].X),
			units.Percent(byJobs[i].Y), units.Percent(byTime[i].Y))
	})...)
	return c
}

func sizesChart(s *stats.Description) *chart.Chart {
	c := &chart.Chart{
		Title: "Sizes",
		X:     chart.Axis{Name: "GPUs of a job, at most", Labels: true},
		Y:     chart.Axis{Name: "%", Include: []float64{0}},
	}
	for i, z := range s.SizeBands {
		size := bandSize(z.GPUs) + " GPUs: "
		jobs := chart.Mark{Color: chart.Blue,
			Tip: fmt.Sprintf("%s%s jobs, %s", size, units.Count(z.Jobs), units.Percent(z.JobShare))}
		service := chart.Mark{Color: chart.Orange, Tip: size + units.Percent(z.GPUTimeShare) + " of the GPU-time"}
		if i == 0 {
			jobs.Name, service.Name = "jobs", "GPU-time"
		}
		x := float64(i)
		c.Layers = append(c.Layers, bar(x-.2, .36, 100*z.JobShare, jobs), bar(x+.2, .36, 100*z.GPUTimeShare, service))
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: x, Label: bandSize(z.GPUs)})
	}
	return c
}
