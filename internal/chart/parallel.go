package chart

// Dimension is an axis of parallel coordinates, from 0 at the bottom to 1 at the
// top.
type Dimension struct {
	Name  string
	Ticks []Tick
}

// Polyline is one item of parallel coordinates.
type Polyline struct {
	Mark
	At    []float64 // by dimension; NaN for no value
	Width float64
}

// Parallel returns a chart of items as lines across parallel axes.
func Parallel(title string, dimensions []Dimension, items []Polyline) *Chart {
	last := float64(len(dimensions) - 1)
	c := &Chart{Title: title, X: Axis{Min: -.05, Max: last + .6, Ticks: []Tick{}},
		Y: Axis{Min: -.04, Max: 1.2, Ticks: []Tick{}}}
	for _, item := range items {
		l := &Line{Mark: item.Mark, Width: item.Width}
		for k, v := range item.At {
			l.Points = append(l.Points, Point{float64(k), v})
		}
		c.Layers = append(c.Layers, l)
	}
	for k, d := range dimensions {
		x, above := float64(k), 14+16*float64(k%2) // stagger long names
		c.Layers = append(c.Layers, &Line{Mark: Mark{Color: Soft}, Points: []Point{{x, 0}, {x, 1}}, Width: 1},
			&Text{Mark: Mark{Color: Ink}, At: Point{x, 1}, Text: d.Name, DX: -2, DY: -above, Bold: true})
		for _, t := range d.Ticks {
			c.Layers = append(c.Layers,
				&Text{Mark: Mark{Color: Soft}, At: Point{x, t.Value}, Text: t.Label, DX: 4, DY: 4})
		}
	}
	return c
}

// Spread selects labels with values at least apart from each other: both ends, and
// fitting ones in between.
func Spread(labels []Tick, apart float64) []Tick {
	if len(labels) < 2 {
		return labels
	}
	last := labels[len(labels)-1]
	out := labels[:1:1]
	for _, t := range labels[1 : len(labels)-1] {
		if t.Value-out[len(out)-1].Value >= apart && last.Value-t.Value >= apart {
			out = append(out, t)
		}
	}
	return append(out, last)
}
