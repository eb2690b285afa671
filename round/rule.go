package round

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// agreement is the share of the futures searched on in which a candidate must be
// better than the incumbent to race. All is too much to ask of futures that differ
// as much as the future may: it turned down two of three candidates that were best on
// average, and on 9-12 October of the Philly trace the average JCT was 1 to 3 % longer.
// None at all was worse still. What races has to win on futures that nothing was
// chosen on.
const agreement = .75

// better are the trials that may replace the incumbent, of those that keep to the
// constraints, if there are any. If they are to race on fresh futures, three of
// four of the futures searched on are enough (agreement), with a gain of at least
// MinRatio. Without a race all futures must agree. All that can be run may replace
// it if Always is set or the incumbent breaks a constraint.
func (r *Round) better(out *Result, racing bool) []search.Trial {
	g := r.goal()
	anything := r.Always || breaks(&out.Incumbent)
	var found []search.Trial
	for _, t := range out.Trials {
		if !t.OK() || r.refuses(t.Config) || !r.keeps(&t) {
			continue
		}
		gain, rank := g.gain(t, out.Incumbent, r.MinRatio)
		if anything || gain.BetterInEvery || racing && rank == 0 && gain.Ratio >= r.MinRatio && agrees(&t, &out.Incumbent) {
			found = append(found, t)
		}
	}
	return found
}

// agrees reports whether a trial is better than another in so many futures as
// agreement asks for.
func agrees(t, than *search.Trial) bool {
	n := 0
	for i, v := range t.Measurement.Values {
		if i < len(than.Measurement.Values) && v < than.Measurement.Values[i] {
			n++
		}
	}
	return float64(n) >= agreement*float64(len(t.Measurement.Values))
}

// lowest of trials that can be run and keep to the constraints, but the one that
// the search expects to be best if it is there (its step, or -1). It is nil if
// there is none.
func (r *Round) lowest(trials []search.Trial, expected int) *search.Trial {
	g := r.goal()
	if len(g.Then) > 0 {
		expected = -1 // of the first metric
	}
	var can []search.Trial
	for i := range trials {
		if t := &trials[i]; t.OK() && !r.refuses(t.Config) && t.Measurement.Feasible() {
			can = append(can, *t)
		}
	}
	can = g.first(can)
	last := len(g.Then)
	var best *search.Trial
	for i := range can {
		t := &can[i]
		if best == nil || t.Step == expected || best.Step != expected && g.ranked(*t, last).Measurement.Mean() < g.ranked(*best, last).Measurement.Mean() {
			best = t
		}
	}
	return best
}

// choose applies the adoption rule of DESIGN section 8: of the candidates that
// agree, the best replaces the incumbent if the ratio on the controllable part is
// at least MinRatio. Agreement of the futures
// and a bar on the part that a configuration can change at all are what keeps a
// search on few futures from chasing noise. Those that agreed are given, after a
// race those that were better in it too. An incumbent that breaks a constraint is
// replaced by the best that keeps to all, whatever that gains.
func (r *Round) choose(out *Result, agreed []search.Trial, raced bool, expected int) {
	g := r.goal()
	top, best := r.lowest(out.Trials, -1), r.lowest(agreed, expected)
	out.Best = out.Incumbent
	none := fmt.Sprintf("none of %d configurations is better than the one in force", len(out.Trials))
	if slices.ContainsFunc(out.Trials, func(t search.Trial) bool { return t.OK() && !t.Measurement.Feasible() }) {
		none += " and keeps to the constraints"
	}
	broken := breaks(&out.Incumbent)
	switch {
	case top == nil && slices.ContainsFunc(out.Trials, func(t search.Trial) bool { return t.OK() && !t.Measurement.Feasible() }):
		out.Reason = noneKeeps(slices.DeleteFunc(slices.Clone(out.Trials), func(t search.Trial) bool { return r.refuses(t.Config) || !t.OK() }))
		return
	case top == nil:
		out.Reason = "no candidate could be measured"
		return
	case best != nil:
	case !r.keeps(top):
		out.Reason = fmt.Sprintf("the best on average (%s) may break a constraint%s", top.Origin, closest(top))
		return
	case raced && broken:
		out.Reason = fmt.Sprintf("the best (%s) does not keep to the constraints on futures it was not chosen on", top.Origin)
		return
	case raced:
		out.Reason = fmt.Sprintf("the best (%s) is not better on futures it was not chosen on", top.Origin)
		return
	case out.Incumbent.OK() && top.Measurement.Mean() >= out.Incumbent.Measurement.Mean():
		out.Reason = none
		return
	default:
		out.Reason = fmt.Sprintf("the best on average (%s) is not better in enough futures", top.Origin)
		return
	}
	t := *best
	gain, rank := g.gain(t, out.Incumbent, r.MinRatio)
	out.Ratio = gain.Ratio
	was, now := g.ranked(out.Incumbent, rank).Measurement, g.ranked(t, rank).Measurement
	if out.Incumbent.OK() {
		out.Interval = interval(was, now)
	}
	name := g.name(rank, r.Objective)
	change := fmt.Sprintf("%s %s -> %s", name, Figure(name, was.Mean()), Figure(name, now.Mean()))
	switch {
	case t.Config.Equal(r.Incumbent):
		out.Reason = none
	case broken:
		out.Config, out.Best, out.Adopt = t.Config, t, true
		out.Reason = fmt.Sprintf("the one in force %s; %s keeps to all constraints (%s)%s", told(out.Incumbent.Measurement.Worst()), t.Origin, change, closest(&t))
	case !r.Always && !(out.Ratio >= r.MinRatio):
		out.Reason = fmt.Sprintf("%s would gain %.3fx on the controllable part, less than %.3fx", t.Origin, out.Ratio, r.MinRatio)
	case !out.Incumbent.OK():
		out.Config, out.Best, out.Adopt = t.Config, t, true
		out.Reason = fmt.Sprintf("%s ends (%s %s), the one in force does not", t.Origin, name, Figure(name, now.Mean()))
	default:
		out.Config, out.Best, out.Adopt = t.Config, t, true
		out.Reason = fmt.Sprintf("%s gains %s on the controllable part (%s)%s", t.Origin, Factor(out.Ratio), change, closest(&t))
	}
}

// Factor writes a ratio on the controllable part for people: where next to nothing
// of it is left, how often it fits tells nothing.
func Factor(r float64) string {
	if r > 1000 {
		return "more than 1000x"
	}
	return fmt.Sprintf("%.3fx", r)
}

func (r *Round) refuses(c space.Config) bool { return slices.ContainsFunc(r.Refused, c.Equal) }
