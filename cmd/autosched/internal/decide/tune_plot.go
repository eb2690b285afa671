package decide

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/space"
)

// tunePage draws a search: the best objective after each trial, the front if
// there is one, all configurations as lines through their parameters, and the
// objective against each parameter.
func tunePage(r *tuneReport, top int) (*chart.Page, error) {
	d := newTuneDrawing(r)
	if len(d.trials) == 0 {
		return nil, fmt.Errorf("--plot: no trial has an objective to draw")
	}
	var sections []chart.Section
	if len(r.Front) > 0 {
		sections = append(sections, chart.Section{Title: "The front", Hint: "A dot is a configuration, simulated on all " +
			"futures; the darker, the better.", Rows: []chart.Row{{Height: 300, Charts: []*chart.Chart{d.front()}}}})
	}
	sections = append(sections, chart.Section{Title: "Configurations", Hint: "A line is a configuration: the darker the better, the chosen one in orange.",
		Rows: []chart.Row{{Height: 360, Charts: []*chart.Chart{d.parallel()}, Least: 88 * float64(len(d.axes)+1)}}})
	const columns = 3
	var rows []chart.Row
	for i := 0; i < len(d.axes); i += columns {
		charts := make([]*chart.Chart, columns)
		for k := i; k < min(i+columns, len(d.axes)); k++ {
			charts[k-i] = d.slice(k)
		}
		rows = append(rows, chart.Row{Height: 240, Charts: charts})
	}
	if len(rows) > 0 {
		sections = append(sections, chart.Section{Title: "By parameter",
			Hint: "The objective of every configuration against each parameter that was varied.", Rows: rows})
	}
	p, err := cli.NewPage(fmt.Sprintf("tune: %s on %s at %s", r.Scheduler, r.Trace, r.At), r.Synthetic,
		r.Reason, func(w io.Writer) error { return r.print(w, top) })
	if err != nil {
		return nil, err
	}
	if r.Adopt {
		p.Class = "good"
	}
	p.First, p.Sections = d.bestSoFar(), sections
	p.Facts = []chart.Fact{
		{Name: "Objective", Value: "minimise " + r.Objective},
		{Name: "Active jobs", Value: fmt.Sprintf("%s, %s of them waiting", units.Count(r.ActiveJobs),
			units.Count(r.WaitingJobs))},
		{Name: "Configurations simulated", Value: units.Count(len(r.Trials))},
		{Name: "Configuration in force", Value: r.Incumbent.String(), Mono: true},
		{Name: "Best", Value: r.Best.String(), Mono: true},
	}
	return p, nil
}

// tuneDrawing is a search as it is drawn.
type tuneDrawing struct {
	report *tuneReport
	trials []tuneTrial // with an objective, in the order they were measured
	rank   []float64   // of each by objective, from 0, the best, to 1
	best   int
	order  []int // of drawing: the worst first, so that the good are on top
	axes   []tuneAxis
	lost   int // trials without an objective
}

// tuneAxis is a dimension of the space that was varied: the place of each trial
// on it from 0 to 1, NaN if the trial has no value there, and labels of values.
type tuneAxis struct {
	name   string
	at     []float64
	labels []chart.Tick
}

func newTuneDrawing(r *tuneReport) *tuneDrawing {
	d := &tuneDrawing{report: r}
	for _, t := range r.Trials { // the best first
		if t.Exhausted || t.Error != "" {
			d.lost++
		} else {
			d.trials = append(d.trials, t)
		}
	}
	if len(d.trials) == 0 {
		return d
	}
	places := map[int]int{}
	for i, t := range d.trials {
		places[t.Step] = i
	}
	slices.SortFunc(d.trials, func(a, b tuneTrial) int { return cmp.Compare(a.Step, b.Step) })
	for i, t := range d.trials {
		d.rank = append(d.rank, float64(places[t.Step])/float64(max(1, len(d.trials)-1)))
		d.order = append(d.order, i)
		if t.Config.Equal(r.Best) {
			d.best = i
		}
	}
	slices.SortStableFunc(d.order, func(a, b int) int {
		switch d.best {
		case a:
			return 1 // drawn last
		case b:
			return -1
		}
		return cmp.Compare(d.rank[b], d.rank[a])
	})
	d.axes = variedAxes(r.Best.Space(), d.trials)
	return d
}

// variedAxes are the dimensions in which trials differ.
func variedAxes(s *space.Space, trials []tuneTrial) []tuneAxis {
	var out []tuneAxis
	for k := range s.Dims() {
		a := tuneAxis{name: s.Dim(k).Param, at: make([]float64, len(trials))}
		if p, _ := s.Param(a.name); p.Array != nil {
			a.name = fmt.Sprintf("%s %d", a.name, s.Dim(k).Index+1)
		}
		seen := map[float64]bool{}
		for i := range trials {
			a.at[i] = math.NaN()
			if name, ok := valueAt(s, trials[i].Config, k); ok {
				a.at[i] = s.Encode(trials[i].Config)[k]
				if !seen[a.at[i]] {
					a.labels = append(a.labels, chart.Tick{Value: a.at[i], Label: name})
				}
				seen[a.at[i]] = true
			}
		}
		if len(a.labels) > 1 {
			slices.SortFunc(a.labels, func(x, y chart.Tick) int { return cmp.Compare(x.Value, y.Value) })
			out = append(out, a)
		}
	}
	return out
}

