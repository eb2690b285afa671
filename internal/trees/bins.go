package trees

import (
	"math"
	"math/bits"
	"slices"
)

// maxBins is the largest number of bins of a column, including that of missing
// values: a bin index is one byte.
const maxBins = 255

// binSample is the number of rows from which bin bounds are computed; more do not
// improve the quantiles (LightGBM's bin_construct_sample_cnt).
const binSample = 200_000

// bins is a matrix with discretised columns. A bin's bound is a threshold for raw
// values, so that prediction by bin and by value agree exactly.
type bins struct {
	rows int
	cols []column
	// cells is the number of cells of a histogram of all columns.
	cells int
	// quads hold four splittable columns each, with a row's bin indices in the bytes
	// of a word: one pass that sums four histograms is faster than four passes.
	quads []quad
}

type quad struct {
	words []uint32
	cols  [4]int
	n     int // columns in use, from the low byte
}

type column struct {
	quad, shift int // position of its bins; quad is -1 if the column cannot be split
	// upper[b] is the largest value of bin b; the last bin is unbounded. Missing
	// values, if any, have bin len(upper).
	upper   []float64
	missing bool
	off     int     // index of the column's first cell in a histogram
	lo, hi  float64 // range of the values; NaN if all are missing
}

// size returns the number of bins, including that of missing values.
func (c *column) size() int {
	if c.missing {
		return len(c.upper) + 1
	}
	return len(c.upper)
}

// of returns the bin of a row in a splittable column.
func (b *bins) of(c *column, row int) uint8 {
	return uint8(b.quads[c.quad].words[row] >> c.shift)
}

// columnsPerTask is the number of columns per task: a cache line of a row.
const columnsPerTask = 8

// binned discretises the columns of x at quantiles of the given rows, into at most
// most bins.
func binned(x Matrix, rows []uint32, most, workers int) *bins {
	b := &bins{rows: x.Rows, cols: make([]column, x.Cols)}
	of := make([]uint8, x.Rows*x.Cols) // by column
	tasks := (x.Cols + columnsPerTask - 1) / columnsPerTask
	if x.Rows*x.Cols < parallelWork {
		workers = 1
	}
	scratch := make([]cutter, max(1, min(workers, tasks)))
	parallel(workers, tasks, func(w, t int) {
		from, to := t*columnsPerTask, min(x.Cols, (t+1)*columnsPerTask)
		scratch[w].cut(b.cols[from:to], of[from*x.Rows:to*x.Rows], x, from, rows, most)
	})
	b.pack(of, workers)
	return b
}

// cutter is the workspace of binned.
type cutter struct{ values, sorted []float64 }

// cut discretises columns of x, starting at column from.
func (s *cutter) cut(cols []column, of []uint8, x Matrix, from int, rows []uint32, most int) {
	n := len(cols)
	s.values = slices.Grow(s.values[:0], n*x.Rows)[:n*x.Rows]
	for i := range x.Rows {
		for j, v := range x.Data[i*x.Cols+from : i*x.Cols+from+n] {
			s.values[j*x.Rows+i] = v
		}
	}
	step := (len(rows) + binSample - 1) / binSample
	for j := range cols {
		c, values := &cols[j], s.values[j*x.Rows:(j+1)*x.Rows]
		sorted := s.sorted[:0]
		for i := 0; i < len(rows); i += step {
			if v := values[rows[i]]; v == v {
				sorted = append(sorted, v)
			}
		}
		s.sorted = sorted
		c.describe(values)
		room := most
		if c.missing {
			room--
		}
		c.upper = bounds(sorted, room)
		c.assign(of[j*x.Rows:(j+1)*x.Rows], values)
	}
}

// describe sets the range of the values and whether any is missing.
func (c *column) describe(values []float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v != v {
			c.missing = true
		}
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	if lo > hi {
		lo, hi = math.NaN(), math.NaN()
	}
	c.lo, c.hi = lo, hi
}

// assign writes the bins of values: the first bin whose bound is at least the value.
func (c *column) assign(of []uint8, values []float64) {
	// Binary search with a fixed number of steps and without branches on the values.
	var upper [256]float64
	for i := copy(upper[:], c.upper); i < len(upper); i++ {
		upper[i] = math.MaxFloat64
	}
	first := 1 << bits.Len(uint(len(c.upper)-1)) / 2
	missing := uint8(len(c.upper))
	for i, v := range values {
		at := 0
		for step := first; step > 0; step >>= 1 {
			next := at + step
			if v > upper[(next-1)&255] {
				at = next
			}
		}
		if v != v {
			at = int(missing)
		}
		of[i] = uint8(at)
	}
}

// pack packs the splittable columns into quads and assigns their cells of a
// histogram.
func (b *bins) pack(of []uint8, workers int) {
	for j := range b.cols {
		c := &b.cols[j]
		c.quad, c.off = -1, b.cells
		if c.size() < 2 {
			continue
		}
		if len(b.quads) == 0 || b.quads[len(b.quads)-1].n == 4 {
			b.quads = append(b.quads, quad{})
		}
		q := &b.quads[len(b.quads)-1]
		c.quad, c.shift = len(b.quads)-1, 8*q.n
		q.cols[q.n] = j
		q.n++
		b.cells += c.size()
	}
	words := make([]uint32, len(b.quads)*b.rows)
	parallel(workers, len(b.quads), func(_, i int) {
		q := &b.quads[i]
		q.words = words[i*b.rows : (i+1)*b.rows]
		for k, j := range q.cols[:q.n] {
			for r, v := range of[j*b.rows : (j+1)*b.rows] {
				q.words[r] |= uint32(v) << (8 * k)
			}
		}
	})
}

// bounds returns the upper bounds of at most most bins of values, with about equally
// many rows each. Equal values share a bin, and a value with a bin's share of rows
// has a bin of its own. The last bound is the largest float. bounds sorts values.
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
		// Rows left per bin left, including the current bin.
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

// between returns a threshold t near the middle with a <= t < b.
func between(a, b float64) float64 {
	if m := a/2 + b/2; m >= a && m < b {
		return m
	}
	return a
}
