package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// kernel is a correlation as a function of the squared, scaled distance.
type kernel uint8

const (
	squaredExponential kernel = iota // very smooth: bowls
	matern52                         // twice differentiable: most other things
	kernels                          // how many there are
)

// at returns the correlation at squared distance r and its derivative by r.
func (k kernel) at(r float64) (value, slope float64) {
	if k == squaredExponential {
		v := math.Exp(-0.5 * r)
		return v, -0.5 * v
	}
	t := math.Sqrt(5 * r)
	e := math.Exp(-t)
	return (1 + t + 5.0/3*r) * e, -5.0 / 6 * (1 + t) * e
}

// value is at without the derivative.
func (k kernel) value(r float64) float64 {
	if k == squaredExponential {
		return math.Exp(-0.5 * r)
	}
	t := math.Sqrt(5 * r)
	return (1 + t + 5.0/3*r) * math.Exp(-t)
}

// gp is a Gaussian process with a constant mean: the posterior of a function
// given noisy values at some points (Rasmussen and Williams, Gaussian Processes
// for Machine Learning, 2006, algorithm 2.1). The mean and the scale are
// estimated along with it, so that only the weights of the features and the
// ratio of noise to signal are hyper-parameters.
type gp struct {
	kernel  kernel
	nominal []bool    // by feature
	weights []float64 // by feature: 1 / squared length
	noise   float64   // variance relative to the signal's

	n    int
	x    []float64 // n rows of features
	y    []float64
	l    []float64 // the Cholesky factor, row i at i*stride
	wide int       // stride
	one  []float64 // L^-1 1
	z    []float64 // L^-1 y
	ones float64   // 1' C^-1 1

	mean  float64
	scale float64   // variance of the signal
	resid []float64 // z - mean*one
	alpha []float64 // C^-1 (y - mean)
}

// priorWeight is how many observations of variance 1 the scale's prior counts as.
const priorWeight = 2

// jitter keeps the factorisation stable where two points nearly agree.
const jitter = 1e-9

func (g *gp) features() int { return len(g.weights) }

// correlation returns that of two points.
func (g *gp) correlation(a, b []float64) float64 {
	var r float64
	b = b[:len(a)]
	w := g.weights[:len(a)]
	nominal := g.nominal[:len(a)]
	for j, v := range a {
		d := v - b[j]
		if nominal[j] && d != 0 {
			d = 1
		}
		r += w[j] * d * d
	}
	return g.kernel.value(r)
}

// reset forgets all points and makes room for n.
func (g *gp) reset(n int) {
	g.n, g.wide = 0, n
	d := g.features()
	g.x = slices.Grow(g.x[:0], n*d)[:n*d]
	g.l = slices.Grow(g.l[:0], n*n)[:n*n]
	for _, v := range []*[]float64{&g.y, &g.one, &g.z, &g.resid, &g.alpha} {
		*v = slices.Grow((*v)[:0], n)[:n]
	}
	g.ones = 0
}

func (g *gp) row(i int) []float64 { return g.x[i*g.features() : (i+1)*g.features()] }

// correlate writes the correlations of x with the points to dst.
func (g *gp) correlate(dst, x []float64) {
	for i := range g.n {
		dst[i] = g.correlation(x, g.row(i))
	}
}

// solve turns dst into L^-1 dst.
func (g *gp) solve(dst []float64) {
	for i := range g.n {
		row := g.l[i*g.wide : i*g.wide+i+1]
		dst[i] = (dst[i] - floats.Dot(row[:i], dst[:i])) / row[i]
	}
}

// add appends a point; the factor grows by one row, which gives the same bits
// as factorising anew.
func (g *gp) add(x []float64, y float64) {
	i := g.n
	copy(g.row(i), x)
	row := g.l[i*g.wide : i*g.wide+i+1]
	g.correlate(row, x)
	g.solve(row)
	row[i] = math.Sqrt(max(1+g.noise+jitter-floats.Dot(row[:i], row[:i]), jitter))
	g.y[i] = y
	g.one[i] = (1 - floats.Dot(row[:i], g.one[:i])) / row[i]
	g.z[i] = (y - floats.Dot(row[:i], g.z[:i])) / row[i]
	g.n++
}

// ready estimates mean and scale after points were added. With keep the scale
// stays as it was: fantasised points carry no information about it.
func (g *gp) ready(keep bool) {
	n := g.n
	one, z := g.one[:n], g.z[:n]
	g.ones = floats.Dot(one, one)
	g.mean = floats.Dot(one, z) / g.ones
	for i := range n {
		g.resid[i] = z[i] - g.mean*one[i]
	}
	if !keep {
		g.scale = (priorWeight + floats.Dot(g.resid[:n], g.resid[:n])) / float64(priorWeight+n)
	}
	copy(g.alpha, g.resid[:n])
	for i := n - 1; i >= 0; i-- { // L' alpha = resid
		row := g.l[i*g.wide : i*g.wide+i+1]
		g.alpha[i] /= row[i]
		floats.AddScaled(g.alpha[:i], -g.alpha[i], row[:i])
	}
}

// guess returns the posterior mean at x; tmp has room for n numbers.
func (g *gp) guess(x, tmp []float64) float64 {
	g.correlate(tmp, x)
	return g.mean + floats.Dot(tmp[:g.n], g.alpha[:g.n])
}

// predict returns the posterior mean and variance at x, without noise. It leaves
// L^-1 k in v, which has room for n numbers.
func (g *gp) predict(x, v []float64) (mean, variance float64) {
	g.correlate(v, x)
	v = v[:g.n]
	g.solve(v)
	return g.posterior(v)
}

// posterior returns mean and variance from v = L^-1 k.
func (g *gp) posterior(v []float64) (mean, variance float64) {
	v = v[:g.n]
	mean = g.mean + floats.Dot(v, g.resid[:g.n])
	u := 1 - floats.Dot(v, g.one[:g.n])
	variance = g.scale * (1 - floats.Dot(v, v) + u*u/g.ones)
	return mean, max(variance, 1e-12*g.scale)
}
