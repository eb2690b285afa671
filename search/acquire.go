package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/space"
	"gonum.org/v1/gonum/floats"
)

// logEI is the logarithm of the expected improvement below best of a normal
// variable, exact far into the tail where the improvement itself underflows
// (Ament et al., Unexpected improvements to expected improvement, NeurIPS 2023).
func logEI(mean, variance, best float64) float64 {
	sd := math.Sqrt(variance)
	return math.Log(sd) + logH((best-mean)/sd)
}

// logH is the logarithm of phi(z) + z Phi(z).
func logH(z float64) float64 {
	const halfLog2Pi = 0.9189385332046727
	if z > -25 {
		if h := math.Exp(-0.5*z*z-halfLog2Pi) + 0.5*z*math.Erfc(-z/math.Sqrt2); h > 0 {
			return math.Log(h)
		}
	}
	// The leading orders of phi(z)/z^2 where the difference cancels.
	return -0.5*z*z - halfLog2Pi - 2*math.Log(-z) + math.Log1p(-3/(z*z))
}

// candidate is a point with its posterior.
type candidate struct {
	x     []float64 // in the cube
	f     []float64 // features
	v     []float64 // L^-1 k
	score float64   // log expected improvement
}

func (k *candidate) config(e *encoder) space.Config { return e.space.Decode(k.x) }

// chooser maximises the acquisition function over a pool of points, the best of
// which are improved by local search.
type chooser struct {
	*proposals
	s    *surrogate
	best float64 // reference of the improvement
	pool []candidate
	tops [][]float64 // best points, in the cube, to search around
	tmp  []float64
	feat []float64
}

// effort returns the number of points to score: fewer with a longer history, where each
// takes longer.
func effort(n int) (pool, climb int) {
	switch {
	case n <= 60:
		return 300, 60
	case n <= 120:
		return 200, 40
	case n <= 250:
		return 120, 25
	}
	return 80, 15
}

// predict returns the posterior mean and variance at cube point x.
func (c *chooser) predict(x []float64) (mean, variance float64) {
	c.enc.encode(c.feat, x)
	return c.s.predict(c.feat, c.tmp)
}

// improvement is the log expected improvement at cube point x.
func (c *chooser) improvement(x []float64) float64 {
	mean, variance := c.predict(x)
	return logEI(mean, variance, c.best)
}

// loss is the negated posterior mean at cube point x.
func (c *chooser) loss(x []float64) float64 {
	c.enc.encode(c.feat, x)
	return -c.s.guess(c.feat, c.tmp)
}

// fill draws the pool: half uniformly, half around the best points, or all
// configurations of a small space.
func (c *chooser) fill() {
	size, _ := effort(c.s.n)
	add := func(x []float64) {
		k := candidate{x: x, f: make([]float64, c.enc.features), v: make([]float64, c.s.wide)}
		c.enc.encode(k.f, x)
		mean, variance := c.s.predict(k.f, k.v)
		k.score = logEI(mean, variance, c.best)
		c.pool = append(c.pool, k)
	}
	if len(c.all) > 0 && len(c.all) <= 2*size {
		for _, config := range c.all {
			add(c.enc.space.Encode(config))
		}
		return
	}
	for i := range size {
		x := make([]float64, len(c.enc.dims))
		if i%2 == 0 || len(c.tops) == 0 {
			c.enc.uniform(x, c.rng)
		} else {
			copy(x, c.tops[i/2%len(c.tops)])
			c.enc.mutate(x, 1.5/float64(len(x)), math.Pow(10, -2*c.rng.Float64()), c.rng)
		}
		add(x)
	}
}

// next returns the point with the highest expected improvement found; ok is false
// if no point is new.
func (c *chooser) next() (config space.Config, x []float64, ok bool) {
	type found struct {
		x     []float64
		score float64
	}
	better := func(a, b found) int { return cmp.Compare(b.score, a.score) }
	var list []found
	for i := range c.pool {
		list = append(list, found{c.pool[i].x, c.pool[i].score})
	}
	slices.SortStableFunc(list, better)
	if len(c.all) == 0 || len(c.all) > len(c.pool) {
		_, steps := effort(c.s.n)
		var climbed []found
		for _, f := range list[:min(3, len(list))] {
			f.x = slices.Clone(f.x)
			f.score = c.climb(c.improvement, f.x, f.score, steps)
			climbed = append(climbed, f)
		}
		slices.SortStableFunc(climbed, better)
		if len(climbed) > 0 {
			climbed[0].score = c.climb(c.improvement, climbed[0].x, climbed[0].score, steps)
		}
		list = append(climbed, list...)
	}
	for _, f := range list {
		if config, ok = c.fresh(f.x); ok {
			return config, f.x, true
		}
	}
	if config, ok = c.anyNew(nil); ok {
		return config, c.enc.space.Encode(config), true
	}
	return config, nil, false
}

// exploit returns the point with the lowest posterior mean found; ok is false if it
// was measured before.
func (c *chooser) exploit() (config space.Config, x []float64, ok bool) {
	value := math.Inf(-1)
	look := func(at []float64) {
		if v := c.loss(at); v > value {
			value, x = v, at
		}
	}
	for i := range c.pool {
		look(c.pool[i].x)
	}
	for _, top := range c.tops {
		look(top)
	}
	if x == nil {
		return config, nil, false
	}
	x = slices.Clone(x)
	_, steps := effort(c.s.n)
	c.climb(c.loss, x, value, 4*steps)
	config, ok = c.fresh(x)
	return config, x, ok
}

// cover returns the point with the highest expected improvement among points with an
// untried level; ok is false if there is none.
func (c *chooser) cover(history []Trial) (config space.Config, x []float64, ok bool) {
	dim, at, missing := c.enc.missing(history)
	if !missing {
		return config, nil, false
	}
	value := math.Inf(-1)
	for i := range c.pool {
		y := slices.Clone(c.pool[i].x)
		y[dim] = at
		c.enc.settle(y)
		if y[dim] != at {
			continue // the rules forbid it at this point
		}
		if v := c.improvement(y); v > value {
			if fresh, unknown := c.fresh(y); unknown {
				value, config, x, ok = v, fresh, y, true
			}
		}
	}
	return config, x, ok
}

// believe adds x to the surrogate with its posterior mean as the measurement, so that
// the next suggestion of a batch is another point (the kriging believer of
// Ginsbourger, Le Riche and Carraro, Kriging is well-suited to parallelize
// optimization, 2010).
func (c *chooser) believe(x []float64) {
	mean, _ := c.predict(x) // leaves the features in c.feat
	n := c.s.n
	c.s.add(c.feat, mean)
	c.s.ready(true)
	row := c.s.l[n*c.s.wide : n*c.s.wide+n+1]
	for i := range c.pool {
		k := &c.pool[i]
		k.v[n] = (c.s.correlation(k.f, c.feat) - floats.Dot(row[:n], k.v[:n])) / row[n]
		mean, variance := c.s.posterior(k.v)
		k.score = logEI(mean, variance, c.best)
	}
}
