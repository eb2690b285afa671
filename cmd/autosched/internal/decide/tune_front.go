package decide

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/chart"
)

// front draws the trials by the first two of the metrics, and as steps those
// that no other beats in these two.
func (d *tuneDrawing) front() *chart.Chart {
	r := d.report
	all := make([]chart.Point, len(d.trials))
	var front []chart.Point
	for i := range d.trials {
		t := &d.trials[i]
		all[i] = chart.Point{X: t.Sides[r.Metrics[0]], Y: t.Sides[r.Metrics[1]]}
		if slices.Contains(r.Front, t.Step) {
			front = append(front, all[i])
		}
	}
	slices.SortFunc(front, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	var steps []chart.Point
	for _, x := range front {
		if n := len(steps); n == 0 || x.Y < steps[n-1].Y { // else beaten in these two
			steps = append(steps, x)
		}
	}
	// Bad configurations far away would hide the front.
	right := within(all, front, func(x chart.Point) float64 { return x.X })
	top := within(all, front, func(x chart.Point) float64 { return x.Y })
	c := &chart.Chart{Title: "Configurations that no other beats", X: chart.Axis{Name: r.Metrics[0]},
		Y: chart.Axis{Name: r.Metrics[1]}}
	c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Name: "front of these two", Color: chart.Blue},
		Points: chart.Steps(steps, steps[len(steps)-1].X)})
	c.Layers = append(c.Layers, d.dots(func(i int) chart.Point {
		if all[i].X > right || all[i].Y > top {
			return chart.Point{X: math.NaN(), Y: math.NaN()}
		}
		return all[i]
	})...)
	return c
}

// within is the end of an axis on which the front fills half or everything is
// shown.
func within(all, front []chart.Point, of func(chart.Point) float64) float64 {
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
