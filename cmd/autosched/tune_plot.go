package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/autosched/autosched/space"
)

// plotTune draws what a search did: how good the best was after each trial, all
// configurations as lines through their parameters, and the objective against
// each parameter. An HTML page has the numbers too.
func plotTune(path string, r *tuneReport, top int) error {
	d := newTuneDrawing(r)
	if len(d.trials) == 0 {
		return fmt.Errorf("--plot: no trial has an objective to draw")
	}
	best, err := d.bestSoFar()
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	parallel, err := d.parallel()
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	var front *plot.Plot
	if len(r.Front) > 0 {
		if front, err = d.front(); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	const columns = 4
	rows := (len(d.axes) + columns - 1) / columns
	const width, firstHeight, parallelHeight, sliceHeight = 13 * vg.Inch, 3 * vg.Inch, 3.6 * vg.Inch, 2.6 * vg.Inch
	height := firstHeight + parallelHeight + vg.Length(rows)*sliceHeight
	// A front stands beside the best so far.
	middle := width
	if front != nil {
		middle = width / 2
	}
	image := newCanvas(path, width, height)
	whole := draw.New(image)
	pad := 3 * vg.Millimeter
	best.Draw(draw.Crop(whole, pad, middle-width-pad, height-firstHeight, -pad))
	if front != nil {
		front.Draw(draw.Crop(whole, middle+pad, -pad, height-firstHeight, -pad))
	}
	parallel.Draw(draw.Crop(whole, pad, -pad, height-firstHeight-parallelHeight, -firstHeight-pad))
	for i := range d.axes {
		p, err := d.slice(i)
		if err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
		left, bottom := width/columns*vg.Length(i%columns), sliceHeight*vg.Length(rows-1-i/columns)
		p.Draw(draw.Crop(whole, left+pad, left+width/columns-width-pad, bottom, bottom+sliceHeight-height-pad))
	}
	var text strings.Builder
	if err := r.print(&text, top); err != nil {
		return err
	}
	return writePlot(path, image, page{fmt.Sprintf("%s: %s at %s", r.Trace, r.Scheduler, r.At), r.Synthetic, text.String()})
}

// tuneDrawing is a search as it is drawn.
type tuneDrawing struct {
	report *tuneReport
	trials []tuneTrial // that have an objective, in the order they were measured
	rank   []float64   // of each by objective, from 0, the best, to 1
	best   int
	axes   []tuneAxis // of what was varied
	lost   int        // trials without an objective
}

// tuneAxis is a dimension of the space: where each trial is on it, from 0 to 1,
// NaN where it has no value, and what values are where.
type tuneAxis struct {
	name  string
	at    []float64
	ticks []plot.Tick
}

func newTuneDrawing(r *tuneReport) *tuneDrawing {
	d := &tuneDrawing{report: r}
	for _, t := range r.Trials {
		if t.Exhausted || t.Error != "" {
			d.lost++
		} else {
			d.trials = append(d.trials, t)
		}
	}
	if len(d.trials) == 0 {
		return d
	}
	byObjective := slices.Clone(d.trials) // of the report: the best first
	slices.SortFunc(d.trials, func(a, b tuneTrial) int { return a.Step - b.Step })
	d.rank = make([]float64, len(d.trials))
	for i := range d.trials {
		k := slices.IndexFunc(byObjective, func(t tuneTrial) bool { return t.Step == d.trials[i].Step })
		d.rank[i] = float64(k) / float64(max(1, len(d.trials)-1))
		if d.trials[i].Config.Equal(r.Best) {
			d.best = i
		}
	}
	s := r.Best.Space()
	points := make([][]float64, len(d.trials))
	for i := range d.trials {
		points[i] = s.Encode(d.trials[i].Config)
	}
	for k := range s.Dims() {
		a := tuneAxis{name: s.Dim(k).Param, at: make([]float64, len(d.trials))}
		if p, _ := s.Param(a.name); p.Array != nil {
			a.name = fmt.Sprintf("%s %d", a.name, s.Dim(k).Index+1)
		}
		names := map[float64]string{}
		for i := range d.trials {
			a.at[i] = math.NaN()
			if name, ok := valueAt(s, d.trials[i].Config, k); ok {
				a.at[i] = points[i][k]
				names[a.at[i]] = name
			}
		}
		if len(names) > 1 {
			a.ticks = spread(names, .14)
			d.axes = append(d.axes, a)
		}
	}
	return d
}

// valueAt is what a configuration has in a dimension, for people.
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
		return compact(v.At(dim.Index)), true
	}
	for _, x := range p.Special {
		if x.Value == v.Float() && x.Name != "" && v.Text() == "" {
			return x.Name, true
		}
	}
	if v.Text() != "" || p.Kind == space.KindBool {
		return v.String(), true
	}
	return compact(v.Float()), true
}

