package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/stats"
)

// maxSample is the largest number of rows over which effects are averaged.
const maxSample = 400

// sample returns up to maxSample evenly spaced rows, over which effects are
// averaged.
func (m *Model) sample() [][]float64 {
	if len(m.rows) <= maxSample {
		return m.rows
	}
	out := make([][]float64, maxSample)
	for i := range out {
		out[i] = m.rows[i*len(m.rows)/maxSample]
	}
	return out
}

// levels returns the values at which a variable's effect is evaluated: all
// categories, all values of a numeric variable with up to five, otherwise its 5, 25,
// 50, 75 and 95 % quantiles.
func (m *Model) levels(column int) []float64 {
	var values []float64
	if l := m.scales[column].levels; l > 0 {
		for i := range l {
			values = append(values, float64(i))
		}
		return values
	}
	for _, row := range m.rows {
		values = append(values, row[column])
	}
	slices.Sort(values)
	if distinct := slices.Compact(slices.Clone(values)); len(distinct) <= 5 {
		return distinct
	}
	var out []float64
	for _, q := range []float64{.05, .25, .5, .75, .95} {
		out = append(out, stats.Quantile(values, q))
	}
	return slices.Compact(out)
}

// Level is the mean objective at one value of a variable.
type Level struct {
	Value float64 `json:"value"`
	// Name is the category; empty for numbers.
	Name string  `json:"name,omitempty"`
	Mean float64 `json:"mean"`
}

func (m *Model) level(column int, v, mean float64) Level {
	l := Level{Value: v, Mean: mean}
	if c := m.table.Column(column); c.Kind == causal.Categorical {
		l.Name = c.Levels[int(v)]
	}
	return l
}

// Effect is the average causal effect of a parameter on an objective: the difference
// between the objective's means at the parameter's worst and best values, all else
// as in the rows.
type Effect struct {
	Parameter string `json:"parameter"`
	Objective string `json:"objective"`
	// ACE is the largest mean minus the smallest, in the objective's units; Percent is
	// its share of the mean objective.
	ACE     float64 `json:"ace"`
	Percent float64 `json:"percent"`
	// Low and High are the 90 % bootstrap interval of ACE; effects are ranked by Low.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Direction is the mean at the highest value minus the mean at the lowest; 0 for
	// categories.
	Direction float64 `json:"direction"`
	Levels    []Level `json:"levels"`
	// Inert parameters have no possibly causal path to the objective, and an effect
	// whose interval includes 0.
	Inert bool `json:"inert"`
	// Connected is true if a directed path leads to the objective.
	Connected bool `json:"connected"`
}

// Effects returns the effect of every parameter on an objective, by the direct head,
// in descending order of Low.
func (m *Model) Effects(objective string) ([]Effect, error) {
	k, err := m.objective(objective)
	if err != nil {
		return nil, err
	}
	rows := m.sample()
	mean := 0.0
	for _, row := range rows {
		mean += row[m.objectives[k]] / float64(len(rows))
	}
	var out []Effect
	for _, c := range m.config {
		e := Effect{Parameter: m.name(c), Objective: objective, Connected: m.reaches(c, m.objectives[k])}
		values := m.levels(c)
		means := m.directMeans(k, rows, c, values)
		low, high := 0, 0
		for i := range values {
			e.Levels = append(e.Levels, m.level(c, values[i], means[i][0]))
			if means[i][0] < means[low][0] {
				low = i
			}
			if means[i][0] > means[high][0] {
				high = i
			}
		}
		e.ACE = means[high][0] - means[low][0]
		e.Percent = 100 * e.ACE / max(math.Abs(mean), 1e-12)
		squares := 0.0
		for b := range m.boots {
			d := means[high][b+1] - means[low][b+1] - e.ACE
			squares += d * d / float64(len(m.boots))
		}
		sd := math.Sqrt(squares)
		e.Low, e.High = max(0, e.ACE-q95*sd), e.ACE+q95*sd
		if m.scales[c].levels == 0 && len(values) > 0 {
			e.Direction = means[len(values)-1][0] - means[0][0]
		}
		e.Inert = e.Low == 0 && !m.mayReach(c, m.objectives[k])
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Effect) int {
		return cmp.Or(cmp.Compare(b.Low, a.Low), cmp.Compare(b.ACE, a.ACE))
	})
	return out, nil
}

