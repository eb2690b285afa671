package arrivals

import (
	"context"
	"math"
	"slices"
)

// track follows one count through history and forecasts it at every origin from
// the knowledge then: a rolling back-test whose end is the present.
//
// Origins lie step bins apart, from the second day on. The model of a day has
// learned the outcomes known when the day began.
type track struct {
	model    levelModel
	features int
	horizon  int // bins
	step     int
	perDay   int

	x       []float64 // of the origins, featureCount each
	levels  []float64 // forecast at the origins; NaN on the first two days
	learned int       // origins whose outcome the model knows
	day     int       // the day the model is fitted for
	highest float64   // largest logarithm seen
	row     []float64
}

func newTrack(model levelModel, perHour, horizon int) *track {
	n := featureCount(perHour)
	return &track{model: model, features: n, horizon: horizon, step: max(1, (perHour+2)/4), perDay: 24 * perHour,
		row: make([]float64, n)}
}

// origin is the edge of the i-th origin.
func (t *track) origin(i int) int { return t.perDay + i*t.step }

// advance forecasts at all origins up to the series' end.
func (t *track) advance(ctx context.Context, s series) error {
	bins := len(s.total) - 1
	for i := len(t.levels); t.origin(i) <= bins; i++ {
		at := t.origin(i)
		if err := t.reach(ctx, s, at); err != nil {
			return err
		}
		n := len(t.x)
		t.x = slices.Grow(t.x, t.features)[:n+t.features]
		s.features(t.x[n:], at)
		v := math.NaN()
		if t.day >= 2 {
			v = t.bound(t.model.foresee(t.x[n:], at))
		}
		t.levels = append(t.levels, v)
	}
	return t.reach(ctx, s, bins)
}

// reach fits the model of the day that an edge is in.
func (t *track) reach(ctx context.Context, s series, at int) error {
	for ; t.day < at/t.perDay; t.day++ {
		dawn := (t.day + 1) * t.perDay
		for ; t.learned < len(t.levels) && t.origin(t.learned)+t.horizon <= dawn; t.learned++ {
			o := t.origin(t.learned)
			y := log1p(float64(s.next(o, t.horizon)))
			t.highest = max(t.highest, y)
			t.model.learn(t.x[t.learned*t.features:(t.learned+1)*t.features], o, y)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.model.refit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bound keeps a forecast in reach of the past.
func (t *track) bound(v float64) float64 { return min(max(v, 0), t.highest+1) }

// at forecasts from edge t of the series; ok is false on the first two days.
func (t *track) at(s series, edge int) (v float64, ok bool) {
	if t.day < 2 {
		return 0, false
	}
	if i := edge - t.perDay; i%t.step == 0 && i/t.step < len(t.levels) {
		v = t.levels[i/t.step]
		return v, !math.IsNaN(v)
	}
	s.features(t.row, edge)
	return t.bound(t.model.level(t.row)), true
}