// compact writes a number in the room there is.
func compact(v float64) string {
	for _, u := range []struct {
		unit float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.unit {
			return fmt.Sprintf("%.3g", v/u.unit) + u.name
		}
	}
	return fmt.Sprintf("%.3g", v)
}

// spread chooses values to label, far enough from each other: the ends first.
func spread(names map[float64]string, apart float64) []plot.Tick {
	var at []float64
	for x := range names {
		at = append(at, x)
	}
	slices.Sort(at)
	lo, hi := at[0], at[len(at)-1]
	out := []plot.Tick{{Value: lo, Label: names[lo]}}
	for _, x := range at[1 : len(at)-1] {
		if x-out[len(out)-1].Value >= apart && hi-x >= apart {
			out = append(out, plot.Tick{Value: x, Label: names[x]})
		}
	}
	return append(out, plot.Tick{Value: hi, Label: names[hi]})
}

// shade of a trial by its rank: the better the darker.
func shade(rank float64) color.Color {
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + rank*(float64(b)-float64(a)))) }
	return color.RGBA{mix(usedColour.R, 0xdd), mix(usedColour.G, 0xe3), mix(usedColour.B, 0xe8), 0xff}
}

// objectiveAxis is logarithmic where one bad configuration would hide the rest.
func (d *tuneDrawing) objectiveAxis(p *plot.Plot) {
	lo, hi := math.Inf(1), 0.0
	for i := range d.trials {
		lo, hi = min(lo, d.trials[i].Objective), max(hi, d.trials[i].Objective)
	}
	if lo > 0 && hi > 4*lo {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
}

// worstFirst is the order in which trials are drawn, so that the good are on top.
func (d *tuneDrawing) worstFirst() []int {
	order := make([]int, len(d.trials))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case a == d.best || d.rank[a] < d.rank[b]:
			return 1
		case b == d.best || d.rank[a] > d.rank[b]:
			return -1
		}
		return 0
	})
	return order
}

func (d *tuneDrawing) bestSoFar() (*plot.Plot, error) {
	title := fmt.Sprintf("%s: best so far", d.report.Objective)
	if d.lost > 0 {
		title += fmt.Sprintf(" (without %d that could not be measured)", d.lost)
	}
	p := newPlot(title, "trial", d.report.Objective)
	d.objectiveAxis(p)
	var all, best plotter.XYs
	low := math.Inf(1)
	incumbent := math.NaN()
	for i := range d.trials {
		t := &d.trials[i]
		x := float64(t.Step + 1)
		all = append(all, plotter.XY{X: x, Y: t.Objective})
		if low = min(low, t.Objective); len(best) > 0 {
			best = append(best, plotter.XY{X: x, Y: best[len(best)-1].Y})
		}
		best = append(best, plotter.XY{X: x, Y: low})
		if t.Config.Equal(d.report.Incumbent) {
			incumbent = t.Objective
		}
	}
	if err := d.addPoints(p, all, d.worstFirst()); err != nil {
		return nil, err
	}
	if !math.IsNaN(incumbent) {
		line, err := plotter.NewLine(plotter.XYs{{X: all[0].X, Y: incumbent}, {X: all[len(all)-1].X, Y: incumbent}})
		if err != nil {
			return nil, err
		}
		line.Color, line.Dashes = limitColour, []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(line)
		p.Legend.Add("incumbent", line)
	}
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	return p, addLine(p, best, usedColour, "best so far")
}

