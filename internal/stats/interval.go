package stats

import (
	"cmp"
	"slices"

	"github.com/autosched/autosched/internal/rng"
)

// blocks is the number of blocks of jobs that a resample is made of.
const blocks = 20

// A resampled statistic is that of the blocks of values that begin at starts.
type resampled func(starts []int) float64

// RatioInterval is a 95 % interval of b's mean over a's, for values of the same jobs in
// order of submission, one series for each seed: a hierarchical bootstrap over seeds,
// which are paired where both have several, and within them a circular block bootstrap
// over the jobs, which are paired. Jobs that follow each other share a backlog, hence the
// blocks, a twentieth of the jobs each. Where b is the best of several, the interval is the
// wider for their number (Bonferroni). False for fewer than 200 jobs, and for series of
// different jobs.
func RatioInterval(a, b [][]float64, of int, seed uint64) (lo, hi float64, ok bool) {
	return ratioInterval(a, b, of, seed, 1000, blockSums)
}

// QuantileRatioInterval is RatioInterval of the q-quantile's mean over seeds.
func QuantileRatioInterval(a, b [][]float64, q float64, of int, seed uint64) (lo, hi float64, ok bool) {
	return ratioInterval(a, b, of, seed, 400, func(x []float64, size int) resampled {
		return blockQuantile(x, size, q)
	})
}

func ratioInterval(a, b [][]float64, of int, seed uint64, draws int,
	resample func(x []float64, size int) resampled) (lo, hi float64, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return 0, 0, false
	}
	n := len(a[0])
	if n != len(b[0]) || n < 10*blocks {
		return 0, 0, false
	}
	each := func(series [][]float64) (out []resampled) {
		for _, x := range series {
			out = append(out, resample(x, n/blocks))
		}
		return out
	}
	ra, rb := each(a), each(b)
	seeds := max(len(ra), len(rb))
	draw, drawSeed := rng.Stream("report-interval", seed), rng.Stream("report-interval-seeds", seed)
	ratios := make([]float64, draws)
	starts := make([]int, blocks)
	for i := range ratios {
		va, vb := 0.0, 0.0
		for range seeds {
			s := drawSeed.IntN(seeds)
			for k := range starts {
				starts[k] = draw.IntN(n)
			}
			va += ra[s%len(ra)](starts)
			vb += rb[s%len(rb)](starts)
		}
		ratios[i] = 1
		if va != vb { // both may be 0
			ratios[i] = vb / va
		}
	}
	lo, hi = Interval(ratios, of)
	return lo, hi, true
}

// Interval is the 95 % interval of draws, which it sorts: it leaves out as many on either
// side. For the best of several it leaves out a share of them (Bonferroni).
func Interval(draws []float64, of int) (lo, hi float64) {
	slices.Sort(draws)
	out := len(draws) * 25 / (1000 * max(1, of))
	return draws[out], draws[len(draws)-1-out]
}

// blockSums resamples a sum.
func blockSums(x []float64, size int) resampled {
	n := len(x)
	sums := make([]float64, n) // of the block that begins at each value
	for i := range size {
		sums[0] += x[i]
	}
	for i := 1; i < n; i++ {
		sums[i] = sums[i-1] - x[i-1] + x[(i+size-1)%n]
	}
	return func(starts []int) float64 {
		sum := 0.0
		for _, at := range starts {
			sum += sums[at]
		}
		return sum
	}
}

// blockQuantile resamples a quantile, as Quantile defines it.
func blockQuantile(x []float64, size int, q float64) resampled {
	n := len(x)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(x[i], x[j]), cmp.Compare(i, j)) })
	times := make([]int, n) // in the resample
	return func(starts []int) float64 {
		clear(times)
		for _, at := range starts {
			for i := range size {
				times[(at+i)%n]++
			}
		}
		at := q * float64(size*len(starts)-1)
		low, seen := int(at), 0
		for k, j := range order {
			if seen += times[j]; seen <= low {
				continue
			}
			next := x[j]
			if seen == low+1 { // the next value is another job's
				for _, i := range order[k+1:] {
					if times[i] > 0 {
						next = x[i]
						break
					}
				}
			}
			return x[j] + (at-float64(low))*(next-x[j])
		}
		panic("stats: an empty resample")
	}
}
