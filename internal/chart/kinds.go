package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Estimate is a value with an interval around it, or without one if Low and High are equal.
type Estimate struct {
	Name, Tip        string
	Value, Low, High float64
	Color            Color
}

// rowHeight is the height of a row of [Estimates].
const rowHeight = 26

// RowsHeight is the height of [Estimates] with n rows.
func RowsHeight(n int) float64 { return max(120, rowHeight*float64(n)+54) }

// Estimates draws values with their intervals of a confidence in percent, a row for each from the top, beside a line at
// the value of no effect.
func Estimates(axis string, confidence int, none float64, rows []Estimate) *Chart {
	if slices.ContainsFunc(rows, func(e Estimate) bool { return e.Low != e.High }) {
		axis += fmt.Sprintf(", with the %d %% interval", confidence)
	}
	c := &Chart{X: Axis{Name: axis, Include: []float64{none}},
		Y:      Axis{Min: -.6, Max: float64(len(rows)) - .4, Labels: true},
		Layers: []Layer{&Line{Mark: Mark{Color: Soft}, Points: vertical(none), Width: 1, Dash: []float64{3, 3}}}}
	for i := range rows {
		e, y := &rows[i], float64(len(rows)-1-i)
		c.Y.Ticks = append(c.Y.Ticks, Tick{y, Clip(e.Name, 24)})
		m := Mark{Color: e.Color, Tip: e.Tip}
		if e.Low != e.High {
			c.Layers = append(c.Layers, &Line{Mark: m, Points: []Point{{e.Low, y}, {e.High, y}}, Width: 3})
		}
		c.Layers = append(c.Layers, &Dots{Mark: m, Points: []Point{{e.Value, y}}, Radius: 5})
	}
	return c
}

func vertical(x float64) []Point { return []Point{{x, math.Inf(-1)}, {x, math.Inf(1)}} }

// Bars are series of values side by side in groups.
type Bars struct {
	Title, Axis    string // with unit
	Groups, Series []string
	Value          func(group, series int) (v float64, tip string) // NaN without one
}

// barColors are those of series: the first of several is the reference.
var barColors = []Color{Gray, Blue, Orange, Series(7)}

// Chart draws the bars.
func (b *Bars) Chart() *Chart {
	c := &Chart{Title: b.Title, X: Axis{Min: -.6, Max: float64(len(b.Groups)) - .4},
		Y: Axis{Name: b.Axis, Include: []float64{0, .1}}}
	width := .76 / float64(len(b.Series))
	named := make([]bool, len(b.Series))
	for g, name := range b.Groups {
		c.X.Ticks = append(c.X.Ticks, Tick{float64(g), Clip(name, 10)})
		for s, series := range b.Series {
			v, tip := b.Value(g, s)
			if v != v {
				continue
			}
			m := Mark{Color: barColors[s%len(barColors)], Tip: tip}
			if len(b.Series) == 1 {
				m.Color = Blue
			} else if !named[s] {
				m.Name, named[s] = series, true
			}
			at := float64(g) - .38 + width*float64(s)
			c.Layers = append(c.Layers, &Area{Mark: m, Points: Box(at, 0, at+.95*width, v)})
		}
	}
	return c
}

// sign is that by which values are compared: a lower product is better.
func sign(maximize bool) float64 {
	if maximize {
		return -1
	}
	return 1
}

// BestSoFar is the step curve of the best Y of points in order of X.
func BestSoFar(points []Point, maximize bool) []Point {
	var best []Point
	for _, p := range points {
		if n := len(best); n > 0 && sign(maximize)*best[n-1].Y < sign(maximize)*p.Y {
			p.Y = best[n-1].Y
		}
		best = append(best, p)
	}
	return Steps(best, points[len(points)-1].X)
}

// Front is a chart of items by two values, with the line through those that no other beats.
type Front struct {
	Title      string
	X, Y       string // the values
	MaxX, MaxY bool   // which are to be large
	Points     []Point
}

// Chart draws the items, of which best are on the front. dots draws them where at says: NaN for bad ones so far away
// that they would hide the front.
func (f *Front) Chart(best []Point, dots func(at func(i int) Point) []Layer) *Chart {
	sx, sy := sign(f.MaxX), sign(f.MaxY)
	best = slices.SortedFunc(slices.Values(best), func(a, b Point) int { return cmp.Compare(sx*a.X, sx*b.X) })
	var steps []Point
	for _, p := range best {
		if n := len(steps); n == 0 || sy*p.Y < sy*steps[n-1].Y { // else beaten in these two
			steps = append(steps, p)
		}
	}
	right := farthest(f.Points, best, func(p Point) float64 { return sx * p.X })
	top := farthest(f.Points, best, func(p Point) float64 { return sy * p.Y })
	c := &Chart{Title: f.Title, X: Axis{Name: f.X}, Y: Axis{Name: f.Y},
		Layers: []Layer{&Line{Mark: Mark{Name: "front of these two", Color: Blue},
			Points: Steps(steps, steps[len(steps)-1].X)}}}
	c.Layers = append(c.Layers, dots(func(i int) Point {
		if p := f.Points[i]; sx*p.X <= right && sy*p.Y <= top {
			return p
		}
		return Point{math.NaN(), math.NaN()}
	})...)
	return c
}

// farthest is the end of an axis on which the front fills half or everything is shown.
func farthest(all, front []Point, of func(Point) float64) float64 {
	lo, hi, most := of(front[0]), of(front[0]), of(front[0])
	for _, p := range front {
		lo, hi = min(lo, of(p)), max(hi, of(p))
	}
	for _, p := range all {
		most = max(most, of(p))
	}
	if hi == lo {
		return most
	}
	return min(most, hi+(hi-lo))
}
