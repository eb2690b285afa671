package effects

import (
	"errors"
	"fmt"
	"math"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/space"
)

// Prediction is a model's expectation of one configuration instead of another.
type Prediction struct {
	// Ratio is the objective of the other over that of the one: above 1 the one is better. Low and High are
	// its 90 % interval, of a measurement of the one.
	Ratio, Low, High float64
	// Extrapolation is how the configuration lies beyond the measurements, "" if it does not.
	Extrapolation string
}

// Predict compares a configuration with another on a workload like that of the latest group.
func (m *Model) Predict(from, to space.Config) (Prediction, error) {
	if m.Fault != "" {
		return Prediction{}, errors.New(m.Fault)
	}
	got, err := m.model.Predict(objective, []model.Point{m.point(from), m.point(to)})
	if err != nil {
		return Prediction{}, err
	}
	ratio := func(to float64) float64 { return min(maxRatio, got[0].Mean/max(to, got[0].Mean/maxRatio)) }
	return Prediction{Ratio: ratio(got[1].Mean), Low: ratio(got[1].High), High: ratio(got[1].Low),
		Extrapolation: m.measured.beyond(m.columns, to)}, nil
}

// point is a row of the table, of which predictions read configuration and context.
func (m *Model) point(c space.Config) model.Point {
	p := m.columns.Append(make(model.Point, 0, m.table.Len()), c)
	for len(p)+len(m.context) < m.table.Len() {
		p = append(p, 0)
	}
	return append(p, m.context...)
}

// domain is where configurations were measured.
type domain struct {
	low, high []float64   // by column
	seen      [][]bool    // levels of categorical columns
	configs   [][]float64 // as measured, each once
	widest    float64     // the largest distance from one of them to the nearest other
}

func newDomain(c *prune.Columns, rows [][]float64) domain {
	n := c.Len()
	d := domain{seen: make([][]bool, n), low: make([]float64, n), high: make([]float64, n)}
	known := map[string]bool{}
	for i := range n {
		d.low[i], d.high[i] = math.Inf(1), math.Inf(-1)
		if levels := c.Column(i, nil).Levels; levels != nil {
			d.seen[i] = make([]bool, len(levels))
		}
	}
	for _, row := range rows {
		config := row[:n:n]
		for i, v := range config {
			d.low[i], d.high[i] = min(d.low[i], v), max(d.high[i], v)
			if d.seen[i] != nil {
				d.seen[i][int(v)] = true
			}
		}
		if key := fmt.Sprint(config); !known[key] {
			known[key] = true
			d.configs = append(d.configs, config)
		}
	}
	for k := range d.configs {
		if near := d.nearest(d.configs[k], k); !math.IsInf(near, 0) {
			d.widest = max(d.widest, near)
		}
	}
	return d
}

// nearest is the distance to the nearest measured configuration but one: the mean over the columns of the
// difference as a share of the range measured, or of whether categories differ.
func (d *domain) nearest(config []float64, but int) float64 {
	near := math.Inf(1)
	for k, other := range d.configs {
		if k == but {
			continue
		}
		sum := 0.0
		for i, v := range config {
			switch {
			case v == other[i]:
			case d.seen[i] != nil || d.high[i] == d.low[i]:
				sum++
			default:
				sum += math.Abs(v-other[i]) / (d.high[i] - d.low[i])
			}
		}
		near = min(near, sum/float64(len(config)))
	}
	return near
}

// beyond says how a configuration lies outside of the measurements, "" if it does not.
func (d *domain) beyond(c *prune.Columns, config space.Config) string {
	row := c.Append(nil, config)
	for i, v := range row {
		switch {
		case d.seen[i] != nil && !d.seen[i][int(v)]:
			return fmt.Sprintf("%s=%s was never measured", c.Names()[i], c.Column(i, nil).Levels[int(v)])
		case v != d.low[i] && d.low[i] == d.high[i]:
			return c.Param(i) + " was never changed"
		case v < d.low[i] || v > d.high[i]:
			return fmt.Sprintf("%s=%.5g is outside of what was measured, %.5g to %.5g", c.Names()[i], v, d.low[i],
				d.high[i])
		}
	}
	if d.nearest(row, -1) > d.widest {
		return "no configuration like it was measured"
	}
	return ""
}
