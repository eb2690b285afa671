package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/space"
)

// Measurement is the result of one evaluation.
type Measurement struct {
	// Values holds the objective on each future: the same futures in the same
	// order for every configuration, finite, not negative, lower is better.
	Values []float64 `json:"values"`
	// Floors holds, per future, the part of the objective that no configuration
	// can change. It may be empty: zeros.
	Floors []float64 `json:"floors,omitempty"`
	// Metrics are further values to record; values that are not finite are dropped.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// Limits are the constraints, in the same order for every configuration;
	// Secondary are the metrics beside the objective that Options.Ranking may name.
	Limits    []Limit  `json:"limits,omitempty"`
	Secondary []Metric `json:"sides,omitempty"`
	// Exhausted reports whether the evaluation exhausted its event budget. The
	// configuration then has no objective.
	Exhausted bool `json:"exhausted,omitempty"`
	// Measured, if positive, is the number of futures that were simulated: too few to
	// win. The other values are estimates.
	Measured int `json:"measured,omitempty"`
}

// Mean returns the mean objective over the futures.
func (m Measurement) Mean() float64 { return mean(m.Values) }

// mean is 0 without values, such as floors.
func mean(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return stats.Mean(v)
}

// clean returns m without numbers that cannot be stored: metrics that are not finite,
// and the values of an exhausted evaluation.
func (m Measurement) clean() Measurement {
	if m.Exhausted {
		m.Values, m.Floors, m.Limits, m.Secondary = nil, nil, nil, nil
	}
	for _, v := range m.Metrics {
		if !finite(v) {
			m.Metrics = maps.Clone(m.Metrics) // the evaluator's own map is not modified
			maps.DeleteFunc(m.Metrics, func(_ string, v float64) bool { return !finite(v) })
			break
		}
	}
	return m
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// check fails if m is invalid or is not on futures futures (0: any number).
func (m Measurement) check(futures int) error {
	if m.Exhausted {
		return nil
	}
	if len(m.Values) == 0 {
		return errors.New("search: a measurement without values")
	}
	if m.Measured < 0 || m.Measured >= len(m.Values) {
		return fmt.Errorf("search: %d of %d futures measured", m.Measured, len(m.Values))
	}
	if futures > 0 && len(m.Values) != futures {
		return fmt.Errorf("search: measured on %d futures, the others on %d", len(m.Values), futures)
	}
	if len(m.Floors) != 0 && len(m.Floors) != len(m.Values) {
		return fmt.Errorf("search: %d floors for %d values", len(m.Floors), len(m.Values))
	}
	for i, v := range m.Values {
		if !finite(v) || v < 0 {
			return fmt.Errorf("search: objective %v on future %d, want a finite number from 0", v, i)
		}
	}
	for i, v := range m.Floors {
		if !finite(v) {
			return fmt.Errorf("search: floor %v on future %d, want a finite number", v, i)
		}
	}
	return m.checkLimits()
}

// Evaluator measures one configuration. It is called from several goroutines
// and must return the same measurement for the same configuration.
type Evaluator func(ctx context.Context, c space.Config) (Measurement, error)

// Provenance is the source of a proposed configuration.
type Provenance struct {
	Origin     string      `json:"origin"`               // default, incumbent, preset:NAME, or the sampler's name
	Prediction *Prediction `json:"prediction,omitempty"` // of the sampler, before it was measured
	// Suggested are the values before projection into the space, if that changed them.
	// Projected is the configuration before its scope was narrowed, if it was, and
	// Narrowed the reasons.
	Suggested space.Values  `json:"suggested,omitempty"`
	Projected *space.Config `json:"projected,omitempty"`
	Narrowed  []string      `json:"narrowed,omitempty"`
}

// Trial is one configuration with its measurement.
type Trial struct {
	Step   int          `json:"step"`   // its index in Result.Trials
	Round  int          `json:"round"`  // 0 for the portfolio, then the request to the sampler it came from
	Config space.Config `json:"config"` // as measured
	Provenance
	Measurement Measurement `json:"measurement"`
	// Reward is the base objective over this one: above 1 is better than the
	// incumbent. It is 0 for failed and exhausted trials and at most MaxRatio.
	Reward float64 `json:"reward"`
	Cached bool    `json:"cached,omitempty"` // served from the cache
	Err    string  `json:"error,omitempty"`  // why there is no measurement
}

// OK reports whether the trial has an objective that can win.
func (t Trial) OK() bool {
	return t.Err == "" && !t.Measurement.Exhausted && len(t.Measurement.Values) > 0
}

// MaxRatio bounds rewards and gains, so that an objective of zero stays a number.
const MaxRatio = 1e6

// ratio returns a/b for a, b >= 0, from 0 to MaxRatio, and 1 for 0/0.
func ratio(a, b float64) float64 {
	switch {
	case a <= 0 && b <= 0:
		return 1
	case b <= 0:
		return MaxRatio
	}
	return min(max(a/b, 0), MaxRatio)
}

// Improvement compares a trial with another.
type Improvement struct {
	// Ratio is the controllable part of the incumbent's objective over that of
	// the candidate: the part above the floor, which no configuration can change.
	Ratio float64 `json:"ratio"`
	// Plain is the ratio of the whole objectives.
	Plain float64 `json:"plain"`
	// BetterInEvery reports whether the candidate is measured and strictly better on every
	// future.
	BetterInEvery bool `json:"better_in_every"`
}

// Gain compares a candidate with the incumbent measured on the same futures.
// A candidate without an objective has ratios of 0; against an incumbent without one,
// any candidate with an objective has ratios of MaxRatio.
func Gain(candidate, incumbent Trial) Improvement {
	if !candidate.OK() {
		return Improvement{}
	}
	if !incumbent.OK() {
		return Improvement{Ratio: MaxRatio, Plain: MaxRatio, BetterInEvery: true}
	}
	c, i := candidate.Measurement, incumbent.Measurement
	floors := i.Floors
	if len(floors) == 0 {
		floors = c.Floors
	}
	out := Improvement{
		Ratio:         ratio(i.Mean()-mean(floors), c.Mean()-mean(floors)),
		Plain:         ratio(i.Mean(), c.Mean()),
		BetterInEvery: len(c.Values) == len(i.Values) && c.Measured == 0,
	}
	for k := range min(len(c.Values), len(i.Values)) {
		if !(c.Values[k] < i.Values[k]) {
			out.BetterInEvery = false
		}
	}
	return out
}
