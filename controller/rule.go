package controller

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// better are the trials that may replace the incumbent: better in every future
// that was searched on, or all that can be run if Always is set.
func (r *Round) better(out *RoundResult) []search.Trial {
	var found []search.Trial
	for _, t := range out.Trials {
		if t.OK() && !r.refuses(t.Config) && (r.Always || search.Gain(t, out.Incumbent).BetterInEvery) {
			found = append(found, t)
		}
	}
	return found
}

// lowest of trials that can be run, but the one that the search expects to be
// best if it is there (its step, or -1). It is nil if there is none.
func (r *Round) lowest(trials []search.Trial, expected int) *search.Trial {
	var best *search.Trial
	for i := range trials {
		t := &trials[i]
		switch {
		case !t.OK() || r.refuses(t.Config):
		case best == nil || t.Step == expected || best.Step != expected && t.Measurement.Mean() < best.Measurement.Mean():
			best = t
		}
	}
	return best
}

// choose applies the adoption rule of DESIGN section 8: of the candidates that
// are better than the incumbent in every future, the best replaces it if the
// ratio on the controllable part is at least MinRatio. Agreement in every future
// and a bar on the part that a configuration can change at all are what keeps a
// search on few futures from chasing noise. Those that agreed are given, after a
// race those that were better in it too.
func (r *Round) choose(out *RoundResult, agreed []search.Trial, raced bool, expected int) {
	top, best := r.lowest(out.Trials, -1), r.lowest(agreed, expected)
	out.Best = out.Incumbent
	none := fmt.Sprintf("none of %d configurations is better than the one in force", len(out.Trials))
	switch {
	case top == nil:
		out.Reason = "no candidate could be measured"
		return
	case best != nil:
	case raced:
		out.Reason = fmt.Sprintf("the best (%s) is not better on futures it was not chosen on", top.Origin)
		return
	case out.Incumbent.OK() && top.Measurement.Mean() >= out.Incumbent.Measurement.Mean():
		out.Reason = none
		return
	default:
		out.Reason = fmt.Sprintf("the best on average (%s) is not better in every future", top.Origin)
		return
	}
	t := *best
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
