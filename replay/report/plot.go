package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
)

const points = 200 // of a curve, at most

// still draws a chart across the page, nothing without one.
func still(label string, height float64, c *chart.Chart) template.HTML {
	if c == nil {
		return ""
	}
	return chart.Responsive(label, height, chart.PageWidth, func(float64) *chart.Chart { return c })
}

// curve is a line in the colour and dashes of a method. Unchecking the method
// hides it.
func (s *swatch) curve(points []chart.Point) *chart.Line {
	return &chart.Line{Mark: chart.Mark{Class: s.class("curve"), Tip: s.Name, Color: s.color()}, Points: points,
		Width: 2, Dash: chart.SeriesDash(s.Slot)}
}

func (s *swatch) color() chart.Color { return chart.Series(s.Slot) }

// class is that of an element of the method.
func (s *swatch) class(kind string) string { return kind + " m" + strconv.Itoa(s.Of) }

var inf = math.Inf(1)

// vertical is a dashed line that marks a place on the horizontal axis.
func vertical(x float64) *chart.Line {
	return &chart.Line{Mark: chart.Mark{Color: chart.Soft}, Points: []chart.Point{{X: x, Y: -inf}, {X: x, Y: inf}},
		Width: 1, Dash: []float64{3, 3}}
}

// noiseBand shades the ratios within the noise.
func noiseBand(points []chart.Point) *chart.Area {
	return &chart.Area{Mark: chart.Mark{Color: chart.Soft.Fade(.13)}, Points: points}
}

// rows are the jobs of each method.
func (r *document) rows() []replay.JobRows {
	out := make([]replay.JobRows, len(r.Methods))
	for i := range out {
		out[i] = r.Methods[i].Rows
	}
	return out
}

// sorted are numbers of each method's jobs, in order.
func sorted(rows []replay.JobRows, of func(replay.JobRows) []float64) [][]float64 {
	out := make([][]float64, len(rows))
	for i := range rows {
		out[i] = slices.Sorted(slices.Values(of(rows[i])))
	}
	return out
}

// cdf is the share of jobs with at most each of their values in seconds, a curve for each
// swatch. It is nil without values above 0.
func cdf(swatches []swatch, sorted [][]float64, name string) *chart.Chart {
	lo, hi := inf, 0.0
	for _, s := range sorted {
		if len(s) > 0 {
			// One job in two hundred may be left of the axis.
			lo, hi = min(lo, stats.Quantile(s, .005)), max(hi, s[len(s)-1])
		}
	}
	if hi == 0 {
		return nil
	}
	lo = max(lo, 1)
	c := &chart.Chart{
		X: chart.Axis{Name: name + ", logarithmic", Log: true, Min: lo, Max: max(hi, lo*10),
			Ticks: chart.DurationTicks()},
		Y: chart.Axis{Name: "% of jobs", Max: 100},
	}
	for i, s := range sorted {
		if len(s) == 0 {
			continue
		}
		n := min(points, len(s))
		curve := []chart.Point{{X: s[0]}}
		for k := range n {
			j := ((k+1)*len(s) - 1) / n // the last is the longest
			curve = append(curve, chart.Point{X: s[j], Y: 100 * float64(j+1) / float64(len(s))})
		}
		c.Layers = append(c.Layers, swatches[i].curve(curve))
	}
	return c
}

