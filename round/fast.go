package round

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/autosched/autosched/search"
)

// The fast path is for a workload that changes within hours, which the history cannot know: a configuration is adopted
// between daily answers if it promises fastGain of the whole objective in fastRounds decisions in a row.
const (
	fastGain   = .1
	fastRounds = 3
)

// fast applies the fast path to the trials of a decision. promised counts the decisions in a row in which
// configurations promised enough, by hash. A configuration that a search found counts from the next decision
// on, which measures it on other futures. A guard that it breaks in the replays of the daily rule, or in the futures
// where there are none, refuses it. A configuration in force that breaks a constraint, or does not end, is replaced at
// once by the best that keeps all.
func (r *Round) fast(ctx context.Context, in *Input, seed uint64, out *Result, promised map[string]int) (
	now map[string]int, err error) {
	out.Best, now = out.Incumbent, map[string]int{}
	must := breaks(&out.Incumbent) || !out.Incumbent.OK()
	var can []search.Trial
	said := map[string]string{}
	for i := range out.Trials {
		t := &out.Trials[i]
		hash := t.Config.Hash()
		if !r.can(t) || t.Config.Equal(r.Incumbent) {
			continue
		}
		switch share := 1 - t.Measurement.Mean()/out.Incumbent.Measurement.Mean(); {
		case must:
			can = append(can, *t)
		case inPortfolio(t) && share >= fastGain:
			if now[hash] = promised[hash] + 1; now[hash] >= fastRounds {
				can = append(can, *t)
			}
			said[hash] = fmt.Sprintf("promises %.1f %%, in %d of %d decisions in a row", 100*share, now[hash],
				fastRounds)
		}
	}
	slices.SortStableFunc(can, func(a, b search.Trial) int {
		return cmp.Compare(a.Measurement.Mean(), b.Measurement.Mean())
	})
	refused := ""
	breaks := sync.OnceValues(func() (guard, error) { return r.guard(ctx, in, seed) })
	for i := range can {
		t := &can[i]
		if !must && r.Guard >= 0 {
			breaks, err := breaks()
			if err != nil {
				return now, err
			}
			worse, err := breaks(ctx, t.Config)
			if err != nil {
				return now, err
			}
			if len(worse) > 0 {
				said[t.Config.Hash()] = "guard: " + worse[0].String()
				was, now := &out.Incumbent.Measurement, &t.Measurement
				refused = cmp.Or(refused, fmt.Sprintf("Refused (%s): expected %s, but %s.", r.source(t.Origin),
					r.change(0, was.Mean(), now.Mean(), search.Gain(*t, out.Incumbent).Ratio, was, now), worse[0]))
				continue
			}
		}
		r.take(out, t, must)
		if err := r.simplify(ctx, out); err != nil {
			return now, err
		}
		break
	}
	if !out.Adopt {
		out.Reason = cmp.Or(refused, r.whyNot(out, said))
	}
	for i := range out.Candidates {
		t := &out.Trials[i]
		out.Candidates[i].Outcome = cmp.Or(r.place(out, t), said[t.Config.Hash()])
	}
	return now, nil
}

// guard returns the guards in the replays of the daily rule, or in the futures where the history has no stretch. The
// futures of a crowd guard the times that the crowd itself makes.
func (r *Round) guard(ctx context.Context, in *Input, seed uint64) (guard, error) {
	q := r.question(in, seed)
	if breaks, err := q.guard(ctx); !errors.Is(err, errNothing) {
		return breaks, err
	}
	g, err := r.guards(ctx, r.Guard, r.Scenarios, r.Horizon, r.Seed)
	if err != nil {
		return nil, err
	}
	return g.broken, nil
}

// take adopts a trial.
func (r *Round) take(out *Result, t *search.Trial, must bool) {
	out.Config, out.Best, out.Adopt = t.Config, *t, true
	was, now, source := &out.Incumbent.Measurement, &t.Measurement, r.source(t.Origin)
	switch {
	case !out.Incumbent.OK():
		out.Reason = r.ends(0, source, now.Mean())
		return
	case must:
		out.Reason = fmt.Sprintf("The one in force %s; this one (%s) keeps to all constraints%s.",
			describeLimit(was.Worst()), source, tightest(t))
	}
	out.Ratio, out.Interval = search.Gain(*t, out.Incumbent).Ratio, interval(*was, *now)
	if !must {
		out.Reason = fmt.Sprintf("Expected %s (%s)%s, as in the %d decisions before.",
			r.change(0, was.Mean(), now.Mean(), out.Ratio, was, now), source, tightest(t), fastRounds-1)
	}
}

// whyNot says why the fast path adopts nothing.
func (r *Round) whyNot(out *Result, said map[string]string) string {
	best := r.lowest(slices.DeleteFunc(slices.Clone(out.Trials), func(t search.Trial) bool { return !r.can(&t) }))
	if best == nil {
		return r.whyNone(out)
	}
	if best.Config.Equal(r.Incumbent) || best.Measurement.Mean() >= out.Incumbent.Measurement.Mean() {
		return noneBetter(out)
	}
	was, now := &out.Incumbent.Measurement, &best.Measurement
	out.Ratio = search.Gain(*best, out.Incumbent).Ratio
	out.Interval = interval(*was, *now)
	text := fmt.Sprintf("The best (%s): expected %s. ", r.source(best.Origin),
		r.change(0, was.Mean(), now.Mean(), out.Ratio, was, now))
	if what := said[best.Config.Hash()]; what != "" {
		return text + "It " + what + "."
	}
	return text + fmt.Sprintf("Between daily answers a change has to promise %.0f %% in %d decisions in a row.",
		100*fastGain, fastRounds)
}

// place says of a trial that it is adopted or in force, "" of others.
func (r *Round) place(out *Result, t *search.Trial) string {
	switch {
	case out.Adopt && t.Config.Equal(out.Config):
		return "adopted"
	case out.Adopt && out.Found.OK() && t.Config.Equal(out.Found.Config):
		return "adopted in its simplest form"
	case t.Config.Equal(r.Incumbent):
		return "in force"
	}
	return ""
}

// unfit says why a trial cannot be adopted, "" if it can; its error says why it was not measured.
func (r *Round) unfit(t *search.Trial) string {
	switch {
	case !t.OK():
	case r.refuses(t.Config):
		return "its values are parked"
	case !r.satisfies(t):
		return "may break a constraint" + tightest(t)
	}
	return ""
}

// inPortfolio reports whether a trial was chosen before the futures were seen.
func inPortfolio(t *search.Trial) bool { return t.Round == 0 }
