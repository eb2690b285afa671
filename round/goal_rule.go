package round

import (
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/search"
)

// likely is how probable it must be, as far as the futures tell, that a
// configuration that is adopted keeps to each constraint that is relative to the
// incumbent. On four futures that is a margin of one standard error. Constraints
// that are numbers must be kept in the mean over the futures.
const likely = .8

// goal of the round; its text was checked when the scorer was made.
func (r *Round) goal() *Goal {
	g, err := ParseGoal(r.Objective)
	if err != nil {
		return &Goal{}
	}
	return &g
}

// keeps reports whether a trial keeps to the constraints: on average, and
// unless Always is set, likely enough.
func (r *Round) keeps(t *search.Trial) bool {
	return t.Measurement.Feasible() && (r.Always || t.Measurement.Kept() >= likely)
}

// breaks reports whether the incumbent is known to break a constraint. Whatever
// keeps to all is then better.
func breaks(incumbent *search.Trial) bool {
	return incumbent.OK() && !incumbent.Measurement.Feasible()
}

// ranked is a trial as seen by metric k of a goal's ranks: 0 is the objective.
func (g *Goal) ranked(t search.Trial, k int) search.Trial {
	if k == 0 || !t.OK() {
		return t
	}
	side, _ := t.Measurement.Metric(g.Then[k-1].Metric)
	t.Measurement.Values, t.Measurement.Floors = side.Values, side.Floors
	return t
}

// name of rank k.
func (g *Goal) name(k int, objective string) string {
	switch {
	case k > 0:
		return g.Then[k-1].Metric
	case len(g.Terms) == 1:
		return g.Terms[0].Metric
	}
	return objective
}

// gain compares a candidate with the incumbent: by the first metric in which it
// is better in every future by enough, if in those before it it is no worse than
// makes no difference; otherwise by the first in which it is better at all.
func (g *Goal) gain(t, incumbent search.Trial, enough float64) (gain search.Improvement, rank int) {
	found := false
	for k := range len(g.Then) + 1 {
		a, b := g.ranked(t, k), g.ranked(incumbent, k)
		x := search.Gain(a, b)
		if x.BetterInEvery && x.Ratio >= enough {
			return x, k
		}
		if k == 0 || !found && x.BetterInEvery {
			gain, rank, found = x, k, x.BetterInEvery
		}
		if k == len(g.Then) || !b.OK() || a.Measurement.Mean() > (1+g.Then[k].Within)*b.Measurement.Mean() {
			break
		}
	}
	return gain, rank
}

// betterOnAverage compares measurements on the same futures.
func (g *Goal) betterOnAverage(a, b *search.Measurement) bool {
	x, y := search.Trial{Measurement: *a}, search.Trial{Measurement: *b}
	for k := range len(g.Then) + 1 {
		p, q := g.ranked(x, k).Measurement.Mean(), g.ranked(y, k).Measurement.Mean()
		if k == len(g.Then) || p < q/(1+g.Then[k].Within) || p > q*(1+g.Then[k].Within) {
			return p < q
		}
	}
	return false
}

// first keeps those of the trials that are best in all ranks but the last, up to
// what makes no difference.
func (g *Goal) first(trials []search.Trial) []search.Trial {
	kept := slices.Clone(trials)
	for k := range g.Then {
		low := -1.0
		for i := range kept {
			if m := g.ranked(kept[i], k).Measurement.Mean(); low < 0 || m < low {
				low = m
			}
		}
		kept = slices.DeleteFunc(kept, func(t search.Trial) bool {
			return g.ranked(t, k).Measurement.Mean() > (1+g.Then[k].Within)*low
		})
	}
	return kept
}

// noneKeeps says that nothing keeps to the constraints, and what comes closest.
func noneKeeps(trials []search.Trial) string {
	var nearest *search.Trial
	for i := range trials {
		if t := &trials[i]; t.OK() && (nearest == nil || t.Measurement.Worst().Excess() < nearest.Measurement.Worst().Excess()) {
			nearest = t
		}
	}
	if nearest == nil {
		return "no candidate could be measured"
	}
	return fmt.Sprintf("none of %d configurations keeps to the constraints, so the one in force stays; the nearest (%s) %s", len(trials), nearest.Origin, told(nearest.Measurement.Worst()))
}

// told says how a limit is kept.
func told(l *search.Limit) string {
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

// closest says how the limit that is nearest to being broken is kept; "" if there
// is none.
func closest(t *search.Trial) string {
	var l *search.Limit
	for i := range t.Measurement.Limits {
		x := &t.Measurement.Limits[i]
		if l == nil || x.Paired && !l.Paired || x.Paired == l.Paired && (x.Kept() < l.Kept() || x.Kept() == l.Kept() && x.Excess() > l.Excess()) {
			l = x
		}
	}
	if l == nil {
		return ""
	}
	return "; it " + told(l)
}
