package round

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/search"
)

// Interval is a range of a ratio.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// IsZero reports whether there is no interval.
func (x Interval) IsZero() bool { return x == Interval{} }

// interval is a 95 % confidence interval of the ratio of two configurations'
// controllable parts: Student's t on the logarithm of the ratio of means, with the
// linearised variance of paired futures (Cochran, Sampling Techniques, 3rd edition,
// section 6.4). It is zero if a part is not positive or with fewer than three futures.
func interval(incumbent, candidate search.Measurement) Interval {
	n := len(candidate.Values)
	if n < 3 || len(incumbent.Values) != n || len(incumbent.Floors) != n {
		return Interval{}
	}
	a, b := make([]float64, n), make([]float64, n)
	for i, floor := range incumbent.Floors {
		a[i], b[i] = incumbent.Values[i]-floor, candidate.Values[i]-floor
	}
	ma, mb := stats.Mean(a), stats.Mean(b)
	if !(ma > 0 && mb > 0) {
		return Interval{}
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(.975)
	half := t * stats.RatioSD(a, b) / math.Sqrt(float64(n))
	return Interval{Low: min(search.MaxRatio, ma/mb*math.Exp(-half)), High: min(search.MaxRatio, ma/mb*math.Exp(half))}
}

// all measures the configurations of trials on n workers (0: one per processor).
func (sc *Scorer) all(ctx context.Context, trials []search.Trial, n int) ([]search.Measurement, error) {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	out, errs := make([]search.Measurement, len(trials)), make([]error, len(trials))
	turn := make(chan struct{}, n)
	var wg sync.WaitGroup
	for i := range trials {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			out[i], errs[i] = sc.Measure(ctx, trials[i].Config)
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// failed bounds the logarithm of a ratio.
const failed = 3.0

// logRatio is the logarithm of a/b, bounded by failed.
func logRatio(a, b float64) float64 {
	switch {
	case a <= 0 && b <= 0:
		return 0
	case a <= 0:
		return -failed
	case b <= 0:
		return failed
	}
	return max(-failed, min(math.Log(a/b), failed))
}
