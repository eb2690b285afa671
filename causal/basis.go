package causal

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/blas/blas64"
)

// basis is a family of conditional-independence tests on basis functions of the
// variables: indicators for a categorical variable, Legendre polynomials for a
// numeric one. A test is Wilks' lambda of the functions of two variables given the ones
// of the conditioning variables. Tests share one correlation matrix, so that the
// cost of a test with known correlations does not depend on the number of rows.
//
// Each entry of the matrix is computed when a test first needs it; most are never
// needed. An entry does not depend on which goroutine computes it.
type basis struct {
	rows    int
	blocks  []block // by variable
	base    [][]float64
	factors [][2]int // factors of product column k, whose id is len(base)+k
	first   []int    // [a*p+b], a < b: id of the first product of a and b
	columns int

	mean, sd []atomic.Uint64 // by column, as bits; sd is 0 if not yet computed, -1 for a constant
	corr     []atomic.Uint64 // [i*columns+j], i <= j, as bits; 0 if not yet computed
}

// block is a variable's range of base columns. Its first linear columns are used in
// products.
type block struct{ first, n, linear int }

// basisOptions selects a member of the family.
type basisOptions struct {
	degree   int
	products bool // add pairwise products of the conditioning variables
	rank     bool // embed ranks rather than clipped values
	linear   bool // use numbers as they are, neither clipped nor ranked
}

const (
	// clipAt bounds standardised values, so that a few outliers do not dominate the
	// polynomials.
	clipAt = 4
	// maxBasis is the largest number of columns of a basis: 128 MiB of correlations.
	maxBasis = 4096
	// chunk is the number of rows processed at a time: a test's columns of a chunk fit
	// the cache.
	chunk = 256
)

// newBasis returns the basis of a table's columns and, if products had to be
// omitted, a remark about it. It returns an error for a constant column or more than
// maxBasis columns.
func newBasis(t *Table, o basisOptions) (*basis, string, error) {
	b := &basis{rows: t.Rows()}
	for i := range t.Len() {
		c := t.Column(i)
		from := len(b.base)
		linear := 1
		if c.Kind == Categorical {
			for level := 1; level < len(c.Levels); level++ {
				column := make([]float64, b.rows)
				for r, v := range c.Values {
					if int(v) == level {
						column[r] = 1
					}
				}
				// A bootstrap sample may lack a level.
				if slices.Min(column) < slices.Max(column) {
					b.base = append(b.base, column)
				}
			}
			linear = len(b.base) - from
		} else {
			b.base = append(b.base, embed(c.Values, o)...)
		}
		if len(b.base) == from {
			return nil, "", fmt.Errorf("column %q is constant", c.Name)
		}
		b.blocks = append(b.blocks, block{from, len(b.base) - from, linear})
	}
	b.columns = len(b.base)
	remark := ""
	if o.products {
		p := len(b.blocks)
		n := b.columns
		for i := range p {
			for j := i + 1; j < p; j++ {
				n += b.blocks[i].linear * b.blocks[j].linear
			}
		}
		if n > maxBasis {
			remark = fmt.Sprintf("products of variables would take %d columns: tests go without products", n)
		} else {
			b.addProducts()
		}
	}
	if b.columns > maxBasis {
		return nil, "", fmt.Errorf("the categories take %d columns, more than %d: group some",
			b.columns, maxBasis)
	}
	b.mean = make([]atomic.Uint64, b.columns)
	b.sd = make([]atomic.Uint64, b.columns)
	b.corr = make([]atomic.Uint64, b.columns*b.columns)
	return b, remark, nil
}

func (b *basis) addProducts() {
	p := len(b.blocks)
	b.first = make([]int, p*p)
	for i := range p {
		for j := i + 1; j < p; j++ {
			b.first[i*p+j] = len(b.base) + len(b.factors)
			for k := range b.blocks[i].linear {
				for l := range b.blocks[j].linear {
					b.factors = append(b.factors, [2]int{b.blocks[i].first + k, b.blocks[j].first + l})
				}
			}
		}
	}
	b.columns += len(b.factors)
}

