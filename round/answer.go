package round

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// counts is the gain of a candidate that counts.
func (c *Compared) counts() float64 {
	if c.Found {
		return min(c.Gain, c.Bound)
	}
	return c.Gain
}

// choose compares the candidates by the rule.
func (a *asking) choose() {
	out, inForce := a.out, &a.candidates[0]
	out.Compared = a.candidates
	out.Best, out.Config, out.Adopt = nil, a.Incumbent, false
	must := inForce.failed || inForce.infeasible()
	bar := a.bar
	if must {
		bar = math.Inf(-1)
	}
	inForce.Verdict = "in force"
	var can, refused []*Compared
	for i := 1; i < len(a.candidates); i++ {
		c := &a.candidates[i]
		switch {
		case c.failed:
			c.Verdict = endless
		case slices.ContainsFunc(a.Problem.Refused, c.Config.Equal):
			c.Verdict = "its values are parked"
		case !keeps(c.limits):
			c.Verdict = "may break a constraint" + tightestOf(c.limits)
		case c.Found && c.Gain > bar && c.Bound <= bar:
			c.Verdict = fmt.Sprintf("a search found it, and it gains no more than %.1f %% with a confidence of %.0f %%",
				100*max(0, Saved(c.Bound)), 100*boundLevel)
		case c.counts() <= bar || c.partial && (must || len(c.Breaks) == 0):
			c.Verdict = little
		case (c.Gain <= c.doubt || c.promise != nil && stats.Mean(c.promise) <= 0) && !must:
			c.Verdict = unsure
		case len(c.Breaks) > 0 && a.Guard >= 0 && !must:
			c.Verdict = "guard: " + c.Breaks[0].String()
			if !c.partial {
				refused = append(refused, c)
			}
		default:
			c.Verdict = ""
			can = append(can, c)
		}
	}
	best := a.simplest(can)
	out.Refused = a.simplest(refused)
	for _, c := range can {
		switch {
		case c == best:
			out.Best, out.Config, out.Adopt = c, c.Config, true
		case c.counts() > best.counts():
			c.Verdict = "gains the same, but for noise, as one with fewer changes"
		default:
			c.Verdict = "the adopted one gains more, or the same with fewer changes"
		}
	}
	if best == nil {
		for i := range a.candidates[1:] {
			if c := &a.candidates[i+1]; (c.Verdict == little || c.Verdict == unsure) && !c.partial && c.Gain > 0 &&
				(out.Best == nil || c.Gain > out.Best.Gain) {
				out.Best = c
			}
		}
	}
	if r := out.Refused; r != nil && best != nil && r.counts() <= best.counts() {
		out.Refused = nil
	}
}

// infeasible reports whether a configuration breaks a constraint on average.
func (c *Compared) infeasible() bool { return !(&search.Measurement{Limits: c.limits}).Feasible() }

// keeps reports whether constraints are kept: on average and, where they are relative to the one in force, with
// probability minFeasibleProb.
func keeps(limits []search.Limit) bool {
	m := search.Measurement{Limits: limits}
	return m.Feasible() && m.Kept() >= minFeasibleProb
}

func tightestOf(limits []search.Limit) string {
	return tightest(&search.Trial{Measurement: search.Measurement{Limits: limits}})
}

// simplest is the candidate with the largest gain, or one that gains the same but for noise and changes fewer
// parameters.
func (a *asking) simplest(can []*Compared) (best *Compared) {
	for _, c := range can {
		if best == nil || c.counts() > best.counts() {
			best = c
		}
	}
	largest := best
	for _, c := range can {
		if c.Changes < best.Changes && largest.counts()-c.counts() <= a.noise(largest, c) {
			best = c
		}
	}
	return best
}

// noise is the standard error of the difference of two gains, as far as moved submissions cause it.
func (a *asking) noise(x, y *Compared) float64 {
	differences := make([]float64, len(x.logs))
	for i := range differences {
		differences[i] = x.logs[i] - y.logs[i]
	}
	squares, free, rest := 0.0, 0.0, differences
	for _, f := range a.fields {
		s, n := f.within(rest)
		squares, free, rest = squares+s, free+n, rest[len(f.runs):]
	}
	return math.Sqrt(squares / max(1, free) / float64(len(differences)))
}

// mostPromised is the number of configurations replayed for promises: the one in force and those of the answer.
const mostPromised = 3

// answer chooses among the candidates, promises the gains of the adopted and the refused one, and gives the reason. One
// that promises no gain is neither.
func (a *asking) answer(ctx context.Context, all []stretch) error {
	out := a.out
	for a.choose(); !a.candidates[0].failed; a.choose() {
		fresh := slices.DeleteFunc(a.named(), func(c *Compared) bool { return c.promise != nil })
		if len(fresh) == 0 {
			break
		}
		if err := a.promise(ctx, all, fresh); err != nil {
			return err
		}
	}
	for _, c := range a.named() {
		if c.promise == nil {
			continue
		}
		c.Gain = stats.Mean(c.promise)
		var err error
		if c.Losers, err = a.fields[0].losersOf(ctx, &a.candidates[0], c, a.Replays); err != nil {
			return err
		}
	}
	for i := range a.candidates {
		a.candidates[i].replays = nil
	}
	if a.Progress != nil {
		a.Progress(a.of, a.of)
	}
	if b := out.Best; b != nil {
		out.Gain, out.Low, out.High = b.Gain, b.Low, b.High
	}
	out.Reason = a.reason()
	return nil
}

