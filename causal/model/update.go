package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/causal"
)

// drift counts how often an objective's latest measurements were far from what
// was predicted.
type drift struct {
	far   []bool // of the latest updates, latest last
	began []int  // the number of the first row of each
}

// Drift is declared when in driftOf of the last driftIn updates a measurement
// was more than driftSDs standard deviations from its prediction, or their mean
// was.
const (
	driftSDs = 3
	driftOf  = 5
	driftIn  = 10
)

// Update says what an update did.
type Update struct {
	Rows int `json:"rows"`
	// Error is the mean relative error with which the new rows were predicted
	// before they were learnt, by objective.
	Error map[string]float64 `json:"error"`
	// Drifted names the objectives that do not follow the model any more.
	Drifted []string `json:"drifted,omitempty"`
	// Reset says that all rows before these ones were forgotten, because of that.
	Reset bool `json:"reset,omitempty"`
}

// Update learns further rows: a table of the same columns, categories by the
// same levels. Families, penalties and blends stay as they are (Refit chooses
// anew); old rows fade by Options.HalfLife. If an objective has drifted, what was
// learnt before the change is forgotten.
func (m *Model) Update(ctx context.Context, t *causal.Table) (Update, error) {
	if err := m.same(t); err != nil {
		return Update{}, err
	}
	u := Update{Rows: t.Rows(), Error: map[string]float64{}}
	if t.Rows() == 0 {
		return u, nil
	}
	since := m.foresee(t, &u)
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

// Refit chooses families, penalties and blends anew from the rows remembered.
func (m *Model) Refit(ctx context.Context) error { return m.refit(ctx) }

// forget starts again from some rows.
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

// foresee predicts rows before they are learnt. It returns the number of the
// row with which a drift began.
func (m *Model) foresee(t *causal.Table, u *Update) int {
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
		// The mean of many is known better than one.
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

// same checks that a table has the columns of the model's.
func (m *Model) same(t *causal.Table) error {
	if t.Len() != m.table.Len() {
		return fmt.Errorf("causal/model: %d columns, the model has %d", t.Len(), m.table.Len())
	}
	for i := range t.Len() {
		a, b := m.table.Column(i), t.Column(i)
		if a.Name != b.Name || (a.Kind == causal.Categorical) != (b.Kind == causal.Categorical) ||
			!slices.Equal(a.Levels, b.Levels) {
			return fmt.Errorf("causal/model: column %d is %q (%v, %d levels), in the model %q (%v, %d levels)", i+1, b.Name,
				b.Kind, len(b.Levels), a.Name, a.Kind, len(a.Levels))
		}
	}
	return nil
}
