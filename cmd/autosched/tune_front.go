package main

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// front draws the trials by the first two of the metrics, and those that no
// other beats in these two as steps.
func (d *tuneDrawing) front() (*plot.Plot, error) {
	r := d.report
	p := newPlot("Configurations that no other beats", r.Metrics[0], r.Metrics[1])
	xys := make(plotter.XYs, len(d.trials))
	var front plotter.XYs
	for i := range d.trials {
		t := &d.trials[i]
		xys[i] = plotter.XY{X: t.Sides[r.Metrics[0]], Y: t.Sides[r.Metrics[1]]}
		if slices.Contains(r.Front, t.Step) {
			front = append(front, xys[i])
		}
	}
	slices.SortFunc(front, func(a, b plotter.XY) int {
		switch {
		case a.X < b.X:
			return -1
		case a.X > b.X:
			return 1
		}
		return 0
	})
	var steps plotter.XYs
	for _, x := range front {
		if n := len(steps); n > 0 {
			low := steps[n-1].Y
			if x.Y >= low { // beaten in these two
				continue
			}
			steps = append(steps, plotter.XY{X: x.X, Y: low})
		}
		steps = append(steps, x)
	}
	// Bad configurations far away would hide the front.
	p.X.Max, p.Y.Max = within(xys, front, func(x plotter.XY) float64 { return x.X }), within(xys, front, func(x plotter.XY) float64 { return x.Y })
	right, top := p.X.Max, p.Y.Max
	for i := range xys {
		if xys[i].X > right || xys[i].Y > top {
			xys[i].X = math.NaN()
		}
	}
	if err := d.addPoints(p, xys, d.worstFirst()); err != nil {
		return nil, err
	}
	p.Legend.Top, p.Legend.Padding = true, 3
	return p, addLine(p, steps, usedColour, "front of these two")
}

// within is the end of an axis on which the front fills half or everything is
// shown.
func within(all, front plotter.XYs, of func(plotter.XY) float64) float64 {
	lo, hi, most := of(front[0]), of(front[0]), of(front[0])
	for _, x := range front {
		lo, hi = min(lo, of(x)), max(hi, of(x))
	}
	for _, x := range all {
		most = max(most, of(x))
	}
	if hi == lo {
		return most
	}
	return min(most, hi+(hi-lo))
}
