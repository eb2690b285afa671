package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/causal"
)

// drift records which recent updates of an objective deviated from the predictions.
type drift struct {
	far   []bool // of the latest updates, in order
	began []int  // number of the first row of each
}

// An objective has drifted if driftOf of its last driftIn updates deviated: a single
// measurement by more than driftSDs standard deviations, or the mean of several by
// more than driftSDs*sqrt(2) standard errors.
const (
	driftSDs = 3
	driftOf  = 5
	driftIn  = 10
)

// Update is the outcome of [Model.Update].
type Update struct {
	Rows int `json:"rows"`
	// Error is the mean relative error of predicting the new rows before learning
	// them, by objective.
	Error map[string]float64 `json:"error"`
	// Drifted names the objectives that deviate persistently from the predictions.
	Drifted []string `json:"drifted,omitempty"`
	// Reset is true if the model dropped the rows before the drift.
	Reset bool `json:"reset,omitempty"`
}

// Update adds rows of a table with the same columns and levels. Families, penalties
// and blends stay (Refit chooses them again); earlier rows decay by
// Options.HalfLife. If an objective has drifted, the rows before the drift are
// dropped and the model is refitted.
func (m *Model) Update(ctx context.Context, t *causal.Table) (Update, error) {
	if err := m.same(t); err != nil {
		return Update{}, err
	}
	u := Update{Rows: t.Rows(), Error: map[string]float64{}}
	if t.Rows() == 0 {
		return u, nil
	}
	since := m.detectDrift(t, &u)
	if m.o.HalfLife > 0 {
		by := math.Exp2(-float64(t.Rows()) / m.o.HalfLife)
		for _, r := range m.regressions() {
			for b := range r.blocks {
				r.blocks[b].fade(by)
			}
		}
	}
	m.learn(t, nil)
	if len(u.Drifted) > 0 {
		if keep := max(m.seen-since, MinRows); keep < len(m.rows) {
			u.Reset = true
			m.forget(m.rows[len(m.rows)-keep:])
			return u, m.refit(ctx)
		}
	}
	return u, m.solve(ctx, nil)
}

// Refit chooses families, penalties and blends again from the rows kept.
func (m *Model) Refit(ctx context.Context) error { return m.refit(ctx) }

// forget drops all rows but the given ones.
func (m *Model) forget(rows [][]float64) {
	rows = slices.Clone(rows)
	m.blocks = m.blocks[:0]
	for n := range rows {
		m.blocks = append(m.blocks, n%blocks)
	}
	x := make([]float64, m.wide)
	all := m.regressions()
	for _, r := range all {
		for b := range r.blocks {
			r.blocks[b].reset()
		}
		r.low, r.top = math.Inf(1), math.Inf(-1)
	}
	for n, row := range rows {
		learnAll(all, row, m.blocks[n], x)
	}
	m.rows, m.seen = rows, len(rows)
}

// detectDrift predicts rows before they are learned. It sets u.Error and u.Drifted
// and returns the number of the row at which a drift began, or of the first new row.
func (m *Model) detectDrift(t *causal.Table, u *Update) int {
	since := m.seen
	buf := m.buffer()
	row := make([]float64, t.Len())
	for k, o := range m.objectives {
		sum, z, far := 0.0, 0.0, false
		for r := range t.Rows() {
			for i := range row {
				row[i] = t.Column(i).Values[r]
			}
			p := m.mean(&m.all, k, row, buf)
			measured := t.Column(o).Values[r]
			sum += math.Abs(p-measured) / max(math.Abs(measured), 1e-12)
			d := (m.direct[k].y(measured) - m.direct[k].y(p)) / max(m.spread[k], 1e-12)
			z += d / float64(t.Rows())
			far = far || t.Rows() == 1 && math.Abs(d) > driftSDs
		}
		// Several measurements are tested by their mean, against its standard error.
		far = far || t.Rows() > 1 && math.Abs(z)*math.Sqrt(float64(t.Rows())) > driftSDs*math.Sqrt(2)
		u.Error[m.name(o)] = sum / float64(t.Rows())
		d := &m.drift[k]
		d.far, d.began = append(d.far, far), append(d.began, m.seen)
		if over := len(d.far) - driftIn; over > 0 {
			d.far, d.began = slices.Delete(d.far, 0, over), slices.Delete(d.began, 0, over)
		}
		n := 0
		for _, f := range d.far {
			if f {
				n++
			}
		}
		if n >= driftOf {
			u.Drifted = append(u.Drifted, m.name(o))
			since = min(since, d.began[slices.Index(d.far, true)])
			d.far, d.began = d.far[:0], d.began[:0]
		}
	}
	return since
}

// same returns an error unless a table has the model's columns and levels.
func (m *Model) same(t *causal.Table) error {
	if t.Len() != m.table.Len() {
		return fmt.Errorf("causal/model: %d columns, the model has %d", t.Len(), m.table.Len())
	}
	for i := range t.Len() {
		a, b := m.table.Column(i), t.Column(i)
		if a.Name != b.Name || (a.Kind == causal.Categorical) != (b.Kind == causal.Categorical) ||
			!slices.Equal(a.Levels, b.Levels) {
			return fmt.Errorf("causal/model: column %d is %q (%v, %d levels), in the model %q (%v, %d levels)",
				i+1, b.Name,
				b.Kind, len(b.Levels), a.Name, a.Kind, len(a.Levels))
		}
	}
	return nil
}
