package arrivals

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
)

// PeriodicScore is how a copied periodic series compares with the periodic
// series itself: probably Periodic in the paper's Figure 8. It says
// little about real arrivals: the truth is smoothed, and the transform that
// smooths it has seen the future. Keep fewer frequencies and the error goes to
// nothing.
type PeriodicScore struct {
	// WAPE and the days' errors are against the periodic series; WAPEReal is
	// against the actual arrivals.
	WAPE     float64            `json:"wape_vs_periodic"`
	WAPEReal float64            `json:"wape_vs_real"`
	RelByDay map[string]float64 `json:"rel_error_by_day"`
	RelMin   float64            `json:"rel_error_day_min"`
	RelMed   float64            `json:"rel_error_day_median"`
	RelMax   float64            `json:"rel_error_day_max"`
}

// EvaluatePeriodic scores the paper's method, with a similarity of Metrics, on
// the periodic series of all that came until the evaluation's end.
func EvaluatePeriodic(ctx context.Context, h *History, metric string, r Rolling) (*PeriodicScore, error) {
	r, err := r.check(h, time.Hour)
	if err != nil {
		return nil, err
	}
	all := h.Until(r.To)
	p := paper{perHour: h.perHour(), metric: metric}
	m := p.perHour
	values, from := p.series(all)
	sum := func(edge int) (s float64) {
		for _, v := range values[edge : edge+m] {
			s += v
		}
		return s
	}
	s := &PeriodicScore{RelByDay: map[string]float64{}}
	var off, offReal, truth, real float64
	days := map[string]*moments{}
	var order []string
	steps := int((r.To-time.Hour-r.From)/r.Every) + 1
	for i := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := r.From + time.Duration(i)*r.Every
		edge := int((at-h.start)/h.bin) - from
		if edge < 0 {
			continue // of the first day, cut off so that whole days are left
		}
		var guess float64
		if place, ok := match(values[:edge], m, m, metric); ok {
			guess = sum(place)
		}
		want := sum(edge)
		came := float64(all.series(all.arrived).next(edge+from, m))
		truth += want
		real += came
		off += math.Abs(guess - want)
		offReal += math.Abs(guess - came)
		date := h.zero.Add(at).UTC().Format(time.DateOnly)
		if days[date] == nil {
			days[date] = &moments{}
			order = append(order, date)
		}
		days[date].add(math.Abs(guess-want) / max(want, 1))
		if r.Progress != nil {
			r.Progress(i+1, steps)
		}
	}
	if truth > 0 {
		s.WAPE = off / truth
	}
	if real > 0 {
		s.WAPEReal = offReal / real
	}
	var byDay []float64
	for _, d := range order {
		v := days[d].mean()
		s.RelByDay[d] = v
		byDay = append(byDay, v)
	}
	if len(byDay) > 0 {
		slices.Sort(byDay)
		s.RelMin, s.RelMed, s.RelMax = byDay[0], stats.Quantile(byDay, 0.5), byDay[len(byDay)-1]
	}
	return s, nil
}
