package chart

import "math"

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

// Estimates draws values with their intervals, a row for each from the top, beside a line at the value of no effect.
func Estimates(axis string, none float64, rows []Estimate) *Chart {
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
