package arrivals

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// The ridge's constants. Chosen on the public traces: penalties of 100 to 400 and
// half-lives of 7 to 28 days differ by less than 0.01 in WAPE.
const (
	ridgePenalty  = 200.0 // on standardised features; an origin has weight 1
	ridgeHalfLife = 21.0  // days in which an origin's weight halves
)

// ridge regresses the logarithm of the next count on features, with a penalty on
// the coefficients and weights that fade. It keeps moments only, so that a day
// costs the same however long the history is.
type ridge struct {
	n int
	// moments of (1, features, target): row-major, upper triangle.
	moments []float64
	row     []float64
	// level = base + coef . x
	base float64
	coef []float64
	// scratch of refit
	gram  *mat.SymDense
	right *mat.VecDense
	sd    []float64
	chol  mat.Cholesky
}

func newRidge(features int) *ridge {
	w := features + 2
	return &ridge{n: features, moments: make([]float64, w*w), row: make([]float64, w), coef: make([]float64, features),
		gram: mat.NewSymDense(features, nil), right: mat.NewVecDense(features, nil), sd: make([]float64, features)}
}

// learn adds an origin whose outcome is known.
func (r *ridge) learn(x []float64, y float64) {
	w := r.n + 2
	r.row[0] = 1
	copy(r.row[1:], x)
	r.row[w-1] = y
	for i, a := range r.row {
		if a == 0 {
			continue
		}
		m := r.moments[i*w : (i+1)*w]
		for j := i; j < w; j++ {
			m[j] += a * r.row[j]
		}
	}
}

// refit solves for the coefficients, then lets the former rows fade by a day.
func (r *ridge) refit() {
	w := r.n + 2
	m := r.moments
	n := m[0]
	clear(r.coef)
	r.base = 0
	if n <= 0 {
		return
	}
	mean := func(i int) float64 { return m[i] / n }
	meanY := mean(w - 1)
	for i := range r.sd {
		r.sd[i] = 0
		v := m[(i+1)*w+i+1]/n - mean(i+1)*mean(i+1)
		if v > 1e-10 { // else it has not changed so far, and says nothing
			r.sd[i] = math.Sqrt(v)
		}
	}
	for i := range r.n {
		for j := i; j < r.n; j++ {
			var c float64
			if r.sd[i] > 0 && r.sd[j] > 0 {
				c = (m[(i+1)*w+j+1] - m[i+1]*mean(j+1)) / (r.sd[i] * r.sd[j])
			}
			if i == j {
				c += ridgePenalty
			}
			r.gram.SetSym(i, j, c)
		}
		var b float64
		if r.sd[i] > 0 {
			b = (m[(i+1)*w+w-1] - m[i+1]*meanY) / r.sd[i]
		}
		r.right.SetVec(i, b)
	}
	// With the penalty on its diagonal the matrix is positive definite; rounding
	// cannot take so much away. If it did, the mean is the forecast.
	r.base = meanY
	if r.chol.Factorize(r.gram) {
		z := mat.NewVecDense(r.n, r.coef)
		if err := r.chol.SolveVecTo(z, r.right); err != nil {
			clear(r.coef)
		}
		for i := range r.coef {
			if r.sd[i] == 0 {
				r.coef[i] = 0
				continue
			}
			r.coef[i] /= r.sd[i]
			r.base -= r.coef[i] * mean(i+1)
		}
	}
	fade := math.Exp2(-1 / ridgeHalfLife)
	for i := range m {
		m[i] *= fade
	}
}

// level forecasts the logarithm.
func (r *ridge) level(x []float64) float64 {
	v := r.base
	for i, c := range r.coef {
		v += c * x[i]
	}
	return v
}
