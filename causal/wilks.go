package causal

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mathext"
)

const (
	// zeroVariance is the share of a standardised direction's variance below which
	// other variables determine it.
	zeroVariance = 1e-9
	// wellConditioned is the largest trace of an inverse correlation matrix for which
	// the Cholesky factor is used. The smallest eigenvalue is at least the inverse of
	// the trace, so the rank is full with a margin of 1,000 over zeroVariance; beyond
	// it the eigenvalues determine the rank.
	wellConditioned = 1e6
)

// wilks tests two blocks of variables given a third, by their correlations.
type wilks struct {
	c      []float64 // correlation matrix, rows [given, x, y]; overwritten
	t      []float64 // scratch: inverse factors
	wx, wy []float64
	m, mm  []float64
	values []float64
	work   []float64

	eigenWork []float64
}

// grow resizes s to n values, of undefined content.
func grow(s *[]float64, n int) []float64 {
	if cap(*s) < n {
		*s = make([]float64, n+n/2)
	}
	*s = (*s)[:n]
	return *s
}

// matrix returns storage for the correlations of size variables.
func (w *wilks) matrix(size int) []float64 { return grow(&w.c, size*size) }

// test computes Wilks' lambda of blocks x (nx variables) and y (ny) given the first
// ns variables, with Bartlett's factor (Bartlett, "Further aspects of the theory of
// multiple regression", 1938). It leaves out directions without residual variance,
// so that exact relations, common in simulated data, do no harm.
func (w *wilks) test(ns, nx, ny, rows int) Outcome {
	size := ns + nx + ny
	rank := w.partial(ns, size)
	at := func(i, j int) []float64 { return w.c[(ns+i)*size+ns+j:] }
	wx := grow(&w.wx, nx*nx)
	rx := w.whiten(wx, at(0, 0), nx, size)
	wy := grow(&w.wy, ny*ny)
	ry := w.whiten(wy, at(nx, nx), ny, size)
	df := rx * ry
	factor := float64(rows) - 1 - float64(rank) - float64(rx+ry+1)/2
	if df == 0 {
		return Outcome{P: 1}
	}
	if factor <= 0 || rows-1-rank < rx+ry {
		return Outcome{P: 1, Untestable: true}
	}
	// m is rx by ry: wx * cov(x, y) * wy'.
	m := grow(&w.m, rx*ry)
	for i := range rx {
		for j := range ry {
			sum := 0.0
			for k := range nx {
				// The lower triangle holds cov(y, x).
				inner := 0.0
				for l := range ny {
					inner += w.c[(ns+nx+l)*size+ns+k] * wy[j*ny+l]
				}
				sum += wx[i*nx+k] * inner
			}
			m[i*ry+j] = sum
		}
	}
	ln := w.lnLambda(m, rx, ry)
	stat := -factor * ln
	return Outcome{P: chi2Survival(stat, df), Stat: stat, DF: df, Strength: math.Sqrt(-math.Expm1(ln))}
}

// partial regresses the first ns of size variables out of the rest, whose lower
// triangle then holds their partial covariances. It returns the rank of the first
// ns.
func (w *wilks) partial(ns, size int) int {
	if ns == 0 {
		return 0
	}
	c := w.c
	t := grow(&w.t, size*size)
	copy(t, c)
	if choleskyPartial(c, ns, size) && inverseTrace(c, grow(&w.work, ns*ns), ns, size) <= wellConditioned {
		return ns
	}
	copy(c, t)
	v := grow(&w.work, ns*ns)
	for i := range ns {
		copy(v[i*ns:(i+1)*ns], c[i*size:i*size+ns])
	}
	values := w.eigen(v, ns)
	rank := 0
	// Subtract the rest's scores on each direction with variance.
	for k, value := range values {
		if value <= zeroVariance {
			continue
		}
		rank++
		scale := 1 / math.Sqrt(value)
		score := t[:size-ns]
		for i := ns; i < size; i++ {
			sum := 0.0
			for j := range ns {
				sum += c[i*size+j] * v[j*ns+k]
			}
			score[i-ns] = sum * scale
		}
		for i := ns; i < size; i++ {
			for j := ns; j <= i; j++ {
				c[i*size+j] -= score[i-ns] * score[j-ns]
			}
		}
	}
	return rank
}

