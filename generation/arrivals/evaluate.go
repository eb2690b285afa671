package arrivals

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
)

// Score is how futures compare with the actual arrivals, over rolling forecasts.
// Where there are several futures, the forecast is their median, except where
// the mean is named.
type Score struct {
	Method    string `json:"method"`
	Count     string `json:"count"` // jobs or batches
	Forecasts int    `json:"forecasts"`
	// Came is the sum of arrivals.
	Came float64 `json:"-"`
	// WAPE is the sum of absolute errors of the horizon's totals over the sum of
	// arrivals.
	WAPE     float64 `json:"wape"`
	WAPEMean float64 `json:"wape_mean"` // of the mean
	// MAEPerBin and MAE are mean absolute errors of a bin's and of the total count.
	MAEPerBin float64 `json:"mae_per_bin"`
	MAE       float64 `json:"mae"`
	RMSE      float64 `json:"rmse"`
	// Bias is the sum of the futures' means over the sum of arrivals, BiasMedian
	// that of their medians.
	Bias       float64 `json:"bias"`
	BiasMedian float64 `json:"bias_median"`
	// Coverage80 is the share of totals between the 10 % and the 90 % quantile of
	// the futures, bounds included; Coverage80Mid counts totals on a bound as half.
	Coverage80    float64 `json:"coverage_80"`
	Coverage80Mid float64 `json:"coverage_80_mid"`
	// Burstiness is the variance over the mean of the futures' bins, over that of
	// the real ones.
	Burstiness float64 `json:"burstiness"`
	// RelByDay is the mean of |error| / max(real, 1) on each day (the paper's
	// Figure 8), by date.
	RelByDay map[string]float64 `json:"rel_error_by_day"`
	RelMin   float64            `json:"rel_error_day_min"`
	RelMed   float64            `json:"rel_error_day_median"`
	RelMax   float64            `json:"rel_error_day_max"`
}

// Scored quantities.
const (
	CountJobs    = "jobs"
	CountBatches = "batches"
)

// Rolling says how to evaluate: a forecast at From and then Every so often, as
// long as its horizon ends by To.
type Rolling struct {
	From, To time.Duration
	Every    time.Duration // default the forecaster's horizon
	Futures  int           // default DefaultFutures
	Seed     uint64
	Progress func(done, of int)
	// Each gets every forecast: its instant, the history that was known, the futures, and the band of the jobs in them.
	Each func(at time.Duration, known *History, futures []Future, jobs stats.Band)
}

// DefaultFutures makes sampling noise small beside the forecast's error.
const DefaultFutures = 100

func (r Rolling) check(h *History, horizon time.Duration) (Rolling, error) {
	if r.Every == 0 {
		r.Every = horizon
	}
	if r.Futures == 0 {
		r.Futures = DefaultFutures
	}
	switch {
	case horizon%h.bin != 0:
		return r, fmt.Errorf("arrivals: horizon %v is not a multiple of the bin %v", horizon, h.bin)
	case r.Futures < 1:
		return r, fmt.Errorf("arrivals: %d futures", r.Futures)
	case r.Every < h.bin || r.Every%h.bin != 0:
		return r, fmt.Errorf("arrivals: a forecast every %v is not on the grid of %v", r.Every, h.bin)
	case r.From < h.start || (r.From-h.start)%h.bin != 0:
		return r,
			fmt.Errorf(
				"arrivals: the first forecast at %s is before the history's begin at %s, or not on its grid of %v",
				h.zero.Add(r.From).Format(time.RFC3339), h.zero.Add(h.start).Format(time.RFC3339), h.bin)
	case r.To > h.edge(h.bins()):
		return r, fmt.Errorf("arrivals: what came until %s is not known: the history ends at %s",
			h.zero.Add(r.To).Format(time.RFC3339), h.zero.Add(h.end).Format(time.RFC3339))
	case r.From+horizon > r.To:
		return r, fmt.Errorf("arrivals: no horizon of %v fits between %s and %s",
			horizon, h.zero.Add(r.From).Format(time.RFC3339), h.zero.Add(r.To).Format(time.RFC3339))
	}
	return r, nil
}

