package arrivals

import (
	"math"
	"testing"
	"time"
)

// TestScore by hand: two forecasts of two bins, five futures each.
func TestScore(t *testing.T) {
	//                                 |----- forecast -----|
	h, err := FromCounts(time.Time{}, []int{0, 0, 2, 4, 0, 0}, 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	tl := newTally(h, CountJobs, h.arrived)
	futures := func(bins ...[2]int) (out []Future) {
		for _, b := range bins {
			out = append(out, Future{Jobs: []int{b[0], b[1]}})
		}
		return out
	}
	// 6 came; totals 2 4 5 6 13: median 5, mean 6, 10 % to 90 % are 2.8 to 10.2.
	tl.add(time.Hour, 2, futures([2]int{1, 1}, [2]int{4, 0}, [2]int{2, 3}, [2]int{3, 3}, [2]int{9, 4}))
	// 0 came; totals 1 1 1 1 1.
	tl.add(2*time.Hour, 2, futures([2]int{1, 0}, [2]int{1, 0}, [2]int{1, 0}, [2]int{1, 0}, [2]int{1, 0}))
	s := tl.score("m")
	for what, v := range map[string][2]float64{
		"wape": {s.WAPE, (1 + 1) / 6.0}, "wape of the mean": {s.WAPEMean, 1 / 6.0}, "bias": {s.Bias, 7 / 6.0},
		"bias of the median": {s.BiasMedian, 6 / 6.0},
		"mae":                {s.MAE, 1}, "rmse": {s.RMSE, 1}, "coverage": {s.Coverage80, 0.5},
		"half": {s.Coverage80Mid, 0.5},
		// Medians by bin: 3 and 3 where 2 and 4 came, 1 and 0 where nothing did.
		"mae per bin": {s.MAEPerBin, (1 + 1 + 1 + 0) / 4.0},
		"day":         {s.RelByDay["0001-01-01"], (1/6.0 + 1) / 2}, "median day": {s.RelMed, (1/6.0 + 1) / 2},
		"burstiness": {s.Burstiness, func() (sum float64) {
			fano := func(v ...float64) float64 {
				var n, s, q float64
				for _, x := range v {
					n, s, q = n+1, s+x, q+x*x
				}
				return q/s - s/n
			}
			for _, f := range [][]float64{{1, 1, 1, 0}, {4, 0, 1, 0}, {2, 3, 1, 0}, {3, 3, 1, 0}, {9, 4, 1, 0}} {
				sum += fano(f...) / fano(2, 4, 0, 0) / 5
			}
			return sum
		}()},
	} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%s: %g, want %g", what, v[0], v[1])
		}
	}
	if s.Method != "m" || s.Count != CountJobs || s.Forecasts != 2 {
		t.Errorf("%+v", s)
	}
}

func TestCoverageOfBounds(t *testing.T) {
	h, err := FromCounts(time.Time{}, []int{1, 3}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tl := newTally(h, CountJobs, h.arrived)
	tl.add(0, 1, []Future{{Jobs: []int{1}}, {Jobs: []int{1}}, {Jobs: []int{5}}})         // 1 is the bound
	tl.add(time.Hour, 1, []Future{{Jobs: []int{1}}, {Jobs: []int{2}}, {Jobs: []int{9}}}) // 3 is inside
	if s := tl.score(""); s.Coverage80 != 1 || s.Coverage80Mid != 0.75 {
		t.Errorf("coverage %g, with bounds counted half %g", s.Coverage80, s.Coverage80Mid)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	h, err := FromCounts(time.Time{}, append([]int{1}, make([]int, 47)...), 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	f := forecaster(t, "repeat", time.Hour)
	for name, r := range map[string]Rolling{
		"before the history": {From: -time.Hour, To: 5 * time.Hour},
		"off the grid":       {From: time.Minute, To: 5 * time.Hour},
		"after its end":      {From: 0, To: 25 * time.Hour}, "too short": {From: 0, To: 30 * time.Minute},
		"every so often": {From: 0, To: 5 * time.Hour, Every: time.Minute},
		"no future":      {From: 0, To: 5 * time.Hour, Futures: -1},
	} {
		if _, _, err := Evaluate(t.Context(), h, f, r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	jobs, batches, err := Evaluate(t.Context(), h, f, Rolling{From: 0, To: 24 * time.Hour})
	if err != nil || batches.Forecasts != 24 || jobs.Forecasts != 24 || jobs.WAPE != 2 {
		t.Errorf("one job, forecast an hour later: %v, %+v, %+v", err, jobs, batches)
	}
}
