package trees

import (
	"math"
	"slices"
)

// maxBins is how many bins a column may have, the one for missing values
// included: a bin's number is one byte.
const maxBins = 255

// binSample is how many rows the bounds of the bins are taken from; more make
// quantiles no better (LightGBM's bin_construct_sample_cnt).
const binSample = 200_000

// bins is a matrix in which every column is cut into a few bins. A bin's bound
// is a threshold that a raw value can be compared with, so that trees grown on
// bins and trees followed by value agree exactly.
type bins struct {
	rows int
	cols []column
	// cells is how many cells a histogram of all columns needs.
	cells int
}

type column struct {
	of []uint8 // bin of each row
	// upper[b] is the largest value of bin b; the last one is unbounded. Missing
	// values have bin len(upper) if the column has any.
	upper   []float64
	missing bool
	off     int     // first cell of the column in a histogram
	lo, hi  float64 // range of the values, NaN if all are missing
}

// size is the number of bins, missing included.
func (c *column) size() int {
	if c.missing {
		return len(c.upper) + 1
	}
	return len(c.upper)
}

// binned cuts the columns of x at quantiles of the rows listed.
func binned(x Matrix, rows []uint32, most, workers int) *bins {
	b := &bins{rows: x.Rows, cols: make([]column, x.Cols)}
	all := make([]uint8, x.Rows*x.Cols)
	step := (len(rows) + binSample - 1) / binSample
	scratch := make([][]float64, max(1, min(workers, x.Cols)))
	parallel(workers, x.Cols, func(w, j int) {
		c := &b.cols[j]
		c.of = all[j*x.Rows : (j+1)*x.Rows]
		values := scratch[w][:0]
		for i := 0; i < len(rows); i += step {
			if v := x.Data[int(rows[i])*x.Cols+j]; v == v {
				values = append(values, v)
			}
		}
		scratch[w] = values
		c.lo, c.hi = math.NaN(), math.NaN()
		for i := range x.Rows {
			v := x.Data[i*x.Cols+j]
			if v != v {
				c.missing = true
			} else {
				if !(v >= c.lo) {
					c.lo = v
				}
				if !(v <= c.hi) {
					c.hi = v
				}
			}
		}
		room := most
		if c.missing {
			room--
		}
		c.upper = bounds(values, room)
		for i := range c.of {
			c.of[i] = c.bin(x.Data[i*x.Cols+j])
		}
	})
	for j := range b.cols {
		b.cols[j].off = b.cells
		b.cells += b.cols[j].size()
	}
	return b
}

// bin is the bin of a value: the first whose bound it does not exceed.
func (c *column) bin(v float64) uint8 {
	if v != v {
		return uint8(len(c.upper))
	}
	// The last bound is infinite in effect, so the search is over those before.
	lo, n := 0, len(c.upper)-1
	for n > 0 {
		half := n / 2
		if v > c.upper[lo+half] {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return uint8(lo)
}

// bounds cuts sorted-to-be values into at most `most` bins of about equally many
// rows; a value is never divided, and one with a bin's worth of rows has its
// own. The last bound is the largest float, which every value is below.
func bounds(values []float64, most int) []float64 {
	if len(values) == 0 {
		return []float64{math.MaxFloat64}
	}
	slices.Sort(values)
	distinct := 1
	for i := 1; i < len(values); i++ {
		if values[i] != values[i-1] {
			distinct++
		}
	}
	upper := make([]float64, 0, min(distinct, most))
	inBin, rest, left := 0, len(values), distinct
	for i := 0; i < len(values); {
		run := i + 1
		for run < len(values) && values[run] == values[i] {
			run++
		}
		inBin += run - i
		left--
		if run == len(values) {
			break
		}
		next := run + 1
		for next < len(values) && values[next] == values[run] {
			next++
		}
		// Bins still to give, this one included, over rows still to place.
		free := most - len(upper)
		share := float64(rest) / float64(free)
		full := float64(inBin) >= share || float64(inBin)+float64(next-run)/2 > share
		if free > 1 && (left < free || full) {
			upper = append(upper, between(values[i], values[run]))
			rest -= inBin
			inBin = 0
		}
		i = run
	}
	return append(upper, math.MaxFloat64)
}

// between is a threshold that a is not above and b is, near their middle.
func between(a, b float64) float64 {
	if m := a/2 + b/2; m >= a && m < b {
		return m
	}
	return a
}
