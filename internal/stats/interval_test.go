package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBlockQuantile: a resampled quantile is that of the values drawn.
func TestBlockQuantile(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		x := make([]float64, 10+draw.IntN(30))
		for i := range x {
			x[i] = float64(draw.IntN(20))
		}
		size := 1 + draw.IntN(4)
		starts := []int{draw.IntN(len(x)), draw.IntN(len(x)), draw.IntN(len(x))}
		var drawn []float64
		for _, at := range starts {
			for i := range size {
				drawn = append(drawn, x[(at+i)%len(x)])
			}
		}
		slices.Sort(drawn)
		q := draw.Float64()
		if got, want := blockQuantile(x, size, q)(starts), Quantile(drawn, q); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%g-quantile of %v: %g, want %g", q, drawn, got, want)
		}
	}
}

// TestIntervals hold the ratio, and are narrow where every job gains the same.
func TestIntervals(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	a, b, c := make([]float64, 2000), make([]float64, 2000), make([]float64, 2000)
	for i := range a {
		a[i] = draw.ExpFloat64()
		b[i], c[i] = 2*a[i], 2*draw.ExpFloat64()
	}
	p95 := func(x []float64) float64 { return Quantile(slices.Sorted(slices.Values(x)), .95) }
	ratio := map[string]float64{"mean": Mean(c) / Mean(a), "p95": p95(c) / p95(a)}
	of := map[string]func(y []float64) (lo, hi float64, ok bool){
		"mean": func(y []float64) (lo, hi float64, ok bool) {
			return RatioInterval([][]float64{a}, [][]float64{y}, 1, 1)
		},
		"p95": func(y []float64) (lo, hi float64, ok bool) {
			return QuantileRatioInterval([][]float64{a}, [][]float64{y}, .95, 1, 1)
		},
	}
	for name, interval := range of {
		if lo, hi, ok := interval(b); !ok || math.Abs(lo-2) > 1e-9 || math.Abs(hi-2) > 1e-9 {
			t.Errorf("%s: %g to %g (%v), want 2", name, lo, hi, ok)
		}
		if lo, hi, ok := interval(c); !ok || lo < 1.5 || lo > ratio[name] || hi < ratio[name] || hi > 2.7 {
			t.Errorf("%s: %g to %g (%v), want %g inside", name, lo, hi, ok, ratio[name])
		}
		if _, _, ok := interval(b[:1999]); ok {
			t.Errorf("%s: an interval of different jobs", name)
		}
	}
}
