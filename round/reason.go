package round

import (
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/search"
)

// whyNone explains why no candidate may replace the incumbent.
func (r *Round) whyNone(out *Result, raced bool) string {
	top := r.lowest(out.Trials, -1)
	switch {
	case top == nil && anyInfeasible(out.Trials):
		return noneFeasible(slices.DeleteFunc(slices.Clone(out.Trials),
			func(t search.Trial) bool { return r.refuses(t.Config) || !t.OK() }))
	case top == nil:
		return "no candidate could be measured"
	case !r.satisfies(top):
		return fmt.Sprintf("the best on average (%s) may break a constraint%s", top.Origin, tightest(top))
	case raced && breaks(&out.Incumbent):
		return fmt.Sprintf("the best (%s) does not keep to the constraints on held-out futures", top.Origin)
	case raced:
		return fmt.Sprintf("the best (%s) is not better on held-out futures", top.Origin)
	case out.Incumbent.OK() && top.Measurement.Mean() >= out.Incumbent.Measurement.Mean():
		return noneBetter(out)
	}
	return fmt.Sprintf("the best on average (%s) is not better in enough futures", top.Origin)
}

func anyInfeasible(trials []search.Trial) bool {
	return slices.ContainsFunc(trials, func(t search.Trial) bool { return t.OK() && !t.Measurement.Feasible() })
}

func noneBetter(out *Result) string {
	text := fmt.Sprintf("none of %d configurations is better than the one in force", len(out.Trials))
	if anyInfeasible(out.Trials) {
		text += " and keeps to the constraints"
	}
	return text
}

// noneFeasible says that no trial satisfies the constraints, and which comes closest.
func noneFeasible(trials []search.Trial) string {
	var nearest *search.Trial
	for i := range trials {
		if t := &trials[i]; t.OK() && (nearest == nil ||
			t.Measurement.Worst().Excess() < nearest.Measurement.Worst().Excess()) {
			nearest = t
		}
	}
	if nearest == nil {
		return "no candidate could be measured"
	}
	return fmt.Sprintf("none of %d configurations keeps to the constraints, "+
		"so the one in force stays; the nearest (%s) %s",
		len(trials), nearest.Origin, describeLimit(nearest.Measurement.Worst()))
}

// describeLimit says by how much a limit is kept or broken.
func describeLimit(l *search.Limit) string {
	of := l.Name
	if l.Of != "" {
		of += " of " + l.Of
	}
	switch x := l.Excess(); {
	case x >= 10:
		return "breaks " + of + " by far"
	case x > 0:
		return fmt.Sprintf("is %.1f %% above %s", 100*x, of)
	default:
		text := fmt.Sprintf("keeps to %s with %.1f %% to spare", of, 100*math.Abs(x))
		if l.Paired {
			text += fmt.Sprintf(" and probability %.2f", l.Kept())
		}
		return text
	}
}

// tightest describes the limit with the least margin; "" if there is none.
func tightest(t *search.Trial) string {
	var l *search.Limit
	for i := range t.Measurement.Limits {
		x := &t.Measurement.Limits[i]
		if l == nil || x.Paired && !l.Paired ||
			x.Paired == l.Paired && (x.Kept() < l.Kept() || x.Kept() == l.Kept() && x.Excess() > l.Excess()) {
			l = x
		}
	}
	if l == nil {
		return ""
	}
	return "; it " + describeLimit(l)
}

// Factor formats a ratio of controllable parts. Above 1000 almost none is left, and the
// number has no meaning.
func Factor(r float64) string {
	if r > 1000 {
		return "more than 1000x"
	}
	return fmt.Sprintf("%.3fx", r)
}
