package trees

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Objective is the loss that boosting minimises.
type Objective int

// The objectives.
const (
	L2      Objective = iota // squared error, for the mean
	L1                       // absolute error, for the median
	Softmax                  // cross-entropy of classes 0..Classes-1, with a raw score each
)

var objectiveNames = [...]string{"regression", "regression_l1", "multiclass"}

// String returns LightGBM's name of the objective.
func (o Objective) String() string {
	if o < 0 || int(o) >= len(objectiveNames) {
		return fmt.Sprintf("Objective(%d)", int(o))
	}
	return objectiveNames[o]
}

// target holds the inputs of the loss. Scores are row-major, one per output.
type target struct {
	kind    Objective
	outputs int
	y, w    []float64 // w is nil for equal weights
	rows    []uint32  // rows of positive weight
	total   float64   // sum of weights
}

func newTarget(o BoostOptions, y, w []float64) *target {
	t := &target{kind: o.Objective, outputs: o.outputs(), y: y, w: w, rows: positive(len(y), w)}
	t.total = exactSum(len(t.rows), func(i int) float64 { return t.weight(t.rows[i]) })
	return t
}

func (t *target) weight(row uint32) float64 {
	if t.w == nil {
		return 1
	}
	return t.w[row]
}

// check returns an error for targets that the objective does not accept.
func (t *target) check() error {
	for i, v := range t.y {
		if t.kind == Softmax && (v != math.Trunc(v) || v < 0 || v >= float64(t.outputs)) {
			return fmt.Errorf("trees: target of row %d is %g: classes are 0 to %d", i, v, t.outputs-1)
		}
	}
	return nil
}

// rare is the assumed share of a class without rows.
const rare = 1e-6

// maxStep bounds the step of a leaf for log-odds scores: nearly certain rows have
// almost no hessian, so that their Newton step is far too long.
const maxStep = 8

// initial returns the best constant score of each output.
func (t *target) initial() []float64 {
	out := make([]float64, t.outputs)
	switch t.kind {
	case L2:
		sum := exactSum(len(t.rows), func(i int) float64 { return t.weight(t.rows[i]) * t.y[t.rows[i]] })
		out[0] = sum / t.total
	case L1:
		out[0] = t.median(t.rows, func(r uint32) float64 { return t.y[r] }, new([]residual))
	case Softmax:
		for k := range out {
			sum := exactSum(len(t.rows), func(i int) float64 {
				if int(t.y[t.rows[i]]) != k {
					return 0
				}
				return t.weight(t.rows[i])
			})
			out[k] = math.Log(max(sum/t.total, rare))
		}
	}
	return out
}

// softmax converts scores to probabilities.
func softmax(dst, scores []float64) {
	top := scores[0]
	for _, s := range scores[1:] {
		top = max(top, s)
	}
	sum := 0.0
	for k, s := range scores {
		e := math.Exp(s - top)
		dst[k] = e
		sum += e
	}
	for k := range dst[:len(scores)] {
		dst[k] /= sum
	}
}

// gradients writes first and second derivatives of output k for the rows [from, to).
// state holds the scores, or the probabilities for Softmax.
func (t *target) gradients(g, h, state []float64, k, from, to int) {
	spread := float64(t.outputs) / max(1, float64(t.outputs-1)) // Friedman 2001, section 4.6
	for i := from; i < to; i++ {
		w := 1.0
		if t.w != nil {
			w = t.w[i]
		}
		s := state[i*t.outputs+k]
		switch t.kind {
		case L2:
			g[i], h[i] = w*(s-t.y[i]), w
		case L1:
			g[i], h[i] = w*sign(s-t.y[i]), w
		case Softmax:
			g[i], h[i] = w*s, w*spread*s*(1-s)
			if int(t.y[i]) == k {
				g[i] -= w
			}
		}
	}
}

func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}

type residual struct{ v, w float64 }

// median returns the smallest value with at least half the rows' weight at or below
// it.
func (t *target) median(rows []uint32, value func(uint32) float64, scratch *[]residual) float64 {
	rs := (*scratch)[:0]
	for _, r := range rows {
		rs = append(rs, residual{value(r), t.weight(r)})
	}
	*scratch = rs
	slices.SortFunc(rs, func(a, b residual) int { return cmp.Or(cmp.Compare(a.v, b.v), cmp.Compare(a.w, b.w)) })
	total, sum := 0.0, 0.0
	for _, r := range rs {
		total += r.w
	}
	for _, r := range rs {
		sum += r.w
		if sum >= 0.5*total {
			return r.v
		}
	}
	return rs[len(rs)-1].v
}
