package round

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// explore searches without a decision. If there are held-out futures, the proposals of
// the sampler that are better than the incumbent by enough are measured there too, the
// best first, together with the default and the incumbent (Result.fresh).
func (r *Round) explore(ctx context.Context) (Result, error) {
	out := Result{Decision: Decision{Config: r.Incumbent, Ratio: 1}}
	racing := r.racers()
	if _, err := r.search(ctx, &out, racing); err != nil || racing == 0 {
		return out, err
	}
	var field []search.Trial
	for _, t := range out.Trials {
		if !inPortfolio(&t) && t.OK() && t.Measurement.Measured == 0 && r.satisfies(&t) && !r.refuses(t.Config) &&
			(breaks(&out.Incumbent) || search.Gain(t, out.Incumbent).Ratio >= r.MinRatio) {
			field = append(field, t)
		}
	}
	if len(field) == 0 {
		return out, nil
	}
	slices.SortStableFunc(field, func(a, b search.Trial) int {
		return cmp.Compare(a.Measurement.Mean(), b.Measurement.Mean())
	})
	field = field[:min((racing-1)/2, len(field))]
	field = append(field, out.portfolioToRace(racing-len(field)-2)...)
	measure, err := r.measure(ctx, r.HeldOut)
	if errors.Is(err, errNothing) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	fresh, err := measure.all(ctx, field, r.Workers)
	if err != nil {
		return out, err
	}
	for i := range field {
		field[i].Measurement, field[i].Round = fresh[i], 0
	}
	out.fresh = field
	out.Stats.Raced = len(field)
	out.Stats.Evaluations += len(field)
	return out, nil
}

// portfolioToRace is the default, the incumbent and the n best others of the portfolio:
// what a proposal is compared with has to be measured on the same futures.
func (out *Result) portfolioToRace(n int) []search.Trial {
	var always, others []search.Trial
	for _, t := range out.Trials {
		switch {
		case !inPortfolio(&t):
		case t.Config.Equal(t.Config.Space().Default()) || t.Config.Equal(out.Incumbent.Config):
			always = append(always, t)
		case t.OK():
			others = append(others, t)
		}
	}
	slices.SortStableFunc(others, func(a, b search.Trial) int {
		return cmp.Compare(a.Measurement.Mean(), b.Measurement.Mean())
	})
	return append(always, others[:min(n, len(others))]...)
}

// weigher compares candidates with the incumbent by all that is known of them.
type weigher struct {
	round     *Round
	at        time.Duration
	key       func(space.Config) string
	evidence  evidence
	insurance *insurance
	proven    []string                                    // keys of the default and the presets
	insure    func(context.Context, []space.Config) error // measures what the insurance lacks
	bar       float64                                     // the least gain, as a share
	ratio     float64                                     // the least ratio
	dwelling  bool
	urgent    bool // between rounds
}

// candidate is a trial that may replace the incumbent.
type candidate struct {
	search.Trial
	gain  float64 // logarithm of the incumbent's objective over this one's, pooled
	ratio float64 // of the controllable parts, at that gain
	own   float64 // ratio in this round alone
	raced bool    // measured on held-out futures
}

// gain pools the evidence of rounds with the replay, and adds a part of the difference
// under stress.
func (w *weigher) gain(incumbent, c string) float64 {
	gain, weight := w.evidence.gain(incumbent, c, w.at)
	if w.round.Ablation.NoPooling {
		if own, n := w.own(incumbent, c); n {
			gain, weight = own, 1
		}
	}
	if more, ok := w.insured(w.insurance.Replay, incumbent, c); ok && weight+w.insurance.Weight > 0 {
		gain = (weight*gain + w.insurance.Weight*more) / (weight + w.insurance.Weight)
	}
	if more, ok := w.insured(w.insurance.Stress, incumbent, c); ok {
		gain += stressWeight * more
	}
	return gain
}

// insured is the gain of a configuration in the replay or under stress. One found by a
// search counts as no better there than the best of the default and the presets: a
// search over-fits the workload that it saw.
func (w *weigher) insured(logs map[string]float64, incumbent, c string) (gain float64, ok bool) {
	a, ok := logs[incumbent]
	b, too := logs[c]
	if !ok || !too {
		return 0, false
	}
	best := math.Inf(1)
	for _, key := range w.proven {
		if x, ok := logs[key]; ok {
			best = min(best, x)
		}
	}
	return max(-mostInsured, min(max(a, best)-max(b, best), mostInsured)), true
}

