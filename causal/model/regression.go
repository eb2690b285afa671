package model

import (
	"context"
	"fmt"
	"math"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/trees"
)

// Family is a family of regressions.
type Family uint8

// The families, in increasing complexity.
const (
	// Linear is a ridge regression on z-scores and indicators.
	Linear Family = iota
	// Quadratic adds squares and, for up to eight parents, pairwise products.
	Quadratic
	// Boosted is gradient-boosted trees: 300 trees of up to 31 leaves with at least 25
	// rows, learning rate 0.03 (docs/notes/causal-model.md).
	Boosted
)

func (f Family) String() string {
	switch f {
	case Linear:
		return "linear"
	case Quadratic:
		return "quadratic"
	case Boosted:
		return "boosted"
	}
	return fmt.Sprintf("Family(%d)", uint8(f))
}

// MarshalText returns the family's name.
func (f Family) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// ridges are the candidate penalties per row.
var ridges = []float64{1e-6, 1e-3, 1e-2, 1e-1}

// The bootstrap resamples blocks of rows, and cross-validation leaves them out:
// block b is in fold b mod folds.
const (
	blocks = 40
	folds  = 5
)

// regression is the regression of one variable on its parents.
type regression struct {
	target int
	log    bool // fit the target's logarithm
	// objective marks the target as an objective: a positive target is predicted
	// above 0, interval included.
	objective bool
	basis     basis
	blocks    []gram
	total     gram
	family    Family
	lambda    float64
	// low and top are the target's range, in the units of the fit.
	low, top float64
}

// fitted is a regression's fit to some of the rows.
type fitted struct {
	coef  []float64
	trees *trees.Model
}

func newRegression(t *causal.Table, target int, parents []int, scales []scale) *regression {
	r := &regression{target: target, basis: newBasis(parents, scales), low: math.Inf(1), top: math.Inf(-1),
		blocks: make([]gram, blocks)}
	r.log = spans(t.Column(target).Values)
	for b := range r.blocks {
		r.blocks[b] = newGram(r.basis.all)
	}
	r.total = newGram(r.basis.all)
	return r
}

// scratch returns the size of the scratch buffer that predict and learnAll need.
func (r *regression) scratch() int { return max(r.basis.all, len(r.basis.parents)) }

// y converts a target value to the units of the fit.
func (r *regression) y(v float64) float64 {
	if r.log {
		return math.Log(max(v, math.SmallestNonzeroFloat64))
	}
	return v
}

func (r *regression) value(y float64) float64 {
	if r.log {
		return math.Exp(y)
	}
	return y
}

// learnAll adds a row to a block of every regression.
func learnAll(all []*regression, row []float64, block int, x []float64) {
	for _, r := range all {
		r.basis.expand(row, x[:r.basis.all])
		y := r.y(row[r.target])
		r.blocks[block].row(x[:r.basis.all], y)
		r.low, r.top = min(r.low, y), max(r.top, y)
	}
}

func (r *regression) sum() {
	r.total.reset()
	for b := range r.blocks {
		r.total.add(&r.blocks[b], 1)
	}
}

// sumWithout sets g to the statistics of the rows outside a fold.
func (r *regression) sumWithout(fold int, g *gram) {
	g.reset()
	g.add(&r.total, 1)
	for b := fold; b < blocks; b += folds {
		g.add(&r.blocks[b], -1)
	}
}

// predict returns a prediction in the target's units, clamped to bounds.
func (r *regression) predict(f *fitted, row, x []float64) float64 {
	var y float64
	switch {
	case f.trees != nil:
		x = x[:len(r.basis.parents)]
		for i, p := range r.basis.parents {
			x[i] = row[p]
		}
		var out [1]float64
		f.trees.Predict(x, out[:])
		y = out[0]
	default:
		x = x[:len(f.coef)]
		r.basis.expand(row, x)
		y = dot(f.coef, x)
	}
	low, top := r.bounds()
	return r.value(min(max(y, low), top))
}

// bounds returns the range of predictions, in the units of the fit: the target's
// range with a margin, and not negative if the target never was.
func (r *regression) bounds() (low, top float64) {
	margin := rangeMargin * (r.top - r.low)
	low, top = r.low-margin, r.top+margin
	switch {
	case r.positive():
		low = max(low, r.low/10)
	case !r.log && r.low >= 0:
		low = max(0, low)
	}
	return low, top
}

// positive reports whether intervals are built on the log scale though the fit is not.
func (r *regression) positive() bool { return r.objective && !r.log && r.low > 0 }

