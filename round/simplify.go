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

// simplify replaces the adopted configuration by its simplest form, if a search found it.
func (r *Round) simplify(ctx context.Context, out *Result) error {
	if !r.Simplify || !out.Adopt || !r.found(&out.Best) {
		return nil
	}
	t, err := r.simplest(ctx, out, out.Best, r.Scenarios, out.Trials, func(t *search.Trial) bool {
		gain, _ := r.Goal.gain(*t, out.Incumbent, r.ratio())
		return r.Always || breaks(&out.Incumbent) || !out.Incumbent.OK() || gain.Ratio > 1 && gain.Ratio >= r.ratio()
	})
	if err != nil {
		return err
	}
	out.Config, out.Best = t.Config, t
	return nil
}
