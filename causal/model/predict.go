package model

import (
	"fmt"
	"math"

	"github.com/autosched/autosched/causal"
)

// Point is a row of a model's table. Predictions read its context and configuration
// columns. Categorical values are indices of the column's levels.
type Point []float64

// Prediction is a prediction of an objective at a point, in its units.
type Prediction struct {
	// Mean blends the structural and the direct head.
	Mean float64 `json:"mean"`
	// SD is the standard deviation of a measurement about Mean: the bootstrap's spread
	// and the out-of-fold error combined.
	SD float64 `json:"sd"`
	// Low, Median and High are the 5, 50 and 95 % quantiles.
	Low    float64 `json:"q05"`
	Median float64 `json:"q50"`
	High   float64 `json:"q95"`
	// Structural and Direct are the predictions of the two heads.
	Structural float64 `json:"structural"`
	Direct     float64 `json:"direct"`

	log    bool
	spread float64 // of the logarithm if log
}

// Below returns the probability that a measurement is below value.
func (p Prediction) Below(value float64) float64 {
	at, middle := value, p.Mean
	if p.log {
		if value <= 0 {
			return 0
		}
		at, middle = math.Log(value), math.Log(p.Mean)
	}
	if p.spread == 0 {
		if at > middle {
			return 1
		}
		return 0
	}
	return .5 * math.Erfc(-(at-middle)/(p.spread*math.Sqrt2))
}

// buffer is the workspace of a prediction.
type buffer struct {
	row, x []float64
}

func (m *Model) buffer() *buffer {
	return &buffer{row: make([]float64, m.table.Len()), x: make([]float64, m.wide)}
}

// propagate predicts metrics and objectives in causal order from a point's context
// and configuration, and writes them to buf.row.
func (m *Model) propagate(v *variant, p []float64, buf *buffer) {
	copy(buf.row, p)
	for _, n := range m.order {
		buf.row[n] = m.nodes[n].predict(&v.nodes[n], buf.row, buf.x)
	}
}

// heads returns a variant's two predictions of objective k.
func (m *Model) heads(v *variant, k int, p []float64, buf *buffer) (structural, direct float64) {
	if m.blend[k] > 0 {
		m.propagate(v, p, buf)
		structural = buf.row[m.objectives[k]]
	}
	if m.blend[k] < 1 {
		direct = m.direct[k].predict(&v.direct[k], p, buf.x)
	}
	return structural, direct
}

func (m *Model) mean(v *variant, k int, p []float64, buf *buffer) float64 {
	s, d := m.heads(v, k, p, buf)
	return m.blend[k]*s + (1-m.blend[k])*d
}

// Predict predicts an objective at points, each with a value per column of the
// table.
func (m *Model) Predict(objective string, points []Point) ([]Prediction, error) {
	k, err := m.objective(objective)
	if err != nil {
		return nil, err
	}
	buf := m.buffer()
	out := make([]Prediction, len(points))
	for i, p := range points {
		if err := m.check(p); err != nil {
			return nil, fmt.Errorf("causal/model: point %d: %w", i, err)
		}
		out[i] = m.predict(k, p, buf)
	}
	return out, nil
}

func (m *Model) predict(k int, p []float64, buf *buffer) Prediction {
	r := m.direct[k]
	var out Prediction
	m.propagate(&m.all, p, buf)
	out.Structural = buf.row[m.objectives[k]]
	out.Direct = r.predict(&m.all.direct[k], p, buf.x)
	out.Mean = m.blend[k]*out.Structural + (1-m.blend[k])*out.Direct
	middle := r.y(out.Mean)
	squares := m.spread[k] * m.spread[k]
	for b := range m.boots {
		d := r.y(m.mean(&m.boots[b], k, p, buf)) - middle
		squares += d * d / float64(len(m.boots))
	}
	sd := math.Sqrt(squares)
	out.log, out.spread, out.SD, out.Median = r.log, sd, sd, out.Mean
	out.Low, out.High = r.interval(out.Mean, out.Mean, sd)
	switch {
	case r.log: // first-order approximation for a log-normal
		out.SD = sd * out.Mean
	case r.positive():
		out.log, out.spread = true, logSD(out.Mean, sd)
	}
	return out
}

func (m *Model) check(p Point) error {
	if len(p) != m.table.Len() {
		return fmt.Errorf("%d values for %d columns", len(p), m.table.Len())
	}
	for _, c := range m.roots {
		if err := m.checkValue(c, p[c]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) checkValue(column int, v float64) error {
	c := m.table.Column(column)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Errorf("%s: %v is not a finite number", c.Name, v)
	case c.Kind == causal.Categorical && (v != math.Trunc(v) || v < 0 || int(v) >= len(c.Levels)):
		return fmt.Errorf("%s: %v is not the index of one of its %d levels", c.Name, v, len(c.Levels))
	}
	return nil
}
