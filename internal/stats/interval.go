package stats

import (
	"slices"

	"github.com/autosched/autosched/internal/rng"
)

// RatioInterval is a 95 % interval of b's mean over a's, for values of the same jobs in
// order of submission, one series for each seed: a hierarchical bootstrap over seeds,
// which are paired where both have several, and within them a circular block bootstrap
// over the jobs, which are paired. Jobs that follow each other share a backlog, hence the
// blocks, a twentieth of the jobs each. False for fewer than 200 jobs, and for series of
// different jobs.
func RatioInterval(a, b [][]float64, seed uint64) (lo, hi float64, ok bool) {
	const blocks, draws = 20, 1000
	if len(a) == 0 || len(b) == 0 {
		return 0, 0, false
	}
	n := len(a[0])
	if n != len(b[0]) || n < 10*blocks {
		return 0, 0, false
	}
	sa, sb := blockSums(a, n/blocks), blockSums(b, n/blocks)
	seeds := max(len(sa), len(sb))
	draw, drawSeed := rng.Stream("report-interval", seed), rng.Stream("report-interval-seeds", seed)
	ratios := make([]float64, draws)
	for i := range ratios {
		va, vb := 0.0, 0.0
		for range seeds {
			s := drawSeed.IntN(seeds)
			xa, xb := sa[s%len(sa)], sb[s%len(sb)]
			for range blocks {
				at := draw.IntN(n)
				va += xa[at]
				vb += xb[at]
			}
		}
		ratios[i] = vb / va
	}
	slices.Sort(ratios)
	return ratios[draws*25/1000], ratios[draws*975/1000-1], true
}

// blockSums are, for each series, the sums of the block of values that begins at each.
func blockSums(series [][]float64, size int) [][]float64 {
	var out [][]float64
	for _, x := range series {
		n := len(x)
		sums := make([]float64, n)
		for i := range size {
			sums[0] += x[i]
		}
		for i := 1; i < n; i++ {
			sums[i] = sums[i-1] - x[i-1] + x[(i+size-1)%n]
		}
		out = append(out, sums)
	}
	return out
}