// directMeans returns the direct head's means over rows with a column set to each
// value: [value][variant], where variant 0 is the fit to all rows and the others are
// bootstrap fits.
func (m *Model) directMeans(k int, rows [][]float64, column int, values []float64) [][]float64 {
	buf := m.buffer()
	out := make([][]float64, len(values))
	for i, v := range values {
		out[i] = make([]float64, len(m.boots)+1)
		for _, row := range rows {
			copy(buf.row, row)
			buf.row[column] = v
			out[i][0] += m.direct[k].predict(&m.all.direct[k], buf.row, buf.x)
			for b := range m.boots {
				if b >= folds && m.direct[k].family == Boosted {
					break // variants repeat the folds, see solve
				}
				out[i][b+1] += m.direct[k].predict(&m.boots[b].direct[k], buf.row, buf.x)
			}
		}
		if m.direct[k].family == Boosted {
			for b := folds; b < len(m.boots); b++ {
				out[i][b+1] = out[i][b+1-folds]
			}
		}
		for b := range out[i] {
			out[i][b] /= float64(len(rows))
		}
	}
	return out
}

// children returns each column's effects.
func (m *Model) children() [][]int {
	out := make([][]int, m.table.Len())
	for _, v := range m.order {
		for _, p := range m.s.Parents[v] {
			out[p] = append(out[p], v)
		}
	}
	return out
}

func (m *Model) reaches(from, to int) bool { return m.leads(m.children(), from, to) }

// mayReach reports whether a path of Parents and MayCause edges leads from one
// column to another.
func (m *Model) mayReach(from, to int) bool {
	children := m.children()
	for _, e := range m.s.MayCause {
		children[e[0]] = append(children[e[0]], e[1])
	}
	return m.leads(children, from, to)
}

func (m *Model) leads(children [][]int, from, to int) bool {
	seen := make([]bool, m.table.Len())
	var walk func(int) bool
	walk = func(v int) bool {
		if v == to {
			return true
		}
		if seen[v] {
			return false
		}
		seen[v] = true
		return slices.ContainsFunc(children[v], walk)
	}
	return walk(from)
}

