// Package stats implements statistics that gonum lacks, or sums in an order that
// bit-identical results do not permit.
package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Mean returns the mean of v, summed in order; NaN if v is empty.
func Mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Quantile returns the q-quantile of sorted values with linear interpolation:
// definition 7 of Hyndman and Fan (The American Statistician 50, 1996), the default
// of numpy and R, which gonum lacks. NaN if sorted is empty.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	lo := int(at)
	if lo+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[lo] + (at-float64(lo))*(sorted[lo+1]-sorted[lo])
}

// NearestRank returns the index of a quantile in a sorted sample of n values by the nearest-rank method.
func NearestRank(q float64, n int) int { return min(n-1, max(0, int(math.Ceil(q*float64(n)))-1)) }

// Spearman returns Spearman's rank correlation of two series; 0 if one is constant.
func Spearman(a, b []float64) float64 {
	x, y := Ranks(a), Ranks(b)
	mean := float64(len(x)+1) / 2
	var xy, xx, yy float64
	for i := range x {
		u, v := x[i]-mean, y[i]-mean
		xy += u * v
		xx += u * u
		yy += v * v
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// Ranks returns the ranks of values, starting at 1; ties share their mean rank.
func Ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	out := make([]float64, len(v))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && v[order[j]] == v[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			out[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}

// RatioSD returns the standard deviation of a pair's contribution to the log ratio
// of two positive means, by linearisation (Cochran, Sampling Techniques, 3rd
// edition, section 6.4). Divided by the square root of the number of pairs n it is
// the standard error, with n-1 degrees of freedom.
func RatioSD(a, b []float64) float64 {
	ma, mb := Mean(a), Mean(b)
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i]/ma - b[i]/mb
	}
	return stat.StdDev(d, nil)
}

// KS returns the two-sample Kolmogorov-Smirnov distance: the largest difference of the
// distribution functions of two samples. NaN if one is empty.
func KS(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return math.NaN()
	}
	x, y := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	most := 0.0
	for i, k := 0, 0; i < len(x) && k < len(y); {
		v := min(x[i], y[k])
		for i < len(x) && x[i] == v {
			i++
		}
		for k < len(y) && y[k] == v {
			k++
		}
		most = max(most, math.Abs(float64(i)/float64(len(x))-float64(k)/float64(len(y))))
	}
	return most
}
