package chart

// Dimension is one axis of parallel coordinates, from 0 below to 1 above.
type Dimension struct {
	Name  string
	Ticks []Tick
}

// Polyline is an item of parallel coordinates.
type Polyline struct {
	Mark
	At    []float64 // on each dimension; NaN: it has no value there
	Width float64
}

// Parallel draws items as lines through their values on parallel axes.
func Parallel(title string, dimensions []Dimension, items []Polyline) *Chart {
	last := float64(len(dimensions) - 1)
	c := &Chart{Title: title, X: Axis{Min: -.05, Max: last + .6, Ticks: []Tick{}},
		Y: Axis{Min: -.04, Max: 1.16, Ticks: []Tick{}}}
	for _, item := range items {
		l := &Line{Mark: item.Mark, Width: item.Width}
		for k, v := range item.At {
			l.Points = append(l.Points, Point{float64(k), v})
		}
		c.Layers = append(c.Layers, l)
	}
	for k, d := range dimensions {
		x, above := float64(k), 10+16*float64(k%2) // long names stand over their neighbours
		c.Layers = append(c.Layers, &Line{Mark: Mark{Color: Soft}, Points: []Point{{x, 0}, {x, 1}}, Width: 1},
			&Text{Mark: Mark{Color: Ink}, At: Point{x, 1}, Text: d.Name, DX: -2, DY: -above, Bold: true})
		for _, t := range d.Ticks {
			c.Layers = append(c.Layers,
				&Text{Mark: Mark{Color: Soft}, At: Point{x, t.Value}, Text: t.Label, DX: 4, DY: 4})
		}
	}
	return c
}

// Spread chooses labels by value so that neighbours are apart: the ends, and
// between them what has room.
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