// named are the candidates that the answer makes promises of.
func (a *asking) named() (out []*Compared) {
	if a.out.Adopt {
		out = append(out, a.out.Best)
	}
	if a.out.Refused != nil {
		out = append(out, a.out.Refused)
	}
	return out
}

// promise replays candidates in the ways that promises are of, on the stretches that have passed.
func (a *asking) promise(ctx context.Context, all []stretch, of []*Compared) error {
	configs := []space.Config{a.Incumbent}
	for _, c := range of {
		configs = append(configs, c.Config)
		c.promise = []float64{c.Gain}
	}
	for _, how := range [...]way{settled, smaller} {
		f, err := a.newField(ctx, a.History.passed(all), a.tape, how)
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return err
		}
		a.of = min(a.of, a.steps+2*len(configs)*len(f.runs))
		got, err := f.run(ctx, configs, a.Replays, a.Workers, a.step)
		if err != nil {
			return err
		}
		for n, c := range of {
			switch now := got[n+1]; {
			case exhausted(got[0]):
			case exhausted(now):
				c.failed = c.failed || how == settled
			default:
				gains := a.gains(c.rank, now, got[0])
				c.Low, c.High = min(c.Low, slices.Min(gains)), max(c.High, slices.Max(gains))
				if how == settled {
					c.promise, a.promised = gains, len(f.byStretch(gains))
				}
			}
		}
	}
	return nil
}

// reason gives the reason of the answer, in sentences.
func (a *asking) reason() string {
	out := a.out
	daysOf := func(parts int) string {
		return fmt.Sprintf("in the %s of up to five days since %s", units.Plural(parts, "part"),
			out.From.UTC().Format("2 Jan"))
	}
	days, promised := daysOf(out.Stretches), daysOf(cmp.Or(a.promised, out.Stretches))
	text := ""
	switch b := out.Best; {
	case out.Adopt && a.candidates[0].failed:
		text = fmt.Sprintf("The one in force does not end the work of the last days; %s does.", Source(b.Origin))
	case out.Adopt && !keeps(a.candidates[0].limits) && b.Gain <= a.bar:
		text = fmt.Sprintf("The one in force %s; %s keeps to all constraints%s.",
			describeLimit((&search.Measurement{Limits: a.candidates[0].limits}).Worst()), Source(b.Origin),
			tightestOf(b.limits))
	case out.Adopt:
		text = fmt.Sprintf("Expected %s %s (%s)%s.", a.change(b), promised, Source(b.Origin), tightestOf(b.limits))
		if losers := LosersText(b.Losers, 1); losers != "" {
			text += " " + losers + "."
		}
		if n := len(b.Unclear); n > 0 {
			text += fmt.Sprintf(" The history does not tell the effect on the %s", b.Unclear[0])
			if n > 1 {
				text += " and on " + units.Plural(n-1, "other guarded time")
			}
			text += "."
		}
	case b != nil:
		text = fmt.Sprintf("The best (%s): expected %s %s. ", Source(b.Origin), a.change(b), days)
		if b.Verdict == unsure {
			text += "The replays differ by more than that, so it may as well be a loss."
		} else {
			text += fmt.Sprintf("A change has to gain more than %.0f %%.", 100*a.bar)
		}
	case out.Refused == nil && a.candidates[0].infeasible():
		text = fmt.Sprintf("The one in force %s %s, and none of %d configurations keeps all constraints.",
			describeLimit((&search.Measurement{Limits: a.candidates[0].limits}).Worst()), days, len(a.candidates))
	case out.Refused == nil:
		text = fmt.Sprintf("None of %d configurations is better than the one in force", len(a.candidates))
		if slices.ContainsFunc(a.candidates, func(c Compared) bool { return !c.failed && !keeps(c.limits) }) {
			text += " and keeps to the constraints"
		}
		text += " " + days + "."
	}
	if r := out.Refused; r != nil {
		if text != "" {
			text += " "
		}
		text += fmt.Sprintf("Refused (%s): expected %s %s, but %s.", Source(r.Origin), a.change(r), promised,
			r.Breaks[0])
	}
	return text
}

// change is the change of the objective that a candidate is expected to bring, with its range.
func (a *asking) change(c *Compared) string {
	percent := func(gain float64) string { return units.Change(-Saved(gain)) }
	return fmt.Sprintf("%s %s (%s to %s)", Label(a.Goal.name(c.rank)), percent(c.Gain), percent(c.High), percent(c.Low))
}