// gains is the ratio of the baseline's to each method's JCT at every percentile.
func (p *page) gains(sorted [][]float64) *chart.Chart {
	if len(p.Methods) < 2 || len(sorted[0]) < 20 {
		return nil
	}
	const cut = 8
	lo, hi := 1/1.05, 1.05
	c := &chart.Chart{
		X:      chart.Axis{Name: "percentile of job completion time", Max: 100},
		Y:      chart.Axis{Name: "ratio to baseline", Log: true},
		Layers: []chart.Layer{noiseBand(chart.Box(-inf, 1/noise, inf, noise))},
	}
	for i, s := range sorted {
		if len(s) == 0 || i == 0 {
			continue
		}
		var curve []chart.Point
		for k := range points / 2 {
			at := (float64(k) + .5) / (points / 2)
			own := stats.Quantile(s, at)
			if own <= 0 {
				continue
			}
			v := min(cut, max(1./cut, stats.Quantile(sorted[0], at)/own))
			curve = append(curve, chart.Point{X: 100 * at, Y: v})
			lo, hi = min(lo, v), max(hi, v)
		}
		c.Layers = append(c.Layers, p.Swatches[i].curve(curve))
	}
	c.Y.Min, c.Y.Max = lo, hi
	for at := 0; at <= 100; at += 10 {
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(at), Label: "p" + strconv.Itoa(at)})
	}
	for _, v := range []float64{1, .125, .25, .5, .7, .8, .9, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8} {
		c.Y.Ticks = append(c.Y.Ticks, chart.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return c
}

// ratios are bars of the ratio to the baseline, from 1.
func (p *page) ratios() *chart.Chart {
	lo, hi := .98, 1.02
	for i := range p.Methods {
		lo, hi = min(lo, p.Methods[i].Ratio), max(hi, p.Methods[i].Ratio)
	}
	hi += (hi - lo) * .26 // room for the number
	c := &chart.Chart{
		Title:  "Ratio to " + p.Baseline.Method + ": above 1 is better, the band is noise",
		X:      chart.Axis{Name: p.objective() + " of " + p.Baseline.Method + " over the method's", Min: lo, Max: hi},
		Y:      chart.Axis{Min: -.5, Max: float64(len(p.Methods)) - .5, Labels: true},
		Layers: []chart.Layer{noiseBand(chart.Box(1/noise, -inf, noise, inf))},
	}
	for i := range p.Methods {
		m, s := &p.Methods[i], &p.Swatches[i]
		y := float64(len(p.Methods) - 1 - i)
		from, to := min(1, m.Ratio), max(1, m.Ratio)
		to = max(to, from+(hi-lo)/500) // wide enough to be visible
		tip := fmt.Sprintf("%s: %.4f, average JCT %s", m.Method, m.Ratio, units.Duration(m.AvgJCT))
		c.Y.Ticks = append(c.Y.Ticks, chart.Tick{Value: y, Label: chart.Clip(m.Method, 16)})
		c.Layers = append(c.Layers,
			&chart.Area{Mark: chart.Mark{Tip: tip, Color: s.color()}, Points: chart.Box(from, y-.3, to, y+.3)},
			&chart.Text{Mark: chart.Mark{Color: chart.Ink}, At: chart.Point{X: to, Y: y},
				Text: ratio(m.Ratio), DX: 6, DY: 4})
	}
	c.Layers = append(c.Layers, vertical(1))
	return c
}

// clock is the axis of all figures over time.
type clock struct {
	lo, hi  float64 // seconds since the trace's zero
	end     float64 // of the window
	zero    time.Time
	aligned bool // zero is known
}

// clock spans all series and decisions. It is false if there are none.
func (r *document) clock() (clock, bool) {
	c := clock{lo: inf, hi: -inf}
	see := func(at float64) { c.lo, c.hi = min(c.lo, at), max(c.hi, at) }
	for i := range r.Methods {
		for _, s := range r.Methods[i].Series {
			see(s.AtS)
		}
		for _, d := range r.Methods[i].Decisions {
			see(d.AtS)
		}
	}
	if c.lo > c.hi {
		return c, false
	}
	c.hi = max(c.hi, c.lo+1)
	from, err := time.Parse(time.RFC3339, r.From)
	to, err2 := time.Parse(time.RFC3339, r.To)
	if err == nil && err2 == nil {
		c.zero, c.aligned = from.UTC().Add(-time.Duration(c.lo*1e9)), true
		c.end = c.lo + to.Sub(from).Seconds()
	}
	return c, true
}

// axis has about n ticks at round instants.
func (c *clock) axis(name string, n int) chart.Axis {
	const day = 86400
	step := 3600.
	for _, s := range []float64{900, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, day, 2 * day, 4 * day, 7 * day,
		14 * day, 28 * day, 91 * day, 364 * day} {
		step = s
		if (c.hi-c.lo)/s <= float64(n) {
			break
		}
	}
	origin := c.lo
	if c.aligned {
		begin := c.zero.Add(time.Duration(c.lo * 1e9))
		origin -= begin.Sub(begin.Truncate(24 * time.Hour)).Seconds()
	}
	out := chart.Axis{Name: name, Min: c.lo, Max: c.hi}
	for k := 0.; origin+k*step <= c.hi; k++ {
		at := origin + k*step
		label := "+" + chart.ShortDuration(time.Duration((at-c.lo)*1e9))
		if c.aligned {
			t := c.zero.Add(time.Duration(at * 1e9))
			if label = t.Format("15:04"); label == "00:00" || step >= day {
				label = t.Format("Jan 2")
			}
		}
		out.Ticks = append(out.Ticks, chart.Tick{Value: at, Label: label})
	}
	return out
}

// window marks where the jobs that count stop arriving.
func (c *clock) window(to *chart.Chart) {
	if c.end > c.lo && c.end < c.hi {
		to.Layers = append(to.Layers, vertical(c.end))
	}
}

// thin reduces runs of samples to the highest waiting and the mean busy, so that at most
// points remain.
func thin(in []replay.Sample) []replay.Sample {
	if len(in) <= points {
		return in
	}
	out := make([]replay.Sample, 0, points)
	for k := range points {
		run := in[k*len(in)/points : (k+1)*len(in)/points]
		s := replay.Sample{AtS: run[0].AtS}
		busy := 0
		for _, x := range run {
			s.Waiting = max(s.Waiting, x.Waiting)
			busy += x.BusyGPU
		}
		s.BusyGPU = busy / len(run)
		out = append(out, s)
	}
	return out
}

// load is the jobs waiting and GPUs busy over time under one method.
type load struct {
	Swatch      swatch
	PeakWaiting int
	Figure      template.HTML
}

// loads has the same scales for all methods, and the baseline in grey behind
// each.
func (p *page) loads() []load {
	c, ok := p.clock()
	if !ok {
		return nil
	}
	series := make([][]replay.Sample, len(p.Methods))
	top := 1
	for i := range p.Methods {
		series[i] = thin(p.Methods[i].Series)
		for _, s := range series[i] {
			top = max(top, s.Waiting)
		}
	}
	gpus := max(1, p.Cluster.TotalGPUs())
	var out []load
	for i, samples := range series {
		if len(samples) == 0 {
			continue
		}
		l := load{Swatch: p.Swatches[i]}
		for _, s := range samples {
			l.PeakWaiting = max(l.PeakWaiting, s.Waiting)
		}
		draw := func(y chart.Axis, of func(replay.Sample) int) *chart.Chart {
			curve := func(samples []replay.Sample) (out []chart.Point) {
				for _, s := range samples {
					out = append(out, chart.Point{X: s.AtS, Y: float64(of(s))})
				}
				return out
			}
			own := curve(samples)
			d := &chart.Chart{X: c.axis("", 6), Y: y, Layers: []chart.Layer{
				&chart.Area{Mark: chart.Mark{Color: l.Swatch.color().Fade(.16)}, Points: chart.Under(own)},
				&chart.Line{Mark: chart.Mark{Color: chart.Gray.Fade(.85)}, Points: curve(series[0]), Width: 1},
				&chart.Line{Mark: chart.Mark{Color: l.Swatch.color()}, Points: own},
			}}
			c.window(d)
			return d
		}
		waiting := draw(chart.Axis{Name: "jobs waiting", Max: float64(top)},
			func(s replay.Sample) int { return s.Waiting })
		waiting.X.Ticks = []chart.Tick{} // those below are for both
		busy := draw(chart.Axis{Name: "GPUs busy", Max: float64(gpus)}, func(s replay.Sample) int { return s.BusyGPU })
		picture := chart.Picture{
			Label: "Jobs waiting and GPUs busy over time under " + l.Swatch.Name,
			Width: chart.PhoneWidth,
			Rows: []chart.Row{{Height: 125, Charts: []*chart.Chart{waiting}},
				{Height: 135, Charts: []*chart.Chart{busy}}},
		}
		l.Figure = picture.HTML("fig")
		out = append(out, l)
	}
	return out
}

const (
	laneHeight = 58. // of a method in changes
	laneBar    = 16.
)

// changes are the configurations in force over time of each method that
// decides: a bar with a tall mark at each adoption, and a short mark below for each
// round that kept the incumbent. It is empty if none decides.
func (p *page) changes() template.HTML {
	c, ok := p.clock()
	var deciding []int
	for i := range p.Methods {
		if len(p.Methods[i].Decisions) > 0 {
			deciding = append(deciding, i)
		}
	}
	if !ok || len(deciding) == 0 {
		return ""
	}
	height := laneHeight * float64(len(deciding))
	const label = "When each method changed the configuration"
	return chart.Responsive(label, height+54, chart.PageWidth, func(width float64) *chart.Chart {
		ticks := 14
		if width <= chart.PhoneWidth {
			ticks = 5
		}
		d := &chart.Chart{X: c.axis("time of the round (UTC)", ticks),
			Y: chart.Axis{Max: height, Ticks: []chart.Tick{}}}
		c.window(d)
		for n, i := range deciding {
			d.Layers = append(d.Layers, p.lane(i, &c, height-laneHeight*float64(n))...)
		}
		return d
	})
}

// lane is one method of changes, below top.
func (p *page) lane(i int, c *clock, top float64) []chart.Layer {
	m, s := &p.Methods[i], &p.Swatches[i]
	bar := top - 22 // its upper edge
	out := []chart.Layer{&chart.Text{Mark: chart.Mark{Color: chart.Ink}, At: chart.Point{X: -inf, Y: top - 12},
		Bold: true,
		Text: fmt.Sprintf("%s: %d changes in %d rounds", chart.Clip(m.Method, 24), m.Changes, len(m.Decisions))}}
	last := c.hi
	if k := len(m.Series); k > 0 {
		last = m.Series[k-1].AtS
	}
	// The stretches of one configuration, alternately shaded.
	begin, shade := 0, .18
	for k := 1; k <= len(m.Decisions); k++ {
		if k < len(m.Decisions) && !m.Decisions[k].Adopted {
			continue
		}
		d := &m.Decisions[begin]
		end, until := last, "the end"
		if k < len(m.Decisions) {
			end, until = m.Decisions[k].AtS, m.Decisions[k].At
		}
		tip := fmt.Sprintf("%s, %s until %s: %s", m.Method, d.At, until, d.Configuration)
		out = append(out, &chart.Area{Mark: chart.Mark{Class: "held", Tip: tip, Color: s.color().Fade(shade)},
			Points: chart.Box(d.AtS, bar, max(end, d.AtS), bar-laneBar)})
		begin, shade = k, .54-shade
	}
	for k := range m.Decisions {
		d := &m.Decisions[k]
		mark := &chart.Line{Mark: chart.Mark{Class: "event", Color: chart.Soft.Fade(.65)}, Width: 1.5}
		if d.Adopted {
			mark.Color, mark.Width = s.color(), 2.5
			mark.Points = []chart.Point{{X: d.AtS, Y: bar + 4}, {X: d.AtS, Y: bar - laneBar - 4}}
			mark.Tip = fmt.Sprintf("%s: %s %s", d.At, d.Reason, d.Configuration)
		} else {
			mark.Points = []chart.Point{{X: d.AtS, Y: bar - laneBar - 4}, {X: d.AtS, Y: bar - laneBar - 9}}
			if len(m.Decisions) <= tips {
				mark.Tip = fmt.Sprintf("%s: %s", d.At, d.Reason)
			}
		}
		out = append(out, mark)
	}
	return out
}

// tips is the largest number of rounds of a method with a tooltip for rounds that kept
// the incumbent; with more the marks would touch.
const tips = 600

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