// Arc is the effect of an edge: how the target's mean moves with its cause, the other causes
// being as in the rows. Values are in the target's units.
type Arc struct {
	Source string `json:"source"`
	Target string `json:"target"`
	// Range is the largest mean over the cause's levels minus the smallest.
	Range float64 `json:"range"`
	// Direction is the mean at the cause's highest level minus that at the lowest, with its 90 % bootstrap
	// interval; all 0 for categories.
	Direction float64 `json:"direction"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	// Confounded is true if a hidden cause may account for the edge.
	Confounded bool `json:"confounded,omitempty"`
}

// Arcs returns the edges into metrics and objectives, targets in causal order.
func (m *Model) Arcs() []Arc {
	rows := m.sample()
	if len(rows) > 100 {
		rows = rows[:100:100]
	}
	buf := m.buffer()
	mean := func(v *variant, source, target int, level float64) float64 {
		sum := 0.0
		for _, row := range rows {
			copy(buf.row, row)
			buf.row[source] = level
			sum += m.nodes[target].predict(&v.nodes[target], buf.row, buf.x)
		}
		return sum / float64(len(rows))
	}
	var out []Arc
	for _, target := range m.order {
		for _, source := range m.s.Parents[target] {
			a := Arc{Source: m.name(source), Target: m.name(target), Confounded: m.confounded(source, target)}
			levels := m.levels(source)
			low, high := math.Inf(1), math.Inf(-1)
			for _, level := range levels {
				x := mean(&m.all, source, target, level)
				low, high = min(low, x), max(high, x)
			}
			a.Range = max(0, high-low)
			if first, last := levels[0], levels[len(levels)-1]; m.scales[source].levels == 0 {
				change := func(v *variant) float64 {
					return mean(v, source, target, last) - mean(v, source, target, first)
				}
				a.Direction = change(&m.all)
				squares := 0.0
				for b := range m.boots {
					d := change(&m.boots[b]) - a.Direction
					squares += d * d / float64(len(m.boots))
				}
				sd := math.Sqrt(squares)
				a.Low, a.High = a.Direction-q95*sd, a.Direction+q95*sd
			}
			out = append(out, a)
		}
	}
	return out
}

// Path is a directed path from a parameter to an objective.
type Path struct {
	Nodes []string `json:"nodes"`
	// Effect is the range of the objective's mean over the parameter's values when the
	// parameter acts along this path only, in the objective's units.
	Effect float64 `json:"effect"`
	// Strength is the mean over the edges of the edge's effect in standard deviations
	// of its target (Unicorn's path effect, made dimensionless).
	Strength float64 `json:"strength"`
	// Confounded is true if a hidden cause may account for an edge of the path.
	Confounded bool `json:"confounded,omitempty"`
}

// maxPaths bounds the paths enumerated: their number grows exponentially.
const maxPaths = 2000

// Paths returns the directed paths from a parameter, or from every parameter if it
// is empty, to an objective: at most top, in descending order of effect on the
// structural head.
func (m *Model) Paths(objective, parameter string, top int) ([]Path, error) {
	k, err := m.objective(objective)
	if err != nil {
		return nil, err
	}
	var from []int
	for _, c := range m.config {
		if parameter == "" || m.name(c) == parameter {
			from = append(from, c)
		}
	}
	if len(from) == 0 {
		return nil, fmt.Errorf("causal/model: %q is no parameter; there are %v", parameter, m.Parameters())
	}
	children := m.children()
	var paths [][]int
	var walk func([]int)
	walk = func(path []int) {
		if len(paths) == maxPaths {
			return
		}
		last := path[len(path)-1]
		if last == m.objectives[k] {
			paths = append(paths, slices.Clone(path))
			return
		}
		for _, c := range children[last] {
			walk(append(path, c))
		}
	}
	for _, c := range from {
		walk([]int{c})
	}
	strength := map[[2]int]float64{}
	out := []Path{}
	for _, path := range paths {
		p := Path{Nodes: m.names(path), Effect: m.pathEffect(path)}
		for i := 1; i < len(path); i++ {
			e := [2]int{path[i-1], path[i]}
			if _, ok := strength[e]; !ok {
				strength[e] = m.pathEffect(path[i-1:i+1]) / m.deviation(path[i])
			}
			p.Strength += strength[e] / float64(len(path)-1)
			p.Confounded = p.Confounded || m.s.Confounded != nil && m.s.Confounded(e[0], e[1])
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Path) int { return cmp.Compare(b.Effect, a.Effect) })
	return out[:min(top, len(out))], nil
}

func (m *Model) deviation(column int) float64 {
	n, mean, squares := float64(len(m.rows)), 0.0, 0.0
	for _, row := range m.rows {
		mean += row[column] / n
	}
	for _, row := range m.rows {
		d := row[column] - mean
		squares += d * d / n
	}
	return max(math.Sqrt(squares), 1e-12)
}

// pathEffect returns the range of the last node's mean over the first node's values,
// if only the nodes of the path respond.
func (m *Model) pathEffect(path []int) float64 {
	rows := m.sample()
	if len(rows) > 100 {
		rows = rows[:100:100]
	}
	buf := m.buffer()
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range m.levels(path[0]) {
		mean := 0.0
		for _, row := range rows {
			m.propagate(&m.all, row, buf)
			// Each node of the path responds to its predecessor on the path only; its
			// other parents keep their values even if they are on the path.
			before, was := path[0], buf.row[path[0]]
			buf.row[before] = v
			for _, n := range path[1:] {
				now := m.nodes[n].predict(&m.all.nodes[n], buf.row, buf.x)
				buf.row[before] = was
				before, was = n, buf.row[n]
				buf.row[n] = now
			}
			mean += buf.row[path[len(path)-1]] / float64(len(rows))
		}
		low, high = min(low, mean), max(high, mean)
	}
	return max(0, high-low)
}