// Evaluate forecasts again and again, each time from the knowledge then, and
// scores the futures against the arrivals: their jobs, and their batches.
func Evaluate(ctx context.Context, h *History, f *Forecaster, r Rolling) (jobs, batches *Score, err error) {
	if r, err = r.check(h, f.horizon); err != nil {
		return nil, nil, err
	}
	ofJobs, ofBatches := newTally(h, CountJobs, h.arrived), newTally(h, CountBatches, h.began)
	horizon := int(f.horizon / h.bin)
	steps := int((r.To-f.horizon-r.From)/r.Every) + 1
	for i := range steps {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		at := r.From + time.Duration(i)*r.Every
		known := h.Until(at)
		futures, err := f.Sample(ctx, known, r.Futures, r.Seed+uint64(i))
		if err != nil {
			return nil, nil, err
		}
		band := ofJobs.add(at, horizon, futures)
		ofBatches.add(at, horizon, futures)
		if r.Each != nil {
			r.Each(at, known, futures, band)
		}
		if r.Progress != nil {
			r.Progress(i+1, steps)
		}
	}
	return ofJobs.score(f.method.Name), ofBatches.score(f.method.Name), nil
}

// tally gathers the sums of a Score.
type tally struct {
	h     *History
	count string
	real  series

	sums           stats.Forecasts
	bins           int
	absBin         float64
	realBins       moments
	futureBins     []moments // by future
	days           []string
	rel            map[string]*moments
	totals, column []float64
}

func newTally(h *History, count string, total []int32) *tally {
	return &tally{h: h, count: count, real: h.series(total), rel: map[string]*moments{}}
}

// moments of a sample.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(v float64) { m.n++; m.sum += v; m.squares += v * v }
func (m *moments) mean() float64 { return m.sum / m.n }

// fano is the variance over the mean; 0 where there is nothing.
func (m *moments) fano() float64 {
	if m.sum == 0 {
		return 0
	}
	return m.squares/m.sum - m.mean()
}

// of is the count that is scored.
func (t *tally) of(f *Future) []int {
	if t.count == CountBatches {
		return f.Batches
	}
	return f.Jobs
}

func (t *tally) add(at time.Duration, horizon int, futures []Future) stats.Band {
	if t.futureBins == nil {
		t.futureBins = make([]moments, len(futures))
		t.totals, t.column = make([]float64, len(futures)), make([]float64, len(futures))
	}
	edge := int((at - t.h.start) / t.h.bin)
	came := float64(t.real.next(edge, horizon))
	for k := range futures {
		t.totals[k] = 0
		for _, v := range t.of(&futures[k]) {
			t.totals[k] += float64(v)
		}
	}
	band := t.sums.Add(t.totals, came)
	date := t.h.zero.Add(at).UTC().Format(time.DateOnly)
	if t.rel[date] == nil {
		t.rel[date] = &moments{}
		t.days = append(t.days, date)
	}
	t.rel[date].add(math.Abs(band.Median-came) / max(came, 1))
	t.bins += horizon
	for b := range horizon {
		v := float64(t.real.next(edge+b, 1))
		t.realBins.add(v)
		for k := range futures {
			t.column[k] = float64(t.of(&futures[k])[b])
			t.futureBins[k].add(t.column[k])
		}
		slices.Sort(t.column)
		t.absBin += math.Abs(stats.Quantile(t.column, 0.5) - v)
	}
	return band
}

// ScoreOf is the part of a score that follows from sums of forecasts, at least one.
func ScoreOf(f *stats.Forecasts) *Score {
	n := float64(f.N)
	s := &Score{Forecasts: f.N, Came: f.Came, MAE: f.AbsMedian / n, RMSE: math.Sqrt(f.Squares / n),
		Coverage80: float64(f.Inside+f.OnBound) / n, Coverage80Mid: (float64(f.Inside) + float64(f.OnBound)/2) / n}
	if f.Came > 0 {
		s.WAPE, s.WAPEMean = f.AbsMedian/f.Came, f.AbsMean/f.Came
		s.Bias, s.BiasMedian = f.Mean/f.Came, f.Median/f.Came
	}
	return s
}

func (t *tally) score(method string) *Score {
	s := ScoreOf(&t.sums)
	s.Method, s.Count, s.MAEPerBin = method, t.count, t.absBin/float64(t.bins)
	s.RelByDay = make(map[string]float64, len(t.days))
	if f := t.realBins.fano(); f > 0 {
		for k := range t.futureBins {
			s.Burstiness += t.futureBins[k].fano() / f / float64(len(t.futureBins))
		}
	}
	var byDay []float64
	for _, d := range t.days {
		v := t.rel[d].mean()
		s.RelByDay[d] = v
		byDay = append(byDay, v)
	}
	slices.Sort(byDay)
	s.RelMin, s.RelMed, s.RelMax = byDay[0], stats.Quantile(byDay, 0.5), byDay[len(byDay)-1]
	return s
}