const q95 = 1.6448536269514722 // quantile of the normal distribution

// interval returns the 90 % interval about values from low to high, of a standard
// deviation in the units of the fit.
func (r *regression) interval(low, high, sd float64) (float64, float64) {
	if r.positive() {
		return low * math.Exp(-q95*logSD(low, sd)), high * math.Exp(q95*logSD(high, sd))
	}
	return r.value(r.y(low) - q95*sd), r.value(r.y(high) + q95*sd)
}

// logSD is the standard deviation of the logarithm of a log-normal variable.
func logSD(mean, sd float64) float64 { return math.Sqrt(math.Log1p(sd / mean * sd / mean)) }

// choose selects family and penalty by cross-validation: the simplest candidate
// whose mean absolute error is within one standard error of the best. (Squared
// errors would be dominated by the few worst days.) It returns the fits without each
// fold.
func (r *regression) choose(ctx context.Context, rows [][]float64, inBlock []int, families []Family,
	seed uint64) ([]fitted, error) {
	type candidate struct {
		family Family
		lambda float64
		fits   []fitted
		errs   []float64
		mean   float64
	}
	var all []*candidate
	for _, f := range families {
		if f == Boosted {
			if len(r.basis.parents) > 0 {
				all = append(all, &candidate{family: f})
			}
			continue
		}
		for i := len(ridges) - 1; i >= 0; i-- { // stronger penalties are simpler
			all = append(all, &candidate{family: f, lambda: ridges[i]})
		}
	}
	g := newGram(r.basis.all)
	var s solver
	x := make([]float64, r.scratch())
	for _, c := range all {
		c.errs = make([]float64, len(rows))
		for fold := range folds {
			var fit fitted
			if c.family == Boosted {
				m, err := r.boost(ctx, rows, inBlock, fold, seed)
				if err != nil {
					return nil, err
				}
				fit.trees = m
			} else {
				r.sumWithout(fold, &g)
				fit.coef = make([]float64, r.basis.size(c.family))
				s.solve(&g, len(fit.coef), c.lambda, fit.coef)
			}
			c.fits = append(c.fits, fit)
			for n, row := range rows {
				if inBlock[n]%folds == fold {
					d := r.y(r.predict(&fit, row, x)) - r.y(row[r.target])
					c.errs[n] = math.Abs(d)
				}
			}
		}
		for _, e := range c.errs {
			c.mean += e / float64(len(rows))
		}
	}
	best := all[0]
	for _, c := range all[1:] {
		if c.mean < best.mean {
			best = c
		}
	}
	for _, c := range all {
		if c == best || c.mean-best.mean <= standardError(c.errs, best.errs) {
			best = c
			break
		}
	}
	r.family, r.lambda = best.family, best.lambda
	return best.fits, nil
}

// standardError returns the standard error of the mean difference of two series.
func standardError(a, b []float64) float64 {
	n := float64(len(a))
	if n < 2 {
		return 0
	}
	mean, squares := 0.0, 0.0
	for i := range a {
		mean += (a[i] - b[i]) / n
	}
	for i := range a {
		d := a[i] - b[i] - mean
		squares += d * d
	}
	return math.Sqrt(squares / (n - 1) / n)
}

// fit fits the regression to all rows.
func (r *regression) fit(ctx context.Context, rows [][]float64, inBlock []int, seed uint64) (fitted, error) {
	if r.family == Boosted {
		m, err := r.boost(ctx, rows, inBlock, -1, seed)
		return fitted{trees: m}, err
	}
	f := fitted{coef: make([]float64, r.basis.size(r.family))}
	var s solver
	s.solve(&r.total, len(f.coef), r.lambda, f.coef)
	return f, nil
}

// boost trains trees on all rows but a fold's.
func (r *regression) boost(ctx context.Context, rows [][]float64, inBlock []int, fold int,
	seed uint64) (*trees.Model, error) {
	x := trees.Matrix{Cols: len(r.basis.parents)}
	var y []float64
	for n, row := range rows {
		if inBlock[n]%folds == fold {
			continue
		}
		for _, p := range r.basis.parents {
			x.Data = append(x.Data, row[p])
		}
		y = append(y, r.y(row[r.target]))
		x.Rows++
	}
	// Medians are robust to the tails of delays, where a few days would dominate.
	return trees.Boost(ctx, x, y, nil,
		trees.BoostOptions{Objective: trees.L1, Rounds: 300, Leaves: 31, LearningRate: .03, MinLeaf: 25, Seed: seed})
}