// embed returns Legendre polynomials of the values mapped to [-1, 1], of degrees 1
// to o.degree or to the number of distinct values less one. It returns nil for a
// constant.
func embed(values []float64, o basisOptions) [][]float64 {
	sorted := slices.Sorted(slices.Values(values))
	distinct := len(slices.Compact(slices.Clone(sorted)))
	degree := min(o.degree, distinct-1)
	z, ok := standardised(values)
	if degree < 1 || !ok {
		return nil
	}
	u := make([]float64, len(values))
	switch {
	case o.rank:
		n := float64(len(values))
		for r, v := range values {
			lo, _ := slices.BinarySearch(sorted, v)
			hi, _ := slices.BinarySearch(sorted[lo:], math.Nextafter(v, math.Inf(1)))
			rank := float64(lo) + float64(hi+1)/2 // ties share their average rank; ranks start at 1
			u[r] = 2*(rank-0.5)/n - 1
		}
	default:
		for r, v := range z {
			if !o.linear {
				v = min(max(v, -clipAt), clipAt)
			}
			u[r] = v
		}
		u, _ = unit(u)
	}
	out := [][]float64{u}
	for d := 1; d < degree; d++ {
		// Bonnet's recursion.
		next := make([]float64, len(u))
		for r := range u {
			before := 1.0
			if d > 1 {
				before = out[d-2][r]
			}
			next[r] = (float64(2*d+1)*u[r]*out[d-1][r] - float64(d)*before) / float64(d+1)
		}
		out = append(out, next)
	}
	return out
}

// unit maps values to [-1, 1] without overflow or underflow; ok is false for a
// constant.
func unit(values []float64) (out []float64, ok bool) {
	lo, hi := slices.Min(values), slices.Max(values)
	half := hi/2 - lo/2
	if !(half > 0) {
		return nil, false
	}
	out = make([]float64, len(values))
	for r, v := range values {
		out[r] = (v/2-lo/2)/half*2 - 1
	}
	return out, true
}

// standardised scales values to mean 0 and variance 1; ok is false for a constant.
func standardised(values []float64) (z []float64, ok bool) {
	z, ok = unit(values) // keeps the squares in range
	if !ok {
		return nil, false
	}
	n := float64(len(z))
	mean, sd := 0.0, 0.0
	for _, v := range z {
		mean += v / n
	}
	for _, v := range z {
		sd += (v - mean) * (v - mean) / n
	}
	sd = math.Sqrt(sd)
	for r := range z {
		z[r] = (z[r] - mean) / sd
	}
	return z, true
}

// Worker implements [Independence].
func (b *basis) Worker() func(x, y int, given []int) Outcome {
	w := &basisWorker{basis: b, slot: make([]int32, b.columns)}
	return w.test
}

type basisWorker struct {
	*basis
	wilks
	columns []int // of the current test

	missing [][2]int
	slot    []int32 // by column: 1 + its index in loaded, 0 if not loaded
	loaded  []int
	data    [][]float64
	buffer  []float64
	sums    []float64
}

func (w *basisWorker) test(x, y int, given []int) Outcome {
	w.columns = w.columns[:0]
	for _, v := range given {
		w.addBlock(v)
	}
	if w.factors != nil {
		p := len(w.blocks)
		for k, i := range given {
			for _, j := range given[k+1:] {
				from := w.first[i*p+j]
				for id := range w.blocks[i].linear * w.blocks[j].linear {
					w.columns = append(w.columns, from+id)
				}
			}
		}
	}
	w.addBlock(x)
	w.addBlock(y)
	w.standardise()
	// Drop constant columns: products of mutually exclusive categories, and polynomials of few values.
	nx, ny := w.blocks[x].n, w.blocks[y].n
	ns := len(w.columns) - nx - ny
	kept := w.columns[:0]
	dropped := 0
	for k, id := range w.columns {
		switch {
		case math.Float64frombits(w.sd[id].Load()) > 0:
			kept = append(kept, id)
		case k < ns:
			dropped++
		case k < ns+w.blocks[x].n:
			nx--
		default:
			ny--
		}
	}
	if nx == 0 || ny == 0 {
		return Outcome{P: 1}
	}
	w.columns = kept
	w.correlations()
	return w.wilks.test(ns-dropped, nx, ny, w.rows)
}

func (w *basisWorker) addBlock(v int) {
	for k := range w.blocks[v].n {
		w.columns = append(w.columns, w.blocks[v].first+k)
	}
}

