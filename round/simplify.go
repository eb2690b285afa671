package round

import (
	"context"
	"slices"
	"strings"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// found reports whether a search found the configuration of a trial, in this round or an
// earlier one. The default, the incumbent and presets were chosen by people.
func (r *Round) found(t *search.Trial) bool {
	preset := func(p search.Preset) bool { return p.Config.Equal(t.Config) }
	return !t.Config.Equal(r.Space.Default()) && !t.Config.Equal(r.Incumbent) &&
		!strings.HasPrefix(t.Origin, "preset:") && !slices.ContainsFunc(presetsIn(r.Space, r.Scheduler), preset)
}

// simplest returns the simplest form of a winner on the futures that it was measured on.
// known are other trials there.
func (r *Round) simplest(ctx context.Context, out *Result, winner search.Trial, futures []Scenario,
	known []search.Trial, keep func(*search.Trial) bool) (search.Trial, error) {
	measure, err := r.measure(ctx, futures)
	if err != nil {
		return winner, err
	}
	s := search.Simplifier{Winner: winner, From: r.Incumbent, Known: known,
		Measure: func(ctx context.Context, configs []space.Config) ([]search.Measurement, error) {
			trials := make([]search.Trial, len(configs))
			for i, c := range configs {
				trials[i].Config = c
			}
			return measure.all(ctx, trials, r.Workers)
		},
		Keep: func(t *search.Trial) bool {
			if r.refuses(t.Config) || !r.satisfies(t) || !keep(t) {
				return false
			}
			for k := range r.Goal.Then {
				a, b := r.Goal.ranked(winner, k+1).Measurement, r.Goal.ranked(*t, k+1).Measurement
				if b.Mean()-a.Mean() > search.Noise(&a, &b) {
					return false
				}
			}
			return true
		}}
	got, err := s.Run(ctx)
	out.Stats.Simplified += got.Evaluations
	out.Found, out.Effects = winner, got.Effects
	return got.Trial, err
}

// simplify replaces what was adopted by its simplest form, if a search found it.
func (r *Round) simplify(ctx context.Context, out *Result, raced bool) error {
	if !r.Simplify || !out.Adopt || !r.found(&out.Best) {
		return nil
	}
	futures, known := r.Scenarios, out.Trials
	if raced {
		futures, known = slices.Concat(r.Scenarios, r.HeldOut), nil
	}
	t, err := r.simplest(ctx, out, out.Best, futures, known, func(t *search.Trial) bool {
		gain, _ := r.Goal.gain(*t, out.Incumbent, r.MinRatio)
		return r.Always || breaks(&out.Incumbent) || !out.Incumbent.OK() ||
			gain.Ratio >= r.MinRatio && (raced || gain.BetterInEvery)
	})
	if err != nil || t.Config.Equal(out.Config) {
		return err
	}
	out.Config, out.Adopt = r.Incumbent, false
	r.adopt(out, []search.Trial{t}, raced, -1)
	return nil
}

// simplest replaces a candidate that a search found by its simplest form, unless that does
// worse in the replay of the last days or under stress, or breaks a guard. What is known
// of the candidate holds for that form, which measures like it.
func (w *weigher) simplest(ctx context.Context, out *Result, c *candidate, g *guards) error {
	r, key := w.round, w.key(c.Config)
	if !r.Simplify || !r.found(&c.Trial) {
		return nil
	}
	futures, known := r.Scenarios, out.Trials
	if c.raced {
		futures, known = r.HeldOut, out.fresh
	}
	t, err := r.simplest(ctx, out, c.Trial, futures, known, func(t *search.Trial) bool {
		return !t.Config.Equal(r.Incumbent)
	})
	if err != nil || t.Config.Equal(c.Config) {
		return err
	}
	if err := w.insure(ctx, []space.Config{t.Config}); err != nil {
		return err
	}
	simple := w.key(t.Config)
	if w.gain(key, simple) < -pooledNoise || w.vetoed(w.key(r.Incumbent), simple) {
		return nil
	}
	if broken, err := g.broken(ctx, t.Config); err != nil || broken != "" {
		return err
	}
	if _, measured := w.evidence[simple]; !measured {
		w.evidence[simple] = slices.Clone(w.evidence[key])
	}
	c.Trial = t
	return nil
}

// pooledNoise is how much worse than the candidate a simplest form may be in the replay and
// under stress, weighed as in a decision, as a logarithm: half of what a round changes a
// configuration for.
const pooledNoise = .001
