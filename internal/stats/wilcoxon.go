package stats

import (
	"cmp"
	"math"
	"slices"
)

// Wilcoxon returns the two-sided p-value of the signed-rank test of paired differences: exact,
// with ranks shared by ties, and without differences of zero. It is 1 where none is left.
func Wilcoxon(differences []float64) float64 {
	var magnitude []float64
	var positive []bool
	for _, d := range differences {
		if d != 0 {
			magnitude, positive = append(magnitude, math.Abs(d)), append(positive, d > 0)
		}
	}
	ranks := Ranks(magnitude)
	total, up := 0, 0 // of doubled ranks, which are whole
	twice := make([]int, len(ranks))
	for i, r := range ranks {
		twice[i] = int(math.Round(2 * r))
		total += twice[i]
		if positive[i] {
			up += twice[i]
		}
	}
	ways := make([]float64, total+1) // share of the sign assignments with a sum
	ways[0] = 1
	for _, r := range twice {
		for s := total; s >= 0; s-- {
			ways[s] /= 2
			if s >= r {
				ways[s] += ways[s-r] / 2
			}
		}
	}
	low, p := min(up, total-up), 0.
	for s := 0; s <= low; s++ {
		p += ways[s]
	}
	return min(1, 2*p)
}

// Holm adjusts p-values for their number by Holm's step-down method.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out := make([]float64, len(p))
	most := 0.
	for k, i := range order {
		most = max(most, min(1, float64(len(p)-k)*p[i]))
		out[i] = most
	}
	return out
}
