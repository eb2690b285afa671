package round

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// agreement is the share of the scenarios searched on in which a candidate must be
// better than the incumbent to enter the race (docs/search.md#adoption).
const agreement = .75

// adopt applies the adoption rule: of the candidates that are better than the
// incumbent (Round.better, Round.race), the best replaces it if the ratio of the
// controllable parts is at least MinRatio. Agreement of the scenarios, held-out
// futures and a bar on what a configuration can change at all keep a search on few
// futures from adopting noise. An incumbent that breaks a constraint is replaced by
// the best that satisfies all, whatever it gains. expected is the step of the trial that
// the search expects to be best, or -1.
func (r *Round) adopt(out *Result, better []search.Trial, raced bool, expected int) {
	out.Best = out.Incumbent
	best := r.lowest(better, expected)
	if best == nil {
		out.Reason = r.whyNone(out, raced)
		return
	}
	t, broken := *best, breaks(&out.Incumbent)
	gain, rank := r.Goal.gain(t, out.Incumbent, r.MinRatio)
	out.Ratio = gain.Ratio
	was, now := r.Goal.ranked(out.Incumbent, rank).Measurement, r.Goal.ranked(t, rank).Measurement
	if out.Incumbent.OK() {
		out.Interval = interval(was, now)
	}
	source := r.source(t.Origin)
	change := r.change(rank, was.Mean(), now.Mean(), gain.Ratio, &was, &now)
	switch {
	case t.Config.Equal(r.Incumbent):
		out.Reason = noneBetter(out)
		return
	case broken:
		out.Reason = fmt.Sprintf("The one in force %s; this one (%s) keeps to all constraints%s. Expected %s.",
			describeLimit(out.Incumbent.Measurement.Worst()), source, tightest(&t), change)
	case !r.Always && !(out.Ratio >= r.MinRatio):
		out.Reason = fmt.Sprintf("The best (%s): expected %s. A change has to gain %.1f %% of what settings can "+
			"influence.", source, change, 100*(1-1/r.MinRatio))
		return
	case !out.Incumbent.OK():
		out.Reason = r.ends(rank, source, now.Mean())
	default:
		out.Reason = fmt.Sprintf("Expected %s (%s)%s.", change, source, tightest(&t))
	}
	out.Config, out.Best, out.Adopt = t.Config, t, true
}

// ends says that a configuration finishes the futures, and the incumbent does not.
func (r *Round) ends(rank int, source string, after float64) string {
	return fmt.Sprintf("The one in force does not end the simulated work; this one (%s) does, with %s %s.", source,
		Label(r.Goal.name(rank)), r.Goal.value(rank, after))
}

// better returns the trials that may replace the incumbent: those that satisfy the
// constraints and are better in every scenario. If they are to race on held-out
// futures, it is enough to be better in a share of agreement of the scenarios with a
// gain of MinRatio. With Always, or if the incumbent breaks a constraint, every trial
// that satisfies the constraints is returned.
func (r *Round) better(out *Result, racing bool) []search.Trial {
	anyFeasible := r.Always || breaks(&out.Incumbent)
	var found []search.Trial
	for _, t := range out.Trials {
		if !t.OK() || t.Measurement.Measured > 0 || r.refuses(t.Config) || !r.satisfies(&t) {
			continue
		}
		gain, rank := r.Goal.gain(t, out.Incumbent, r.MinRatio)
		if anyFeasible || gain.BetterInEvery || racing && rank == 0 && gain.Ratio >= r.MinRatio &&
			agrees(&t, &out.Incumbent) {
			found = append(found, t)
		}
	}
	return found
}

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

// lowest returns the feasible trial with the lowest objective that the scheduler has
// not refused, or the one at step expected if it is among them; nil if there is none.
func (r *Round) lowest(trials []search.Trial, expected int) *search.Trial {
	if len(r.Goal.Then) > 0 {
		expected = -1 // it is expected to be best by the first metric only
	}
	var can []search.Trial
	for i := range trials {
		if t := &trials[i]; t.OK() && t.Measurement.Measured == 0 && !r.refuses(t.Config) &&
			t.Measurement.Feasible() {
			can = append(can, *t)
		}
	}
	can = r.Goal.first(can)
	value := func(t *search.Trial) float64 { return r.Goal.ranked(*t, len(r.Goal.Then)).Measurement.Mean() }
	var best *search.Trial
	for i := range can {
		t := &can[i]
		if best == nil || t.Step == expected || best.Step != expected && value(t) < value(best) {
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