// own is the gain in the last round, if it measured both.
func (w *weigher) own(incumbent, c string) (float64, bool) {
	last := func(hash string) (float64, bool) {
		s := w.evidence[hash]
		if len(s) == 0 || s[len(s)-1].At != w.at {
			return 0, false
		}
		return s[len(s)-1].Log, true
	}
	a, ok := last(incumbent)
	b, too := last(c)
	return a - b, ok && too
}

// vetoed reports whether the replay is worse than the incumbent's by replayVeto.
func (w *weigher) vetoed(incumbent, c string) bool {
	a, ok := w.insurance.Replay[incumbent]
	b, too := w.insurance.Replay[c]
	return ok && too && b-a > replayVeto
}

// unproven is how much more than the default and the presets a configuration found by a
// search has to gain before any round has measured it; evidence of weight 1 halves it. It
// was selected, and little is known of it elsewhere.
const unproven = .01

// leastEvidence is the weight, the replay's included, that it needs at all: at a cold
// start there is only the round that found it.
const leastEvidence = 3

// candidates are the trials that may replace the incumbent, the best first.
func (w *weigher) candidates(ctx context.Context, out *Result) ([]candidate, error) {
	r, incumbent := w.round, w.key(w.round.Incumbent)
	var found []candidate
	var configs []space.Config
	seen := map[string]bool{incumbent: true}
	for i, t := range slices.Concat(out.fresh, out.Trials) {
		key := w.key(t.Config)
		if !inPortfolio(&t) || seen[key] {
			continue
		}
		seen[key] = true // what was measured on held-out futures counts there alone
		_, measured := w.own(incumbent, key)
		if !measured || !t.OK() || r.refuses(t.Config) || !r.satisfies(&t) {
			continue
		}
		found = append(found, candidate{Trial: t, raced: i < len(out.fresh)})
		configs = append(configs, t.Config)
	}
	if err := w.insure(ctx, append(configs, r.Incumbent)); err != nil {
		return nil, err
	}
	floor := 0.0
	if m := &out.Incumbent.Measurement; out.Incumbent.OK() && len(m.Floors) > 0 && m.Mean() > 0 {
		floor = search.Measurement{Values: m.Floors}.Mean() / m.Mean()
	}
	ratio := func(gain float64) float64 {
		if gain == 0 { // also where nothing is controllable
			return 1
		}
		if left := math.Exp(-gain) - floor; left > 0 {
			return min((1-floor)/left, search.MaxRatio)
		}
		return search.MaxRatio
	}
	for i := range found {
		c := &found[i]
		c.gain = w.gain(incumbent, w.key(c.Config))
		if !slices.Contains(w.proven, w.key(c.Config)) {
			_, weight := w.evidence.gain(incumbent, w.key(c.Config), w.at)
			if weight+w.insurance.Weight < leastEvidence {
				c.gain = min(c.gain, 0)
			}
			c.gain -= unproven / (1 + weight)
		}
		c.ratio = ratio(c.gain)
		own, _ := w.own(incumbent, w.key(c.Config))
		c.own = ratio(own)
		if w.urgent {
			c.gain, c.ratio = own, c.own
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	return found, nil
}

// adopt applies the adoption rule to the pooled evidence: the candidate with the
// largest gain replaces the incumbent if it gains enough, does not lose in the replay of
// the last days and keeps the guards. An incumbent that breaks a constraint is replaced
// by the best that satisfies all, whatever it gains.
func (w *weigher) adopt(ctx context.Context, out *Result) error {
	r := w.round
	out.Best = out.Incumbent
	found, err := w.candidates(ctx, out)
	if err != nil {
		return err
	}
	said := map[string]string{} // why candidates were not adopted, by key
	defer func() { w.outcomes(out, found, said) }()
	if len(found) == 0 {
		out.Reason = r.whyNone(out, false)
		return nil
	}
	if found[0].gain != 0 {
		out.Ratio = found[0].ratio
	}
	must := breaks(&out.Incumbent) || !out.Incumbent.OK()
	g, why := (*guards)(nil), ""
	for i := range found {
		c := &found[i]
		refused, key := "", w.key(c.Config)
		switch {
		case must:
		case saved(c.gain) < w.bar || c.gain <= 0:
			said[key] = tooLittle(c, fmt.Sprintf("a change has to gain %.1f %%", 100*w.bar))
			refused = fmt.Sprintf("%s. A change has to gain %.1f %%.", w.best(out, c), 100*w.bar)
		case c.ratio < w.ratio:
			said[key] = tooLittle(c, fmt.Sprintf("a change has to gain %.1f %% of what settings can influence",
				100*(1-1/w.ratio)))
			refused = fmt.Sprintf("%s. A change has to gain %.1f %% of what settings can influence.", w.best(out, c),
				100*(1-1/w.ratio))
		case w.dwelling && c.own < UrgentRatio:
			said[key] = fmt.Sprintf("the last change is less than %s old", units.Duration(r.Dwell.Seconds()))
			refused = fmt.Sprintf("%s. But the last change is less than %s old.", w.best(out, c),
				units.Duration(r.Dwell.Seconds()))
		}
		if refused != "" {
			why = cmp.Or(why, refused)
			continue
		}
		if !must && w.vetoed(w.key(r.Incumbent), key) {
			said[key] = "worse in the replay of the last days"
			why = cmp.Or(why, fmt.Sprintf("The best (%s) does worse in the replay of the last days.",
				r.source(c.Origin)))
			continue
		}
		if !must {
			if g == nil {
				if g, err = r.newGuards(ctx, r.Scenarios); err != nil {
					return err
				}
			}
			broken, err := g.broken(ctx, c.Config)
			if err != nil {
				return err
			}
			if broken != "" {
				said[key] = "guard: " + broken
				why = cmp.Or(why, fmt.Sprintf("The best (%s) %s.", r.source(c.Origin), broken))
				continue
			}
		}
		if err := w.simplest(ctx, out, c, g); err != nil {
			return err
		}
		w.take(out, c)
		return nil
	}
	out.Reason = why
	if found[0].gain <= 0 {
		out.Reason = noneBetter(out)
	}
	return nil
}

// take adopts a candidate.
func (w *weigher) take(out *Result, c *candidate) {
	r := w.round
	out.Config, out.Best, out.Adopt, out.Ratio = c.Config, c.Trial, true, c.ratio
	was, now := w.compared(out, c), &c.Measurement
	source := r.source(c.Origin)
	switch {
	case !out.Incumbent.OK():
		out.Reason = r.ends(0, source, now.Mean())
		return
	case breaks(&out.Incumbent):
		out.Reason = fmt.Sprintf("The one in force %s; this one (%s) keeps to all constraints%s.",
			describeLimit(out.Incumbent.Measurement.Worst()), source, tightest(&c.Trial))
		return
	}
	out.Interval = interval(*was, *now)
	out.Reason = fmt.Sprintf("Expected %s (%s)%s.", w.change(out, c), source, tightest(&c.Trial))
}

// compared is the incumbent's measurement on the futures of a candidate's.
func (w *weigher) compared(out *Result, c *candidate) *search.Measurement {
	if c.raced {
		incumbent := w.key(w.round.Incumbent)
		i := slices.IndexFunc(out.fresh, func(t search.Trial) bool { return w.key(t.Config) == incumbent })
		return &out.fresh[i].Measurement
	}
	return &out.Incumbent.Measurement
}

// change is Round.change by all evidence.
func (w *weigher) change(out *Result, c *candidate) string {
	was := w.compared(out, c)
	return w.round.change(0, was.Mean(), was.Mean()*math.Exp(-c.gain), c.ratio, was, &c.Measurement)
}

// best describes the change to the best candidate.
func (w *weigher) best(out *Result, c *candidate) string {
	return fmt.Sprintf("The best (%s): expected %s", w.round.source(c.Origin), w.change(out, c))
}

// saved is a gain as a share of the objective.
func saved(gain float64) float64 { return 1 - math.Exp(-gain) }
