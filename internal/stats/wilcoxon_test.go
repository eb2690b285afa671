package stats

import (
	"math"
	"slices"
	"testing"
)

// TestWilcoxon: values of the exact distribution, by hand and from published tables.
func TestWilcoxon(t *testing.T) {
	for _, x := range []struct {
		d    []float64
		want float64
	}{
		{nil, 1},
		{[]float64{0, 0}, 1},
		{[]float64{1, 2, 3, 4, 5}, 2. / 32},
		{[]float64{-1, 2, 3, 4, 5}, 4. / 32},
		{[]float64{1, -2, 3, 4, 5, 0}, 6. / 32},
		{[]float64{1, 1, -1}, 1}, // ties: sums 2, 4 of 6, and as far from the middle
		{[]float64{1, 2, 3, 4, 5, 6, 7, -8, 9, 10}, .0488281250},
	} {
		if got := Wilcoxon(x.d); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%v: %g, want %g", x.d, got, x.want)
		}
	}
}

func TestHolm(t *testing.T) {
	if got := Holm([]float64{.01, .04, .03, .5}); !slices.Equal(got, []float64{.04, .09, .09, .5}) {
		t.Error(got)
	}
}
