package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// evidence is the log posterior density of a gp's hyper-parameters and its
// gradient, over points whose feature distances are computed once.
type evidence struct {
	kernel   kernel
	n, d     int
	y        []float64
	distance []float64 // by pair (i > j) and feature
	length   float64   // prior mean of the log length

	c, inv  []float64 // n by n
	slope   []float64 // by pair: derivative of the correlation by the distance
	one, z  []float64
	alpha   []float64
	weights []float64
	wsum    []float64
}

// Priors of the hyper-parameters, on their logarithms: lengths around a third of
// the range times the root of the dimension (Hvarfner, Hellsten and Nardi, Vanilla Bayesian
// optimization performs great in high dimensions, ICML 2024, on why it must grow
// with it), noise anything from nothing to the whole signal.
const (
	lengthPrior = 0.35
	lengthSD    = 0.7
	noisePrior  = -8.0
	noiseSD     = 3.0
	minNoise    = -16.0
	maxNoise    = 1.0
	minLength   = -3.5
	maxLength   = 5.0
)

func newEvidence(nominal []bool, x []float64, n int) *evidence {
	d := len(nominal)
	e := &evidence{n: n, d: d, length: math.Log(lengthPrior * math.Sqrt(float64(d)))}
	pairs := n * (n - 1) / 2
	e.distance = make([]float64, 0, pairs*d)
	for i := range n {
		for j := range i {
			for f := range d {
				v := x[i*d+f] - x[j*d+f]
				if nominal[f] && v != 0 {
					v = 1
				}
				e.distance = append(e.distance, v*v)
			}
		}
	}
	e.c, e.inv = make([]float64, n*n), make([]float64, n*n)
	e.slope = make([]float64, pairs)
	e.one, e.z, e.alpha = make([]float64, n), make([]float64, n), make([]float64, n)
	e.weights, e.wsum = make([]float64, d), make([]float64, d)
	return e
}

// start is the mode of the prior: log lengths by feature, then log noise.
func (e *evidence) start() []float64 {
	h := make([]float64, e.d+1)
	for f := range e.d {
		h[f] = e.length
	}
	h[e.d] = noisePrior
	return h
}

func within(v, low, high float64) float64 { return min(max(v, low), high) }

// at returns the log density at h and writes its gradient to grad.
func (e *evidence) at(h, grad []float64) float64 {
	n, d := e.n, e.d
	var sum float64
	for f := range d {
		e.weights[f] = math.Exp(-2 * within(h[f], minLength, maxLength))
		off := (h[f] - e.length) / lengthSD
		sum -= 0.5 * off * off
		grad[f] = -off / lengthSD
		e.wsum[f] = 0
	}
	noise := math.Exp(within(h[d], minNoise, maxNoise))
	off := (h[d] - noisePrior) / noiseSD
	sum -= 0.5 * off * off
	grad[d] = -off / noiseSD

	// The correlation matrix, lower half, factorised row by row.
	var logdet float64
	pair := 0
	for i := range n {
		row := e.c[i*n : i*n+i+1]
		for j := range i {
			var r float64
			for f, v := range e.distance[pair*d : (pair+1)*d] {
				r += v * e.weights[f]
			}
			row[j], e.slope[pair] = e.kernel.at(r)
			pair++
		}
		for j := range i {
			other := e.c[j*n : j*n+j+1]
			row[j] = (row[j] - floats.Dot(row[:j], other[:j])) / other[j]
		}
		row[i] = math.Sqrt(max(1+noise+jitter-floats.Dot(row[:i], row[:i]), jitter))
		logdet += math.Log(row[i])
		e.one[i] = (1 - floats.Dot(row[:i], e.one[:i])) / row[i]
		e.z[i] = (e.y[i] - floats.Dot(row[:i], e.z[:i])) / row[i]
	}
	mean := floats.Dot(e.one, e.z) / floats.Dot(e.one, e.one)
	var q float64
	for i := range n {
		e.alpha[i] = e.z[i] - mean*e.one[i]
		q += e.alpha[i] * e.alpha[i]
	}
	for i := n - 1; i >= 0; i-- {
		row := e.c[i*n : i*n+i+1]
		e.alpha[i] /= row[i]
		floats.AddScaled(e.alpha[:i], -e.alpha[i], row[:i])
	}
	sum -= logdet + 0.5*float64(n+priorWeight)*math.Log((priorWeight+q)/float64(n+priorWeight))

	// inv becomes L^-1 by columns (column j at row j of inv), then C^-1.
	inv := e.inv
	for j := range n {
		col := inv[j*n : (j+1)*n]
		col[j] = 1 / e.c[j*n+j]
		for i := j + 1; i < n; i++ {
			row := e.c[i*n : i*n+i+1]
			col[i] = -floats.Dot(row[j:i], col[j:i]) / row[i]
		}
	}
	trust := float64(n+priorWeight) / (priorWeight + q)
	pair = 0
	var trace float64
	for i := range n {
		ci := inv[i*n+i : (i+1)*n]
		trace += trust*e.alpha[i]*e.alpha[i] - floats.Dot(ci, ci)
		for j := range i {
			// C^-1 at (i, j) is the product of the columns from row i on.
			v := trust*e.alpha[i]*e.alpha[j] - floats.Dot(ci, inv[j*n+i:(j+1)*n])
			v *= e.slope[pair]
			for f, w := range e.distance[pair*d : (pair+1)*d] {
				e.wsum[f] += v * w
			}
			pair++
		}
	}
	for f := range d {
		// Each pair counts twice, halved; the weight is exp(-2 h).
		if h[f] > minLength && h[f] < maxLength {
			grad[f] += -2 * e.weights[f] * e.wsum[f]
		}
	}
	if h[d] > minNoise && h[d] < maxNoise {
		grad[d] += 0.5 * noise * trace
	}
	return sum
}

