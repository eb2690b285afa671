package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMean(t *testing.T) {
	if got := Mean([]float64{1, 2, 6}); got != 3 {
		t.Errorf("%g, want 3", got)
	}
	if got := Mean(nil); !math.IsNaN(got) {
		t.Errorf("%g of nothing, want NaN", got)
	}
}

// TestQuantile compares with numpy.quantile.
func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		v       []float64
		q, want float64
	}{
		{[]float64{7}, .3, 7}, {[]float64{1, 2}, .5, 1.5}, {[]float64{1, 2, 4, 8}, .5, 3},
		{[]float64{1, 2, 4, 8}, .9, 6.8},
		{[]float64{1, 2, 4, 8}, 0, 1}, {[]float64{1, 2, 4, 8}, 1, 8},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, .95, 9.55}, {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, .99, 9.91},
		{[]float64{1, 1, 1, 5}, .5, 1},
	} {
		if got := Quantile(c.v, c.q); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("quantile %g of %v is %g, want %g", c.q, c.v, got, c.want)
		}
	}
	if got := Quantile(nil, .5); !math.IsNaN(got) {
		t.Errorf("%g of nothing, want NaN", got)
	}
}

func TestRanks(t *testing.T) {
	if got := Ranks([]float64{5, 1, 5, 2, 5}); !slices.Equal(got, []float64{4, 1, 4, 2, 4}) {
		t.Errorf("%v", got)
	}
}

// TestSpearman compares with 1 - 6 sum(d^2) / (n (n^2-1)) without ties, and checks the
// limits.
func TestSpearman(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{1, 4, 9, 16}, 1}, {[]float64{1, 2, 3}, []float64{0, -1, -9}, -1},
		{[]float64{1, 2, 3, 4}, []float64{2, 1, 4, 3}, .6}, {[]float64{1, 2}, []float64{5, 5}, 0},
	} {
		if got := Spearman(c.a, c.b); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%v, %v: %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

// TestRatioSD checks that proportional pairs have no deviation, and that the standard
// error agrees with the spread of the log ratios of many samples.
func TestKS(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, 0}, {[]float64{1, 2}, []float64{3, 4}, 1},
		{[]float64{1, 2, 3, 4}, []float64{3, 4, 5, 6}, .5}, {[]float64{0, 0, 0, 1}, []float64{0, 0, 1, 1}, .25},
		{[]float64{0}, []float64{0, 0, 5, 6}, .5},
	} {
		if got := KS(c.a, c.b); got != c.want || KS(c.b, c.a) != c.want {
			t.Errorf("KS(%v, %v) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
	if !math.IsNaN(KS(nil, []float64{1})) {
		t.Error("of an empty sample there is a distance")
	}
}

func TestRatioSD(t *testing.T) {
	if got := RatioSD([]float64{1, 2, 3}, []float64{2, 4, 6}); got != 0 {
		t.Errorf("%g for proportional pairs", got)
	}
	src := rand.New(rand.NewPCG(1, 2))
	const samples, pairs = 2000, 40
	var logs []float64
	predicted := 0.0
	for range samples {
		a, b := make([]float64, pairs), make([]float64, pairs)
		for i := range a {
			common := 10 + src.NormFloat64()
			a[i], b[i] = common+src.NormFloat64(), common+src.NormFloat64()
		}
		logs = append(logs, math.Log(Mean(a)/Mean(b)))
		predicted += RatioSD(a, b) / math.Sqrt(pairs) / samples
	}
	mean, sum := Mean(logs), 0.0
	for _, x := range logs {
		sum += (x - mean) * (x - mean)
	}
	// The standard deviation of 2,000 values has a standard error of 2 %: allow three.
	if actual := math.Sqrt(sum / samples); math.Abs(predicted/actual-1) > .06 {
		t.Errorf("standard error %g, actual %g", predicted, actual)
	}
}