// standardise computes the missing means and deviations of the test's columns.
func (w *basisWorker) standardise() {
	w.missing = w.missing[:0]
	for _, id := range w.columns {
		if w.sd[id].Load() == 0 {
			w.missing = append(w.missing, [2]int{id, id})
		}
	}
	if len(w.missing) == 0 {
		return
	}
	n := float64(w.rows)
	means := make([]float64, len(w.missing))
	ones := make([]float64, chunk)
	for i := range ones {
		ones[i] = 1
	}
	w.pass(func(k int, a, _ []float64) { means[k] += dot(a, ones[:len(a)]) })
	for k := range means {
		means[k] /= n
	}
	// Deviations take a second pass: E[x^2] - E[x]^2 cancels for a rare category.
	sums := make([]float64, len(w.missing))
	w.pass(func(k int, a, _ []float64) {
		mean := means[k]
		for _, v := range a {
			sums[k] += (v - mean) * (v - mean)
		}
	})
	for k, pair := range w.missing {
		sd := math.Sqrt(sums[k] / n)
		if sd < 1e-12 { // columns span at most 2
			sd = -1
		}
		w.mean[pair[0]].Store(math.Float64bits(means[k]))
		w.sd[pair[0]].Store(math.Float64bits(sd))
	}
}

// correlations fills the correlation matrix of the test's columns.
func (w *basisWorker) correlations() {
	ids := w.columns
	size := len(ids)
	c := w.matrix(size)
	w.missing = w.missing[:0]
	for i, a := range ids {
		for j, b := range ids[:i+1] {
			v := w.corr[min(a, b)*w.basis.columns+max(a, b)].Load()
			if v == 0 {
				w.missing = append(w.missing, [2]int{min(a, b), max(a, b)})
			}
			c[i*size+j] = math.Float64frombits(v)
			c[j*size+i] = c[i*size+j]
		}
	}
	if len(w.missing) == 0 {
		return
	}
	sums := grow(&w.sums, len(w.missing))
	clear(sums)
	w.pass(func(k int, a, b []float64) { sums[k] += dot(a, b) })
	for k, pair := range w.missing {
		a, b := pair[0], pair[1]
		v := 1.0
		if a != b {
			number := func(of []atomic.Uint64, id int) float64 { return math.Float64frombits(of[id].Load()) }
			v = (sums[k]/float64(w.rows) - number(w.mean, a)*number(w.mean, b)) / (number(w.sd, a) * number(w.sd, b))
		}
		if v == 0 {
			v = math.Copysign(0, -1) // bits 0 mean not yet computed
		}
		w.corr[a*w.basis.columns+b].Store(math.Float64bits(v))
	}
	for i, a := range ids {
		for j, b := range ids[:i+1] {
			v := math.Float64frombits(w.corr[min(a, b)*w.basis.columns+max(a, b)].Load())
			c[i*size+j], c[j*size+i] = v, v
		}
	}
}

// pass reads the rows in chunks and calls add with the values of the two columns of
// each missing pair.
func (w *basisWorker) pass(add func(k int, a, b []float64)) {
	w.loaded = w.loaded[:0]
	for _, pair := range w.missing {
		for _, id := range pair {
			if w.slot[id] == 0 {
				w.loaded = append(w.loaded, id)
				w.slot[id] = int32(len(w.loaded))
			}
		}
	}
	w.data = append(w.data[:0], make([][]float64, len(w.loaded))...)
	buffer := grow(&w.buffer, len(w.loaded)*chunk)
	for from := 0; from < w.rows; from += chunk {
		to := min(from+chunk, w.rows)
		for k, id := range w.loaded {
			if id < len(w.base) {
				w.data[k] = w.base[id][from:to]
				continue
			}
			f := w.factors[id-len(w.base)]
			a, b := w.base[f[0]][from:to], w.base[f[1]][from:to]
			out := buffer[k*chunk:][:to-from]
			for r := range out {
				out[r] = a[r] * b[r]
			}
			w.data[k] = out
		}
		for k, pair := range w.missing {
			add(k, w.data[w.slot[pair[0]]-1], w.data[w.slot[pair[1]]-1])
		}
	}
	for _, id := range w.loaded {
		w.slot[id] = 0
	}
}

func dot(a, b []float64) float64 {
	return blas64.Dot(blas64.Vector{N: len(a), Inc: 1, Data: a}, blas64.Vector{N: len(b), Inc: 1, Data: b})
}
