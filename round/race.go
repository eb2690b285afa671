package round

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/search"
)

// mostRacers bounds the configurations measured on held-out futures, the incumbent
// included. A quarter of the budget bounds them too.
const mostRacers = 6

// leastToRace is the smallest budget with a race.
const leastToRace = 12

// race measures the incumbent and the best candidates, most of them in all, on the
// held-out futures. It returns the trials that were better there too, with the
// measurements of both sets of futures, and appends those of the incumbent to
// out.Incumbent. It fails with errNothing if the held-out futures have no job.
func (r *Round) race(ctx context.Context, out *Result, candidates []search.Trial,
	expected, most int) ([]search.Trial, error) {
	field := slices.Clone(candidates)
	slices.SortStableFunc(field, func(a, b search.Trial) int {
		switch {
		case a.Step == expected:
			return -1
		case b.Step == expected:
			return 1
		}
		return cmp.Compare(a.Measurement.Mean(), b.Measurement.Mean())
	})
	field = append([]search.Trial{out.Incumbent}, field[:min(most-1, len(field))]...)
	measure, err := r.measure(ctx, r.HeldOut)
	if err != nil {
		return nil, err
	}
	fresh, err := measure.all(ctx, field, r.Workers)
	if err != nil {
		return nil, err
	}
	won := []search.Trial{}
	for i := range field {
		field[i].Measurement = field[i].Measurement.Append(fresh[i])
		if i > 0 && field[i].OK() && fresh[i].Feasible() &&
			(fresh[0].Exhausted || !fresh[0].Feasible() || r.Goal.betterOnAverage(&fresh[i], &fresh[0])) {
			won = append(won, field[i])
		}
	}
	out.Incumbent = field[0]
	out.Stats.Raced = len(field)
	out.Stats.Evaluations += len(field)
	return won, nil
}

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
