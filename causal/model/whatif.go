package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/rng"
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

// Counterfactual returns the metrics and objectives that a measured run would have
// had with other configuration or context, keeping every variable's residual.
// measured must have a value in every column of the graph.
func (m *Model) Counterfactual(measured Point, settings []Setting) (Point, error) {
	if err := m.check(measured); err != nil {
		return nil, fmt.Errorf("causal/model: %w", err)
	}
	buf := m.buffer()
	residual := make([]float64, len(measured))
	copy(buf.row, measured)
	for _, n := range m.order {
		if math.IsNaN(measured[n]) || math.IsInf(measured[n], 0) {
			return nil, fmt.Errorf("causal/model: %s: %v was not measured", m.name(n), measured[n])
		}
		r := m.nodes[n]
		residual[n] = r.y(measured[n]) - r.y(r.predict(&m.all.nodes[n], buf.row, buf.x))
	}
	for _, s := range settings {
		c := m.table.Index(s.Column)
		if !slices.Contains(m.roots, c) {
			return nil, fmt.Errorf("causal/model: %q is no parameter or context", s.Column)
		}
		if err := m.checkValue(c, s.Value); err != nil {
			return nil, fmt.Errorf("causal/model: %w", err)
		}
		buf.row[c] = s.Value
	}
	for _, n := range m.order {
		r := m.nodes[n]
		buf.row[n] = r.value(r.y(r.predict(&m.all.nodes[n], buf.row, buf.x)) + residual[n])
		if !r.log && r.low >= 0 {
			buf.row[n] = max(0, buf.row[n])
		}
	}
	return slices.Clone(buf.row), nil
}

// Comparison explains the difference of an objective between two measured runs.
type Comparison struct {
	Objective string `json:"objective"`
	// A and B are the measurements, PredictedA and PredictedB the blended predictions.
	A          float64 `json:"a"`
	B          float64 `json:"b"`
	PredictedA float64 `json:"predicted_a"`
	PredictedB float64 `json:"predicted_b"`
	// Shares sum to PredictedA - PredictedB, in descending order of magnitude.
	Shares []Share `json:"shares"`
	// Unexplained is A - B minus PredictedA - PredictedB.
	Unexplained float64 `json:"unexplained"`
}

// Share is the contribution of one configuration or context column to a difference.
type Share struct {
	Column string  `json:"column"`
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	// NameA and NameB are the categories, for a categorical column.
	NameA string `json:"name_a,omitempty"`
	NameB string `json:"name_b,omitempty"`
	// Contribution is the column's Shapley value, in the objective's units.
	Contribution float64 `json:"contribution"`
	// Via splits the contribution by the column's children in the graph, on the
	// structural head.
	Via []Via `json:"via,omitempty"`
}

// Via is the part of a contribution through a node; a direct edge's Node is the
// objective itself.
type Via struct {
	Node         string  `json:"node"`
	Contribution float64 `json:"contribution"`
}

// permutations is the number of orders sampled for more than five differences; for
// up to five, all orders are used.
const permutations = 200

// Compare explains the difference of an objective between two measured runs by the
// differences of their configurations and contexts: Shapley values over the orders
// of substituting them.
func (m *Model) Compare(objective string, a, b Point, seed uint64) (Comparison, error) {
	k, err := m.objective(objective)
	if err != nil {
		return Comparison{}, err
	}
	for _, p := range []Point{a, b} {
		if err := m.check(p); err != nil {
			return Comparison{}, fmt.Errorf("causal/model: %w", err)
		}
	}
	buf := m.buffer()
	o := m.objectives[k]
	out := Comparison{Objective: objective, A: a[o], B: b[o], PredictedA: m.mean(&m.all, k, a, buf),
		PredictedB: m.mean(&m.all, k, b, buf)}
	out.Unexplained = (out.A - out.B) - (out.PredictedA - out.PredictedB)
	var differ []int
	for _, c := range m.roots {
		if a[c] != b[c] {
			differ = append(differ, c)
		}
	}
	sums := make([]float64, len(differ))
	orders := orders(len(differ), seed)
	p := slices.Clone(b)
	for _, order := range orders {
		copy(p, b)
		before := out.PredictedB
		for _, d := range order {
			p[differ[d]] = a[differ[d]]
			now := m.mean(&m.all, k, p, buf)
			sums[d] += (now - before) / float64(len(orders))
			before = now
		}
	}
	for i, c := range differ {
		s := Share{Column: m.name(c), A: a[c], B: b[c], Contribution: sums[i]}
		if m.scales[c].levels > 0 {
			s.NameA, s.NameB = m.Text(s.Column, a[c]), m.Text(s.Column, b[c])
		}
		s.Via = m.via(k, c, a, b, sums[i], buf)
		out.Shares = append(out.Shares, s)
	}
	slices.SortStableFunc(out.Shares, func(x, y Share) int {
		return cmp.Compare(math.Abs(y.Contribution), math.Abs(x.Contribution))
	})
	return out, nil
}

// orders returns all permutations of up to five items, or random ones of more.
func orders(n int, seed uint64) [][]int {
	var out [][]int
	if n > 5 {
		r := rng.Stream("shapley", seed)
		for range permutations {
			out = append(out, r.Perm(n))
		}
		return out
	}
	var walk func([]int)
	walk = func(p []int) {
		if len(p) == n {
			out = append(out, slices.Clone(p))
			return
		}
		for i := range n {
			if !slices.Contains(p, i) {
				walk(append(p, i))
			}
		}
	}
	walk(make([]int, 0, n))
	return out
}

// via splits a contribution over the children of a column, starting with the effect
// of each child alone.
func (m *Model) via(k, column int, a, b Point, contribution float64, buf *buffer) []Via {
	o := m.objectives[k]
	m.propagate(&m.all, b, buf)
	natural := slices.Clone(buf.row)
	var out []Via
	sum := 0.0
	for _, child := range m.children()[column] {
		if !m.reaches(child, o) {
			continue
		}
		copy(buf.row, natural)
		buf.row[column] = a[column]
		moved := m.nodes[child].predict(&m.all.nodes[child], buf.row, buf.x)
		effect := m.intervene(&m.all, b, map[int]float64{child: moved}, o, false, buf) - natural[o]
		out = append(out, Via{m.name(child), effect})
		sum += math.Abs(effect)
	}
	if sum == 0 {
		return nil
	}
	// Distribute the remainder in proportion to the effects' magnitudes.
	total := 0.0
	for _, v := range out {
		total += v.Contribution
	}
	for i := range out {
		out[i].Contribution += (contribution - total) * math.Abs(out[i].Contribution) / sum
	}
	slices.SortStableFunc(out, func(x,
		y Via) int {
		return cmp.Compare(math.Abs(y.Contribution), math.Abs(x.Contribution))
	})
	return out
}
