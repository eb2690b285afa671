// Package trees trains ensembles of decision trees on numeric columns:
// gradient-boosted histogram trees ([Boost]).
//
// A [Model] is trained here. A [Served] model only predicts: [Load] reads it from LightGBM
// text, version 3, which [Model.WriteLightGBM] writes, so that a model trained by
// LightGBM can replace it.
//
// Features are float64; NaN is missing, and infinities are errors. Every result
// depends on the seed but not on the number of workers. Categorical features,
// ranking and linear leaves are not supported in training.
package trees

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Matrix holds features in row-major order, one row per observation. NaN is a
// missing value.
type Matrix struct {
	Rows, Cols int
	Data       []float64 // Rows*Cols numbers
}

// NewMatrix returns a zero matrix.
func NewMatrix(rows, cols int) Matrix {
	return Matrix{Rows: rows, Cols: cols, Data: make([]float64, rows*cols)}
}

// Row returns row i, which shares the matrix's memory.
func (m Matrix) Row(i int) []float64 { return m.Data[i*m.Cols : (i+1)*m.Cols : (i+1)*m.Cols] }

// maxRows bounds the rows of a training set: histograms keep counts and sums of
// hessians in one word, where precision decreases with the count.
const maxRows = 1 << 24

// check returns an error if the sample is unfit for training. weights may be nil,
// for equal weights.
func check(x Matrix, y, weights []float64) error {
	switch {
	case x.Rows < 1 || x.Cols < 1:
		return fmt.Errorf("trees: %d rows and %d columns: nothing to learn from", x.Rows, x.Cols)
	case x.Rows > maxRows:
		return fmt.Errorf("trees: %d rows: at most %d fit; train on a sample", x.Rows, maxRows)
	case len(x.Data) != x.Rows*x.Cols:
		return fmt.Errorf("trees: %d numbers for %d rows of %d columns", len(x.Data), x.Rows, x.Cols)
	case len(y) != x.Rows:
		return fmt.Errorf("trees: %d targets for %d rows", len(y), x.Rows)
	case weights != nil && len(weights) != x.Rows:
		return fmt.Errorf("trees: %d weights for %d rows", len(weights), x.Rows)
	}
	for i, v := range x.Data {
		if math.IsInf(v, 0) {
			return fmt.Errorf("trees: row %d, column %d is infinite: bound the feature, or mark it missing with NaN",
				i/x.Cols, i%x.Cols)
		}
	}
	for i, v := range y {
		if !(math.Abs(v) <= maxValue) {
			return fmt.Errorf("trees: target of row %d is %g: want a number up to %g; scale it", i, v, maxValue)
		}
	}
	sum := 0.0
	for i, w := range weights {
		if !(w >= 0 && w <= maxValue) {
			return fmt.Errorf("trees: weight of row %d is %g: want a number from 0 to %g", i, w, maxValue)
		}
		sum += w
	}
	if weights != nil && sum < 1/maxValue {
		return fmt.Errorf("trees: the weights add up to %g: no row counts", sum)
	}
	return nil
}

// maxValue bounds targets and weights, so that squares of sums of their products do
// not overflow.
const maxValue = 1e60

// positive returns the rows of positive weight.
func positive(rows int, weights []float64) []uint32 {
	out := make([]uint32, 0, rows)
	for i := range rows {
		if weights == nil || weights[i] > 0 {
			out = append(out, uint32(i))
		}
	}
	return out
}

// parallel calls f(worker, i) for every i below n, from up to workers goroutines.
// The assignment of i to workers is arbitrary: f must write only what belongs to i
// or to the worker's workspace.
func parallel(workers, n int, f func(worker, i int)) {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	var next atomic.Int64
	work := func(worker int) {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			f(worker, i)
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { work(w) })
	}
	work(0)
	wg.Wait()
}

// rowsPerTask is the number of rows per task of loops over rows.
const rowsPerTask = 4096

// parallelRows calls f for tasks of rows [from, to) that cover [0, n).
func parallelRows(workers, n int, f func(task, from, to int)) {
	parallel(workers, (n+rowsPerTask-1)/rowsPerTask, func(_, t int) {
		f(t, t*rowsPerTask, min(n, (t+1)*rowsPerTask))
	})
}

// exactSum sums n numbers in fixed point: the result does not depend on their order,
// and its error is below the largest number's last bits.
func exactSum(n int, f func(i int) float64) float64 {
	top := 0.0
	for i := range n {
		top = max(top, math.Abs(f(i)))
	}
	unit := scale(top, 62-bits.Len(uint(n)))
	sum := int64(0)
	for i := range n {
		sum += int64(math.RoundToEven(f(i) * unit))
	}
	return float64(sum) / unit
}