// addPoints draws trials where they are, by rank, the chosen one apart.
func (d *tuneDrawing) addPoints(p *plot.Plot, xys plotter.XYs, order []int) error {
	for _, i := range order {
		if math.IsNaN(xys[i].X) {
			continue
		}
		s, err := plotter.NewScatter(plotter.XYs{xys[i]})
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: shade(d.rank[i]), Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		if i == d.best {
			s.Color, s.Radius = queuedColour, vg.Points(4)
		}
		p.Add(s)
	}
	return nil
}

// parallel draws each configuration as a line through its values.
func (d *tuneDrawing) parallel() (*plot.Plot, error) {
	p := newPlot("Configurations: the darker the better, the chosen one in orange", "", "")
	p.HideAxes()
	last := float64(len(d.axes))
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range d.trials {
		lo, hi = min(lo, d.trials[i].Objective), max(hi, d.trials[i].Objective)
	}
	place := func(v float64) float64 { // of an objective, on its axis
		switch {
		case hi == lo:
			return 0
		case lo > 0:
			return math.Log(v/lo) / math.Log(hi/lo)
		}
		return (v - lo) / (hi - lo)
	}
	for _, i := range d.worstFirst() {
		var run plotter.XYs
		flush := func() error {
			defer func() { run = nil }()
			if len(run) < 2 {
				return nil
			}
			line, err := plotter.NewLine(run)
			if err != nil {
				return err
			}
			line.Color, line.Width = shade(d.rank[i]), vg.Points(.8)
			if i == d.best {
				line.Color, line.Width = queuedColour, vg.Points(2)
			}
			p.Add(line)
			return nil
		}
		for k := range d.axes {
			if math.IsNaN(d.axes[k].at[i]) { // it has no such parameter
				if err := flush(); err != nil {
					return nil, err
				}
				continue
			}
			run = append(run, plotter.XY{X: float64(k), Y: d.axes[k].at[i]})
		}
		run = append(run, plotter.XY{X: last, Y: place(d.trials[i].Objective)})
		if err := flush(); err != nil {
			return nil, err
		}
	}
	axes := append(slices.Clone(d.axes), tuneAxis{name: d.report.Objective, ticks: []plot.Tick{{Value: 0, Label: compact(lo)}, {Value: 1, Label: compact(hi)}}})
	labels := plotter.XYLabels{}
	for k, a := range axes {
		line, err := plotter.NewLine(plotter.XYs{{X: float64(k), Y: 0}, {X: float64(k), Y: 1}})
		if err != nil {
			return nil, err
		}
		line.Color = limitColour
		p.Add(line)
		for _, t := range a.ticks {
			labels.XYs, labels.Labels = append(labels.XYs, plotter.XY{X: float64(k), Y: t.Value}), append(labels.Labels, " "+t.Label)
		}
		labels.XYs, labels.Labels = append(labels.XYs, plotter.XY{X: float64(k), Y: 1.1}), append(labels.Labels, a.name)
	}
	drawn, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range drawn.TextStyle {
		drawn.TextStyle[i].Font.Size = vg.Points(9)
		drawn.TextStyle[i].YAlign = text.YCenter
	}
	p.Add(drawn)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -.1, last+.6, -.05, 1.18
	return p, nil
}

// slice draws the objective against one dimension.
func (d *tuneDrawing) slice(k int) (*plot.Plot, error) {
	a := &d.axes[k]
	p := newPlot(a.name, "", d.report.Objective)
	d.objectiveAxis(p)
	xys := make(plotter.XYs, len(d.trials))
	for i := range d.trials {
		xys[i] = plotter.XY{X: a.at[i], Y: d.trials[i].Objective}
	}
	if err := d.addPoints(p, xys, d.worstFirst()); err != nil {
		return nil, err
	}
	// Less room than on a vertical axis.
	names := map[float64]string{}
	for _, t := range a.ticks {
		names[t.Value] = t.Label
	}
	p.X.Tick.Marker = plot.ConstantTicks(spread(names, .2))
	p.X.Min, p.X.Max = p.X.Min-.03, p.X.Max+.03
	return p, nil
}
