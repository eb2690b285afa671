package model

import (
	"fmt"
	"math"
	"slices"
)

// Setting sets a column to a value, as do() does.
type Setting struct {
	Column string  `json:"column"`
	Value  float64 `json:"value"`
}

// Answer is the answer to a what-if question about an objective, in its units.
type Answer struct {
	Objective string `json:"objective"`
	// Before is the prediction at the point, After the prediction with the settings.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Low and High are the 90 % interval of After. If the effect is not identified,
	// they also cover the prediction without the confounded edges.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Identified is false if a metric was set and a hidden common cause may account
	// for an edge from it towards the objective.
	Identified bool `json:"identified"`
	// Head is the head used: "blend", or "structural" if metrics are set.
	Head string `json:"head"`
	// Moves explain the answer: the structural head's predictions of the metrics
	// between settings and objective, causes first.
	Moves []Move `json:"moves,omitempty"`
}

// Move is a metric's predicted change under the settings.
type Move struct {
	Metric string  `json:"metric"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Do predicts an objective at a point with columns set. The effect of setting
// configuration or context is identified, as these are exogenous. Setting a metric
// removes its dependence on its causes.
func (m *Model) Do(objective string, p Point, settings []Setting) (Answer, error) {
	k, err := m.objective(objective)
	if err != nil {
		return Answer{}, err
	}
	if err := m.check(p); err != nil {
		return Answer{}, fmt.Errorf("causal/model: %w", err)
	}
	set := map[int]float64{}
	metrics := false
	at := slices.Clone(p)
	for _, s := range settings {
		c := m.table.Index(s.Column)
		if c < 0 {
			return Answer{}, fmt.Errorf("causal/model: there is no column %q", s.Column)
		}
		if err := m.checkValue(c, s.Value); err != nil {
			return Answer{}, fmt.Errorf("causal/model: %w", err)
		}
		switch {
		case slices.Contains(m.roots, c):
			at[c] = s.Value
		case slices.Contains(m.order, c):
			set[c] = s.Value
			metrics = true
		default:
			return Answer{}, fmt.Errorf("causal/model: column %q has no tier, so that setting it says nothing",
				s.Column)
		}
	}
	buf := m.buffer()
	if !metrics {
		after := m.predict(k, at, buf)
		return Answer{Objective: objective, Before: m.mean(&m.all, k, p, buf), After: after.Mean, Low: after.Low,
			High: after.High, Identified: true, Head: "blend",
			Moves: m.moves(k, p, at, set, settings, buf)}, nil
	}
	o := m.objectives[k]
	m.propagate(&m.all, p, buf)
	out := Answer{Objective: objective, Before: buf.row[o], Head: "structural", Identified: true}
	out.Moves = m.moves(k, p, at, set, settings, buf) // overwrites buf
	for c := range set {
		for _, v := range m.order {
			if slices.Contains(m.s.Parents[v], c) && m.reaches(v, o) && m.confounded(c, v) {
				out.Identified = false
			}
		}
	}
	out.After = m.intervene(&m.all, at, set, o, false, buf)
	low, high := out.After, out.After
	if !out.Identified {
		without := m.intervene(&m.all, at, set, o, true, buf)
		low, high = min(low, without), max(high, without)
	}
	r := m.direct[k]
	squares := 0.0
	for b := range m.boots {
		d := r.y(m.intervene(&m.boots[b], at, set, o, false, buf)) - r.y(out.After)
		squares += d * d / float64(len(m.boots))
	}
	out.Low, out.High = r.interval(low, high, math.Sqrt(squares))
	return out, nil
}

// moves returns the predictions of the metrics between settings and objective k, at
// point p and with the settings.
func (m *Model) moves(k int, p, at []float64, set map[int]float64, settings []Setting, buf *buffer) []Move {
	o := m.objectives[k]
	m.propagate(&m.all, p, buf)
	before := slices.Clone(buf.row)
	m.intervene(&m.all, at, set, o, false, buf)
	var out []Move
	for _, n := range m.order {
		if n == o || !m.reaches(n, o) ||
			!slices.ContainsFunc(settings, func(s Setting) bool { return m.reaches(m.table.Index(s.Column), n) }) {
			continue
		}
		out = append(out, Move{m.name(n), before[n], buf.row[n]})
	}
	return out
}

func (m *Model) confounded(cause, effect int) bool {
	return m.s.Confounded != nil && m.s.Confounded(cause, effect)
}

// intervene predicts a column with metrics set. With cut, confounded edges do not
// carry the set values.
func (m *Model) intervene(v *variant, p []float64, set map[int]float64, column int, cut bool, buf *buffer) float64 {
	m.propagate(v, p, buf)
	natural := slices.Clone(buf.row)
	for _, n := range m.order {
		if value, ok := set[n]; ok {
			buf.row[n] = value
			continue
		}
		var hidden []int
		if cut {
			for _, parent := range m.s.Parents[n] {
				if _, ok := set[parent]; ok && m.confounded(parent, n) {
					hidden = append(hidden, parent)
				}
			}
		}
		for _, h := range hidden {
			buf.row[h] = natural[h]
		}
		buf.row[n] = m.nodes[n].predict(&v.nodes[n], buf.row, buf.x)
		for _, h := range hidden {
			buf.row[h] = set[h]
		}
	}
	return buf.row[column]
}
