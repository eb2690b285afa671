package search

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// hermite are the nodes and weights of the 7-point Gauss-Hermite rule for the
// expectation under a standard normal (Abramowitz and Stegun, table 25.10,
// rescaled).
var hermite = [...][2]float64{
	{-3.750439717725742, 5.48268855972218e-4}, {-2.3667594107345416, 0.0307571239675865},
	{-1.1544053947399682, 0.2401231786050127},
	{0, 0.4571428571428571},
	{1.1544053947399682, 0.2401231786050127}, {2.3667594107345416, 0.0307571239675865},
	{3.750439717725742, 5.48268855972218e-4},
}

// rivals is the number of points that the knowledge gradient considers as future
// winners, the ones with the lowest posterior means.
const rivals = 50

// knowledge returns the index in the pool of the point whose measurement is
// expected to lower the least posterior mean most (Frazier, Powell and Dayanik,
// The knowledge-gradient policy for correlated normal beliefs, INFORMS J.
// Computing 21, 2009). It accounts for the information that a noisy measurement has
// about other points, so it does not only measure around the best. -1 if every point
// of the pool is known.
func (c *chooser) knowledge() int {
	n := c.s.n
	mean, variance := make([]float64, len(c.pool)), make([]float64, len(c.pool))
	order := make([]int, len(c.pool))
	for i := range c.pool {
		order[i] = i
		mean[i], variance[i] = c.s.posterior(c.pool[i].v)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	order = order[:min(rivals, len(order))]
	slope := make([]float64, len(order))
	best, at := math.Inf(-1), -1
	for i := range c.pool {
		k := &c.pool[i]
		sd := math.Sqrt(variance[i] + c.s.noise*c.s.scale)
		for a, j := range order {
			o := &c.pool[j]
			slope[a] = c.s.scale * (c.s.correlation(k.f, o.f) - floats.Dot(k.v[:n], o.v[:n])) / sd
		}
		gain := mean[order[0]]
		for _, h := range hermite {
			low := math.Inf(1)
			for a, j := range order {
				low = min(low, mean[j]+slope[a]*h[0])
			}
			gain -= h[1] * low
		}
		if gain > best {
			if _, unknown := c.fresh(k.x); unknown {
				best, at = gain, i
			}
		}
	}
	return at
}
