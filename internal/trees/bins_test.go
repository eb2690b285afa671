package trees

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBinsAgreeWithThresholds checks that a value is in a bin up to b exactly if it is
// at most b's bound, so that bins and thresholds split equally.
func TestBinsAgreeWithThresholds(t *testing.T) {
	value := rapid.OneOf(
		rapid.Float64Range(-3, 3), rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Just(math.Copysign(0, -1)),
		rapid.Just(math.MaxFloat64), rapid.Just(-math.MaxFloat64), rapid.Just(math.SmallestNonzeroFloat64),
		rapid.Map(rapid.IntRange(0, 5), func(i int) float64 { return float64(i) }), rapid.Float64(),
	).Filter(func(v float64) bool { return !math.IsInf(v, 0) })
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(value, 1, 400).Draw(t, "values")
		most := rapid.IntRange(2, maxBins).Draw(t, "most")
		b := binned(Matrix{len(values), 1, values}, positive(len(values), nil), most, 1)
		c := &b.cols[0]
		if c.size() > most || !slices.IsSorted(c.upper) {
			t.Fatalf("%d bins of %d, bounds %v", c.size(), most, c.upper)
		}
		if c.quad < 0 {
			if c.size() > 1 {
				t.Fatal("a column of several bins cannot be split")
			}
			return
		}
		used := make([]bool, c.size())
		for i, v := range values {
			at := int(b.of(c, i))
			used[at] = true
			if v != v {
				if at != len(c.upper) {
					t.Fatalf("a missing value in bin %d", at)
				}
				continue
			}
			for k, u := range c.upper {
				if (v <= u) != (at <= k) {
					t.Fatalf("%g is in bin %d, bound %d is %g", v, at, k, u)
				}
			}
		}
		if slices.Contains(used, false) && !slices.ContainsFunc(values, math.IsNaN) {
			t.Fatalf("an empty bin: %v", used)
		}
	})
}

// TestBinsAreBalanced checks that bins hold about equally many rows, and a frequent
// value has its own.
func TestBinsAreBalanced(t *testing.T) {
	values := make([]float64, 20_000)
	for i := range values {
		values[i] = math.Floor(math.Exp(float64(i) / 1500))
		if i%2 == 0 {
			values[i] = 0
		}
	}
	b := binned(Matrix{len(values), 1, values}, positive(len(values), nil), 64, 1)
	c := &b.cols[0]
	count := make([]int, c.size())
	for i := range values {
		count[b.of(c, i)]++
	}
	if count[0] != 10_000 {
		t.Errorf("the zeros' bin has %d rows", count[0])
	}
	if len(count) != 64 {
		t.Errorf("%d bins, want 64", len(count))
	}
	for i, n := range count[1:] {
		// 10,000 rows in 63 bins; a value's rows stay together, up to 1100 here.
		if n > 1200 || n < 40 {
			t.Errorf("bin %d has %d rows", i+1, n)
		}
	}
}