// maximise climbs from h by BFGS with a backtracking line search, at most steps
// evaluations, and returns the highest value; h becomes where that is. The BFGS
// of gonum/optimize takes longer at the same budget (docs/notes/search.md).
func maximise(f func(h, grad []float64) float64, h []float64, steps int) float64 {
	n := len(h)
	grad, next, nextGrad := make([]float64, n), make([]float64, n), make([]float64, n)
	dir, s, y, hy := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	b := make([]float64, n*n) // approximate inverse of the negated Hessian
	reset := func() {
		clear(b)
		for i := range n {
			b[i*n+i] = 1
		}
	}
	reset()
	fresh := true
	value := f(h, grad)
	for steps--; steps > 0; {
		for i := range n {
			dir[i] = floats.Dot(b[i*n:(i+1)*n], grad)
		}
		rise := floats.Dot(dir, grad)
		if !(rise > 0) {
			if fresh {
				return value
			}
			reset()
			fresh = true
			continue
		}
		if rise < 1e-6 {
			return value
		}
		// No step moves a logarithm by more than two.
		if long := floats.Norm(dir, math.Inf(1)); long > 2 {
			floats.Scale(2/long, dir)
			rise *= 2 / long
		}
		step, got := 1.0, math.Inf(-1)
		for ; steps > 0; step *= 0.3 {
			for i := range n {
				next[i] = h[i] + step*dir[i]
			}
			steps--
			if got = f(next, nextGrad); got >= value+1e-4*step*rise {
				break
			}
			got = math.Inf(-1)
			if step < 1e-3 {
				break
			}
		}
		if math.IsInf(got, -1) {
			if fresh {
				return value
			}
			reset()
			fresh = true
			continue
		}
		var sy float64
		for i := range n {
			s[i] = next[i] - h[i]
			y[i] = grad[i] - nextGrad[i] // of the negated function
			sy += s[i] * y[i]
		}
		gain := got - value
		copy(h, next)
		copy(grad, nextGrad)
		value = got
		if gain < 1e-4 {
			return value
		}
		if sy > 1e-10 {
			for i := range n {
				hy[i] = floats.Dot(b[i*n:(i+1)*n], y)
			}
			yhy := floats.Dot(y, hy)
			for i := range n {
				for j := range n {
					b[i*n+j] += (1+yhy/sy)*s[i]*s[j]/sy - (hy[i]*s[j]+s[i]*hy[j])/sy
				}
			}
			fresh = false
		}
	}
	return value
}

// hyper is a fitted choice of kernel and hyper-parameters.
type hyper struct {
	kernel kernel
	warp   warp
	h      []float64
	value  float64
}

// apply gives a gp the hyper-parameters.
func (h *hyper) apply(g *gp) {
	d := len(h.h) - 1
	g.kernel = h.kernel
	g.weights = slices.Grow(g.weights[:0], d)[:d]
	for f := range d {
		g.weights[f] = math.Exp(-2 * within(h.h[f], minLength, maxLength))
	}
	g.noise = math.Exp(within(h.h[d], minNoise, maxNoise))
}