// whiten fills dst, with rows of n columns, with a transformation of n variables to
// uncorrelated ones of unit variance, and returns its rank. c is the lower triangle
// of their covariance.
func (w *wilks) whiten(dst, c []float64, n, stride int) int {
	if n == 1 {
		if c[0] <= zeroVariance {
			return 0
		}
		dst[0] = 1 / math.Sqrt(c[0])
		return 1
	}
	l := grow(&w.work, n*n)
	for i := range n {
		copy(l[i*n:i*n+i+1], c[i*stride:i*stride+i+1])
	}
	if choleskyPartial(l, n, n) {
		t := grow(&w.mm, n*n)
		if inverseTrace(l, t, n, n) <= wellConditioned {
			for i := range n {
				for j := range n {
					dst[i*n+j] = 0
					if j <= i {
						dst[i*n+j] = t[j*n+i]
					}
				}
			}
			return n
		}
	}
	for i := range n {
		for j := range n {
			l[i*n+j] = c[max(i, j)*stride+min(i, j)]
		}
	}
	rank := 0
	for k, value := range w.eigen(l, n) {
		if value <= zeroVariance {
			continue
		}
		scale := 1 / math.Sqrt(value)
		for i := range n {
			dst[rank*n+i] = l[i*n+k] * scale
		}
		rank++
	}
	return rank
}

// lnLambda returns the sum of ln(1 - s^2) over the singular values s of m, rx by ry,
// which are the canonical correlations.
func (w *wilks) lnLambda(m []float64, rx, ry int) float64 {
	n, inner := min(rx, ry), max(rx, ry)
	mm := grow(&w.mm, n*n)
	for i := range n {
		for j := range i + 1 {
			sum := 0.0
			for k := range inner {
				if rx <= ry {
					sum += m[i*ry+k] * m[j*ry+k]
				} else {
					sum += m[k*ry+i] * m[k*ry+j]
				}
			}
			mm[i*n+j], mm[j*n+i] = sum, sum
		}
	}
	if n == 1 {
		return math.Log1p(-min(mm[0], 1-0x1p-52))
	}
	ln := 0.0
	for _, squared := range w.eigen(mm, n) {
		ln += math.Log1p(-min(max(squared, 0), 1-0x1p-52))
	}
	return ln
}

// eigen replaces the symmetric n by n matrix a by its eigenvectors in columns and
// returns the eigenvalues, ascending.
func (w *wilks) eigen(a []float64, n int) []float64 {
	values := grow(&w.values, n)
	s := blas64.Symmetric{N: n, Stride: n, Data: a, Uplo: blas.Upper}
	work := grow(&w.eigenWork, max(3*n-1, 1))
	if !lapack64.Syev('V', s, values, work, len(work)) {
		panic("causal: the eigenvalues of a correlation matrix did not converge")
	}
	return values
}

// choleskyPartial factors the first n rows and columns of the symmetric matrix whose
// lower triangle is in c, and replaces the rest by its Schur complement. It returns
// false if the first n are not positive definite.
func choleskyPartial(c []float64, n, size int) bool {
	for i := range size {
		row := c[i*size : i*size+size]
		for j := range min(i+1, n) {
			other := c[j*size : j*size+size]
			sum := row[j]
			for k, v := range row[:j] {
				sum -= v * other[k]
			}
			if i != j {
				row[j] = sum / other[j]
			} else if sum <= zeroVariance {
				return false
			} else {
				row[j] = math.Sqrt(sum)
			}
		}
		for j := n; j <= i; j++ {
			other := c[j*size : j*size+n]
			sum := row[j]
			for k, v := range other {
				sum -= v * row[k]
			}
			row[j] = sum
		}
	}
	return true
}

// inverseTrace fills t, n by n, with the transposed inverse of the Cholesky factor
// in the first n rows of l. It returns the trace of the inverse of the factored
// matrix.
func inverseTrace(l, t []float64, n, size int) float64 {
	trace := 0.0
	for k := range n {
		row := t[k*n : k*n+n]
		for i := range k {
			row[i] = 0
		}
		row[k] = 1 / l[k*size+k]
		trace += row[k] * row[k]
		for i := k + 1; i < n; i++ {
			sum := 0.0
			for j, v := range l[i*size+k : i*size+i] {
				sum += v * row[k+j]
			}
			row[i] = -sum / l[i*size+i]
			trace += row[i] * row[i]
		}
	}
	return trace
}

// chi2Survival returns the probability that a chi-squared variable exceeds x.
func chi2Survival(x float64, df int) float64 {
	if x <= 0 {
		return 1
	}
	if math.IsInf(x, 1) {
		return 0
	}
	return mathext.GammaIncRegComp(float64(df)/2, x/2)
}
