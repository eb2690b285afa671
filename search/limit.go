package search

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/autosched/autosched/internal/stats"
)

// Limit is a constraint: the mean of the values over the futures must not exceed
// the mean of the bounds.
type Limit struct {
	Name string `json:"name"`
	// Of names the group that the limit applies to, such as a tenant; "" for all.
	Of string `json:"of,omitempty"`
	// Paired reports whether the bounds are measured on the same futures as the values,
	// as bounds relative to the incumbent are.
	Paired bool      `json:"paired,omitempty"`
	Values []float64 `json:"values"`
	Bounds []float64 `json:"bounds"`
}

// Metric is a measured metric other than the objective.
type Metric struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"` // per future
	Floors []float64 `json:"floors,omitempty"`
}

// Metric returns a secondary metric by name.
func (m *Measurement) Metric(name string) (Metric, bool) {
	i := slices.IndexFunc(m.Secondary, func(s Metric) bool { return s.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return m.Secondary[i], true
}

// Excess returns the excess of the mean value over the mean bound, as a share of the
// bound: 0 or less if the limit is kept.
func (l *Limit) Excess() float64 {
	value, bound := mean(l.Values), mean(l.Bounds)
	switch {
	case value-bound <= rounding*bound:
		return min(0, (value-bound)/max(bound, math.SmallestNonzeroFloat64))
	case bound <= 0:
		return MaxRatio
	}
	return min((value-bound)/bound, MaxRatio)
}

// rounding is the relative difference that sums of the same numbers may have.
const rounding = 1e-9

// Kept returns the probability that the limit is kept in the mean over many
// futures like these: Student's t on the logarithm of the ratio of the means,
// with the linearised variance of paired ratios (Cochran, Sampling Techniques,
// 3rd edition, section 6.4). It is 1 or 0 if the ratio does not vary or there is
// one future.
func (l *Limit) Kept() float64 {
	n := len(l.Values)
	value, bound := mean(l.Values), mean(l.Bounds)
	sd := 0.0
	if n > 1 && value > 0 && bound > 0 {
		sd = stats.RatioSD(l.Values, l.Bounds)
	}
	if sd <= rounding {
		if l.Excess() > 0 {
			return 0
		}
		return 1
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}
	return t.CDF(math.Log(bound/value) / (sd / math.Sqrt(float64(n))))
}

// Worst returns the limit with the largest excess, nil if there is none.
func (m *Measurement) Worst() *Limit {
	var worst *Limit
	for i := range m.Limits {
		if worst == nil || m.Limits[i].Excess() > worst.Excess() {
			worst = &m.Limits[i]
		}
	}
	return worst
}

// Feasible reports whether every limit is kept in the mean over the futures.
func (m *Measurement) Feasible() bool {
	w := m.Worst()
	return w == nil || w.Excess() <= 0
}

// Kept returns the lowest Kept of the paired limits, 1 without any. Constant bounds are
// left out: the variance between futures is then not that of a comparison.
func (m *Measurement) Kept() float64 {
	p := 1.0
	for i := range m.Limits {
		if m.Limits[i].Paired {
			p = min(p, m.Limits[i].Kept())
		}
	}
	return p
}

// violation is the sum of the excesses.
func (m *Measurement) violation() float64 {
	sum := 0.0
	for i := range m.Limits {
		sum += max(0, m.Limits[i].Excess())
	}
	return sum
}

// checkLimits fails on values that cannot be stored or compared.
func (m *Measurement) checkLimits() error {
	for _, l := range m.Limits {
		if l.Name == "" || len(l.Values) == 0 || len(l.Values) != len(l.Bounds) {
			return fmt.Errorf("search: limit %q has %d values and %d bounds", l.Name, len(l.Values), len(l.Bounds))
		}
		for i := range l.Values {
			if !finite(l.Values[i]) || !finite(l.Bounds[i]) || l.Values[i] < 0 || l.Bounds[i] < 0 {
				return fmt.Errorf("search: limit %q: value %v and bound %v, want finite numbers from 0",
					l.Name, l.Values[i],
					l.Bounds[i])
			}
		}
	}
	for _, s := range m.Secondary {
		if s.Name == "" || len(s.Values) != len(m.Values) || len(s.Floors) != 0 && len(s.Floors) != len(s.Values) {
			return fmt.Errorf("search: metric %q has %d values and %d floors, the objective %d", s.Name, len(s.Values),
				len(s.Floors), len(m.Values))
		}
		for _, v := range slices.Concat(s.Values, s.Floors) {
			if !finite(v) {
				return fmt.Errorf("search: metric %q: %v is not a finite number", s.Name, v)
			}
		}
	}
	return nil
}

// Append returns the measurement with further futures appended: values, floors, limits
// and secondary metrics.
func (m Measurement) Append(more Measurement) Measurement {
	m.Exhausted = m.Exhausted || more.Exhausted
	m.Values = slices.Concat(m.Values, more.Values)
	m.Floors = slices.Concat(m.Floors, more.Floors)
	limits := slices.Clone(m.Limits)
	for _, l := range more.Limits {
		i := slices.IndexFunc(limits, func(o Limit) bool { return o.Name == l.Name && o.Of == l.Of })
		if i < 0 {
			limits = append(limits, l)
			continue
		}
		limits[i].Values = slices.Concat(limits[i].Values, l.Values)
		limits[i].Bounds = slices.Concat(limits[i].Bounds, l.Bounds)
	}
	m.Limits = limits
	metrics := slices.Clone(m.Secondary)
	for _, s := range more.Secondary {
		if i := slices.IndexFunc(metrics, func(o Metric) bool { return o.Name == s.Name }); i >= 0 {
			metrics[i].Values = slices.Concat(metrics[i].Values, s.Values)
			metrics[i].Floors = slices.Concat(metrics[i].Floors, s.Floors)
		}
	}
	m.Secondary = metrics
	return m
}