// valueAt is the value of a configuration in a dimension, for people.
func valueAt(s *space.Space, c space.Config, k int) (string, bool) {
	dim := s.Dim(k)
	v := c.Get(dim.Param)
	p, _ := s.Param(dim.Param)
	switch {
	case v.IsZero():
		return "", false
	case p.Array != nil && dim.Index >= v.Len():
		return "", false
	case p.Array != nil:
		return chart.Compact(v.At(dim.Index)), true
	}
	for _, x := range p.Special {
		if x.Value == v.Float() && x.Name != "" && v.Text() == "" {
			return x.Name, true
		}
	}
	if v.Text() != "" || p.Kind == space.KindBool {
		return v.String(), true
	}
	return chart.Compact(v.Float()), true
}

// shade is the colour of a trial: the better, the darker.
func (d *tuneDrawing) shade(i int) chart.Color {
	if i == d.best {
		return chart.Orange
	}
	return chart.Blue.Fade(.15 + .75*(1-d.rank[i]))
}

// objective is the vertical axis of the objective, logarithmic where one bad
// configuration would hide the rest.
func (d *tuneDrawing) objective() chart.Axis {
	lo, hi := d.objectives()
	return chart.Axis{Name: d.name(), Log: hi > 4*lo}
}

// name is the objective without its constraints, with its unit.
func (d *tuneDrawing) name() string { return d.report.goal.Objective() + d.unit() }

func (d *tuneDrawing) unit() string {
	if d.report.Unit == "" {
		return ""
	}
	return ", " + d.report.Unit
}

func (d *tuneDrawing) objectives() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for i := range d.trials {
		lo, hi = min(lo, d.trials[i].Objective), max(hi, d.trials[i].Objective)
	}
	return lo, hi
}

// tip is the text of a trial under the pointer.
func (d *tuneDrawing) tip(i int) string {
	t := &d.trials[i]
	return fmt.Sprintf("trial %d, %s: %s\n%s", t.Step+1, t.Origin, d.report.goal.Format(t.Objective), t.Config)
}

// dots are the trials at the places of at, the chosen one apart.
func (d *tuneDrawing) dots(at func(i int) chart.Point) []chart.Layer {
	var out []chart.Layer
	for _, i := range d.order {
		dot := &chart.Dots{Mark: chart.Mark{Color: d.shade(i), Tip: d.tip(i)}, Points: []chart.Point{at(i)}}
		if i == d.best {
			dot.Name, dot.Radius = "chosen", 4
		}
		out = append(out, dot)
	}
	return out
}

func (d *tuneDrawing) bestSoFar() *chart.Chart {
	title := fmt.Sprintf("%s: best so far", d.report.goal.Objective())
	if d.lost > 0 {
		title += fmt.Sprintf(" (without %d that could not be measured)", d.lost)
	}
	c := &chart.Chart{Title: title, X: chart.Axis{Name: "trial"}, Y: d.objective()}
	var points []chart.Point
	for i := range d.trials {
		t := &d.trials[i]
		points = append(points, chart.Point{X: float64(t.Step + 1), Y: t.Objective})
		if t.Config.Equal(d.report.Incumbent) {
			c.Layers = append(c.Layers,
				&chart.Line{Mark: chart.Mark{Name: "incumbent", Color: chart.Gray},
					Points: cli.HorizontalLine(t.Objective),
					Dash:   cli.DashedLine})
		}
	}
	c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Name: "best so far", Color: chart.Blue},
		Points: chart.BestSoFar(points, false)})
	c.Layers = append(c.Layers, d.dots(func(i int) chart.Point { return points[i] })...)
	return c
}

// parallel draws each configuration as a line through its values to its
// objective.
func (d *tuneDrawing) parallel() *chart.Chart {
	lo, hi := d.objectives()
	place := func(v float64) float64 {
		switch {
		case hi == lo:
			return 0
		case lo > 0:
			return math.Log(v/lo) / math.Log(hi/lo)
		}
		return (v - lo) / (hi - lo)
	}
	var axes []chart.Dimension
	for _, a := range d.axes {
		axes = append(axes, chart.Dimension{Name: a.name, Ticks: chart.Spread(a.labels, .08)})
	}
	axes = append(axes, chart.Dimension{Name: d.name(),
		Ticks: []chart.Tick{{Value: 0, Label: chart.Compact(lo)}, {Value: 1, Label: chart.Compact(hi)}}})
	var lines []chart.Polyline
	for _, i := range d.order {
		l := chart.Polyline{Mark: chart.Mark{Color: d.shade(i), Class: "curve", Tip: d.tip(i)}, Width: 1}
		if i == d.best {
			l.Width = 2.2
		}
		for k := range d.axes {
			l.At = append(l.At, d.axes[k].at[i])
		}
		l.At = append(l.At, place(d.trials[i].Objective))
		lines = append(lines, l)
	}
	return chart.Parallel("", axes, lines)
}

// slice draws the objective against one dimension.
func (d *tuneDrawing) slice(k int) *chart.Chart {
	a := &d.axes[k]
	c := &chart.Chart{Title: a.name, X: chart.Axis{Min: -.04, Max: 1.04, Ticks: chart.Spread(a.labels, .2)},
		Y: d.objective()}
	if lo, hi := a.labels[0].Value, a.labels[len(a.labels)-1].Value; hi-lo < 1 { // only the tried part of the range
		c.X.Min, c.X.Max = lo-.04*(hi-lo), hi+.04*(hi-lo)
		c.X.Ticks = chart.Spread(a.labels, .2*(hi-lo))
	}
	c.Layers = d.dots(func(i int) chart.Point { return chart.Point{X: a.at[i], Y: d.trials[i].Objective} })
	c.Layers[len(c.Layers)-1].(*chart.Dots).Name = "" // the legend above says it
	return c
}
