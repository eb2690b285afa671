package arrivals

import (
	"context"
	"errors"
	"math"
	"sync"
)

// Constants of the analogs, chosen on the public traces: between 100 and 300
// analogs and half-lives of 7 to 28 days WAPE moves by less than 0.01. Without a
// shift forecasts of a history of few days miss its growth; with a whole one their
// totals are too high.
const (
	analogs        = 200
	analogHalfLife = 14.0 // days
	// analogShift is by how much of the difference between the forecast now and
	// the one then an analog's outcome is corrected.
	analogShift = 0.5
	// fewAnalogs are not enough: then any place of the last day will do.
	fewAnalogs = 24
)

// analog draws from the arrivals at the instants of the past at which about as many
// jobs and batches were forecast as now.
type analog struct {
	perHour, horizon int
	model            func(features int) levelModel
	jobs, batches    *track
}

func levels(model func(features int) levelModel) func(perHour, horizon int) source {
	return func(perHour, horizon int) source { return &analog{perHour: perHour, horizon: horizon, model: model} }
}

func ridgeModel(features int) levelModel   { return ridgeLevel{newRidge(features)} }
func boostedModel(features int) levelModel { return &boosted{features: features} }
func stackedModel(features int) levelModel {
	return &stacked{members: [...]levelModel{ridgeModel(features), boostedModel(features)}, weights: []float64{.5, .5},
		errors: make([]float64, 4), open: map[int][]float64{}}
}

func (a *analog) learn(ctx context.Context, h *History) error {
	if a.jobs == nil {
		n := featureCount(a.perHour)
		a.jobs = newTrack(a.model(n), a.perHour, a.horizon)
		a.batches = newTrack(a.model(n), a.perHour, a.horizon)
	}
	var errs [2]error // the two know nothing of each other
	var wg sync.WaitGroup
	wg.Go(func() { errs[0] = a.jobs.advance(ctx, h.series(h.arrived)) })
	errs[1] = a.batches.advance(ctx, h.series(h.began))
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (a *analog) draws(h *History) ([]draw, error) {
	bins := h.bins()
	jobs, batches := h.series(h.arrived), h.series(h.began)
	level, ok := a.jobs.at(jobs, bins)
	levelB, _ := a.batches.at(batches, bins)
	best := nearest{k: analogs}
	known := 0
	for i := len(a.jobs.levels) - 1; i >= 0; i-- { // of equals the latest
		l := a.jobs.levels[i]
		if math.IsNaN(l) {
			break
		}
		if a.jobs.origin(i)+a.horizon > bins { // the arrivals are not known yet
			continue
		}
		known++
		best.offer(i, math.Abs(l-level)+math.Abs(a.batches.levels[i]-levelB))
	}
	if !ok || known < fewAnalogs {
		return a.anywhere(h), nil
	}
	draws := make([]draw, len(best.found))
	for n, f := range best.found {
		edge := a.jobs.origin(f.at)
		d := draw{edge: edge, scaled: true}
		d.weight = math.Exp2(-float64(bins-edge) / float64(24*a.perHour) / analogHalfLife)
		d.jobs = shifted(jobs.next(edge, a.horizon), level-a.jobs.levels[f.at])
		d.batches = shifted(batches.next(edge, a.horizon), levelB-a.batches.levels[f.at])
		draws[n] = d
	}
	return draws, nil
}

// shifted corrects an outcome for the difference between two forecasts.
func shifted(outcome int, difference float64) float64 {
	return math.Expm1(max(0, log1p(float64(outcome))+analogShift*difference))
}

// anywhere lists the places of the last day, for the first days of a history.
// One shorter than the horizon comes again and again.
func (a *analog) anywhere(h *History) []draw {
	bins := h.bins()
	if bins > 0 && bins < a.horizon {
		return []draw{{edge: 0, weight: 1, span: bins}}
	}
	var draws []draw
	for edge := bins - a.horizon; edge >= max(0, bins-a.horizon-24*a.perHour); edge -= a.jobs.step {
		draws = append(draws, draw{edge: edge, weight: 1})
	}
	return draws
}
