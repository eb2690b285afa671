package controller

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// choose applies the adoption rule of DESIGN section 8: of the candidates that
// are better than the incumbent in every future, the best replaces it if the
// ratio on the controllable part is at least MinRatio. Agreement in every future
// and a bar on the part that a configuration can change at all are what keeps a
// search on few futures from chasing noise. The best is the one that the search
// expects to be (its index, or -1), if it is one of them, or else the lowest on
// average. The field is the trials to choose from, by step as in out.Trials.
func (r *Round) choose(out *RoundResult, field []search.Trial, expected int) {
	best := -1
	top := -1 // whatever the futures say
	for i := range field {
		t := &field[i]
		if !t.OK() || r.refuses(t.Config) {
			continue
		}
		if top < 0 || t.Measurement.Mean() < field[top].Measurement.Mean() {
			top = i
		}
		if !r.Always && !search.Gain(*t, out.Incumbent).BetterInEvery {
			continue
		}
		if best < 0 || t.Step == expected || field[best].Step != expected && t.Measurement.Mean() < field[best].Measurement.Mean() {
			best = i
		}
	}
	out.Best = out.Incumbent
	none := fmt.Sprintf("none of %d configurations is better than the one in force", len(out.Trials))
	switch {
	case top < 0:
		out.Reason = "no candidate could be measured"
		return
	case best >= 0:
	case out.Incumbent.OK() && field[top].Measurement.Mean() >= out.Incumbent.Measurement.Mean():
		out.Reason = none
		return
	default:
		out.Reason = fmt.Sprintf("the best on average (%s) is not better in every future", field[top].Origin)
		return
	}
	t := field[best]
	out.Ratio = search.Gain(t, out.Incumbent).Ratio
	out.Interval = interval(out.Incumbent.Measurement, t.Measurement)
	switch {
	case t.Config.Equal(r.Incumbent):
		out.Reason = none
	case !r.Always && !(out.Ratio >= r.MinRatio):
		out.Reason = fmt.Sprintf("%s would gain %.3fx on the controllable part, less than %.3fx", t.Origin, out.Ratio, r.MinRatio)
	case !out.Incumbent.OK():
		out.Config, out.Best, out.Adopt = t.Config, t, true
		out.Reason = fmt.Sprintf("%s ends (%s %.0f s), the one in force does not", t.Origin, r.Objective, t.Measurement.Mean())
	default:
		out.Config, out.Best, out.Adopt = t.Config, t, true
		out.Reason = fmt.Sprintf("%s gains %s on the controllable part (%s %s -> %s)", t.Origin, factor(out.Ratio), r.Objective,
			Figure(r.Objective, out.Incumbent.Measurement.Mean()), Figure(r.Objective, t.Measurement.Mean()))
	}
}

func factor(r float64) string {
	if r > 1000 {
		return "more than 1000x"
	}
	return fmt.Sprintf("%.3fx", r)
}

func (r *Round) refuses(c space.Config) bool { return slices.ContainsFunc(r.Refused, c.Equal) }
