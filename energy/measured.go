package energy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Measured is the measured power of a cluster over time.
type Measured struct {
	// Facility says that the meter is the facility's: PUE does not count again.
	Facility bool
	at       []time.Time
	watts    []float64 // between an instant and the next, by the trapezoid rule
	gaps     []Span
	name     string
}

// maxWatts bounds a cluster's power.
const maxWatts = 1e10

// ReadMeasured reads a CSV of ts,watts: the power of all nodes at an instant. Between two
// rows it changes linearly; where rows are more than three times as far apart as usual,
// nothing was measured.
func ReadMeasured(r io.Reader, name string, zone *time.Location) (*Measured, error) {
	s, err := readSeries(r, name, zone, "watts", "", 0, maxWatts)
	if err == nil && len(s.at) < 2 {
		err = errors.New("want two rows or more below the header")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m := &Measured{at: s.at, name: name}
	for i := 1; i < len(s.at); i++ {
		m.watts = append(m.watts, (s.values[i-1]+s.values[i])/2)
		if s.at[i].Sub(s.at[i-1]) > 3*s.step {
			m.gaps = append(m.gaps, Span{s.at[i-1], s.at[i]})
		}
	}
	return m, nil
}

// missing reports whether nothing was measured from instant i to the next.
func (m *Measured) missing(i int) bool {
	return slices.ContainsFunc(m.gaps, func(g Span) bool { return g.From.Equal(m.at[i]) })
}

// measure sets the weights that make the modelled power of each interval the measured one.
func (a *account) measure(levels []level, r *Report) {
	m := a.in.Measured
	a.metered = false
	from, to := a.clock(a.in.From), a.clock(a.in.To)
	pue := func(k int) float64 {
		if m.Facility {
			return a.in.Assumptions.constant("pue", k)
		}
		return 1
	}
	measured := 0.0
	for k := range bands {
		at, power := make([]time.Time, len(levels)), make([]float64, len(levels))
		for i := range levels {
			at[i], power[i] = a.clock(levels[i].from), levels[i].free[k]+levels[i].held[k]
		}
		modelled := newSeries("", at, power)
		instants := []time.Time{from.Add(-time.Nanosecond)}
		weights := []float64{1}
		add := func(t time.Time, w float64) {
			if t.After(instants[len(instants)-1]) {
				instants, weights = append(instants, t), append(weights, w)
			}
		}
		for i, w := range m.watts {
			x, y := m.at[i], m.at[i+1]
			if !y.After(from) || !x.Before(to) {
				continue
			}
			if x.Before(from) {
				x = from
			}
			if y.After(to) {
				y = to
			}
			hours := y.Sub(x).Hours()
			switch p := modelled.Over(x, y); {
			case m.missing(i) || p <= 0:
				add(x, 1)
			default:
				add(x, w/pue(k)*hours/p)
				if k == 0 {
					measured += hours
				}
			}
		}
		if last := m.at[len(m.at)-1]; last.Before(to) {
			add(last, 1)
		}
		a.weights[k] = newSeries(m.name, instants, weights)
	}
	r.MeasuredShare = measured / to.Sub(from).Hours()
	for _, g := range m.gaps {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: no power measured from %s to %s: the model holds", m.name,
			g.From.Format(time.RFC3339), g.To.Format(time.RFC3339)))
	}
}
