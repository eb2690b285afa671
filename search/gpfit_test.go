package search

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The analytic gradient must agree with differences.
func TestEvidenceGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	nominal := []bool{false, true, false}
	const n = 12
	x := make([]float64, n*3)
	y := make([]float64, n)
	for i := range n {
		x[3*i], x[3*i+1], x[3*i+2] = rng.Float64(), float64(rng.IntN(3)), rng.Float64()
		y[i] = x[3*i] + 0.5*x[3*i+1] + 0.1*rng.NormFloat64()
	}
	e := newEvidence(nominal, x, n)
	e.y = y
	for k := range kernels {
		e.kernel = k
		h := e.start()
		for i := range h {
			h[i] += 0.5 * rng.NormFloat64()
		}
		grad, other := make([]float64, len(h)), make([]float64, len(h))
		e.at(h, grad)
		for i := range h {
			const step = 1e-5
			v := h[i]
			h[i] = v + step
			up := e.at(h, other)
			h[i] = v - step
			down := e.at(h, other)
			h[i] = v
			if want := (up - down) / (2 * step); math.Abs(grad[i]-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("kernel %d: derivative %d is %v, by differences %v", k, i, grad[i], want)
			}
		}
	}
}
