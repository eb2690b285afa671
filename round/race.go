package round

import (
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

// racers is how many configurations are played on fresh futures, the incumbent
// included, but a quarter of the budget at most. A budget below 8 has none.
const racers = 4

// race plays the incumbent and the best candidates, so many in all, on fresh
// futures and returns the trials of those that were better there too, with both.
// What was best of many on the futures that it was chosen on was partly lucky
// there; on fresh ones it is not. out.Incumbent gets both as well. The result is
// nil if there was nothing to race on, and empty if nobody was better.
func (r *Round) race(ctx context.Context, out *Result, candidates []search.Trial, expected, most int) ([]search.Trial, error) {
	field := slices.Clone(candidates)
	slices.SortStableFunc(field, func(a, b search.Trial) int {
		switch x, y := a.Measurement.Mean(), b.Measurement.Mean(); {
		case a.Step == expected || b.Step != expected && x < y:
			return -1
		case b.Step == expected || x > y:
			return 1
		}
		return 0
	})
	field = append([]search.Trial{out.Incumbent}, field[:min(most-1, len(field))]...)
	scorer, err := NewScorer(r.Scheduler, r.Cluster, r.Confirm, r.Objective, r.Options)
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err == nil {
		err = scorer.setUp(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	fresh, err := scorer.all(ctx, field, r.Workers)
	if err != nil {
		return nil, err
	}
	won := []search.Trial{}
	for i := range field {
		field[i].Measurement = field[i].Measurement.Append(fresh[i])
		if i > 0 && field[i].OK() && fresh[i].Feasible() && (fresh[0].Exhausted || !fresh[0].Feasible() || r.goal().betterOnAverage(&fresh[i], &fresh[0])) {
			won = append(won, field[i])
		}
	}
	out.Incumbent = field[0]
	out.Details["raced"] = float64(len(field))
	out.Details["evaluations"] += float64(len(field))
	return won, nil
}

// Interval is a range of a ratio.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// IsZero reports whether there is no interval.
func (x Interval) IsZero() bool { return x == Interval{} }

// interval is where the ratio of two configurations' controllable parts lies
// with a probability of 95 %, had there been many futures like these: Student's t
// on the logarithm of the ratio of the means, whose variance comes from the
// futures in pairs, linearised (Cochran, Sampling Techniques, 3rd edition,
// section 6.4). The zero Interval if a part is not positive or there are fewer
// than three futures.
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

// all measures the configurations of trials, on so many workers (0: one per
// processor).
func (sc *Scorer) all(ctx context.Context, trials []search.Trial, workers int) ([]search.Measurement, error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	out, errs := make([]search.Measurement, len(trials)), make([]error, len(trials))
	turn := make(chan struct{}, workers)
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
