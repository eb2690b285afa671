package round

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// choose adopts the best trial that keeps the constraints, if its ratio to the configuration in force is large enough:
// the rule of a single round. A configuration in force that breaks a constraint is replaced by the best that keeps all,
// whatever it gains.
func (r *Round) choose(out *Result) {
	out.Best = out.Incumbent
	best := r.lowest(slices.DeleteFunc(slices.Clone(out.Trials), func(t search.Trial) bool { return !r.can(&t) }))
	if best == nil {
		out.Reason = r.whyNone(out)
		return
	}
	t, broken := *best, breaks(&out.Incumbent)
	gain, rank := r.Goal.gain(t, out.Incumbent, r.ratio())
	out.Ratio = gain.Ratio
	was, now := r.Goal.ranked(out.Incumbent, rank).Measurement, r.Goal.ranked(t, rank).Measurement
	if out.Incumbent.OK() {
		out.Interval = interval(was, now)
	}
	source := r.source(t.Origin)
	change := r.change(rank, was.Mean(), now.Mean(), gain.Ratio, &was, &now)
	switch {
	case t.Config.Equal(r.Incumbent):
		out.Reason = r.whyNone(out)
		return
	case broken:
		out.Reason = fmt.Sprintf("The one in force %s; this one (%s) keeps to all constraints%s. Expected %s.",
			describeLimit(out.Incumbent.Measurement.Worst()), source, tightest(&t), change)
	case !r.Always && !(gain.Ratio > 1 && gain.Ratio >= r.ratio()):
		out.Reason = fmt.Sprintf("The best (%s): expected %s. A change has to gain %.1f %% of what settings can "+
			"influence.", source, change, 100*(1-1/r.ratio()))
		return
	case !out.Incumbent.OK():
		out.Reason = r.ends(rank, source, now.Mean())
	default:
		out.Reason = fmt.Sprintf("Expected %s (%s)%s.", change, source, tightest(&t))
	}
	out.Config, out.Best, out.Adopt = t.Config, t, true
}

// ratio is the least controllable ratio with which choose adopts a configuration.
func (r *Round) ratio() float64 {
	if r.Rule == RulePaper {
		return paperRatio
	}
	return 1
}

// ends says that a configuration finishes the futures, and the incumbent does not.
func (r *Round) ends(rank int, source string, after float64) string {
	return fmt.Sprintf("The one in force does not end the simulated work; this one (%s) does, with %s %s.", source,
		Label(r.Goal.name(rank)), r.Goal.value(rank, after, units.Duration))
}

// can reports whether a trial may be adopted: it was measured on all scenarios, keeps the constraints and is not
// refused.
func (r *Round) can(t *search.Trial) bool {
	return t.OK() && t.Measurement.Measured == 0 && !r.refuses(t.Config) && r.satisfies(t)
}

// lowest returns the trial with the lowest objective, nil of none.
func (r *Round) lowest(trials []search.Trial) *search.Trial {
	can := r.Goal.first(trials)
	value := func(t *search.Trial) float64 { return r.Goal.ranked(*t, len(r.Goal.Then)).Measurement.Mean() }
	var best *search.Trial
	for i := range can {
		if t := &can[i]; best == nil || value(t) < value(best) {
			best = t
		}
	}
	return best
}

func (r *Round) refuses(c space.Config) bool { return slices.ContainsFunc(r.Refused, c.Equal) }

// minFeasibleProb is the least probability, estimated from the scenarios, with which an
// adopted configuration satisfies each constraint relative to the incumbent. On four
// futures that is a margin of one standard error. Absolute constraints must hold in the
// mean.
const minFeasibleProb = .8

// satisfies reports whether a trial satisfies the constraints: on average and, unless
// Always is set, with probability minFeasibleProb.
func (r *Round) satisfies(t *search.Trial) bool {
	return t.Measurement.Feasible() && (r.Always || t.Measurement.Kept() >= minFeasibleProb)
}

// breaks reports whether the incumbent is known to break a constraint.
func breaks(incumbent *search.Trial) bool {
	return incumbent.OK() && !incumbent.Measurement.Feasible()
}

// agreement is the share of the replays in which the last good configuration must be better for Judge to go back.
const agreement = .75

// agrees reports whether a trial is better than another in a share of agreement of
// the scenarios.
func agrees(t, than *search.Trial) bool {
	n := 0
	for i, v := range t.Measurement.Values {
		if i < len(than.Measurement.Values) && v < than.Measurement.Values[i] {
			n++
		}
	}
	return float64(n) >= agreement*float64(len(t.Measurement.Values))
}
