package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Formula is a model in closed form, for evaluation elsewhere, such as by a web
// page. It gives the results of Predict and Do exactly.
type Formula struct {
	Columns []FormulaColumn `json:"columns"`
	// Nodes are the metrics and objectives, causes first.
	Nodes []FormulaNode `json:"nodes"`
	// Objectives are blends of a node and a direct head.
	Objectives []FormulaObjective `json:"objectives"`
}

// FormulaColumn defines how a column's value v becomes a regressor: z = (clamp(log v
// or v, Low, Top) - Mean) / SD, or an indicator for every level but the first.
type FormulaColumn struct {
	Name   string   `json:"name"`
	Tier   string   `json:"tier"`
	Levels []string `json:"levels,omitempty"`
	Log    bool     `json:"log,omitempty"`
	Mean   float64  `json:"mean"`
	SD     float64  `json:"sd"`
	Low    float64  `json:"low"`
	Top    float64  `json:"top"`
	// Least and Most are the smallest and largest values in the rows.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	Whole bool    `json:"whole,omitempty"`
}

// FormulaNode is a regression: y = clamp(sum of coefficients times regressors, Low,
// Top); the value is exp(y) if Log, otherwise y. The regressors are 1, then z or
// indicators of the parents in turn, then, if there are as many coefficients, the
// squares of the numeric parents, then products (each parent with every earlier
// one).
type FormulaNode struct {
	Column  int   `json:"column"`
	Parents []int `json:"parents"`
	Log     bool  `json:"log,omitempty"`
	// Positive values have their interval on the log scale though the fit is not: from
	// value*exp(-q s) to value*exp(q s), s^2 = log(1 + (sd/value)^2).
	Positive bool    `json:"positive,omitempty"`
	Low      float64 `json:"low"`
	Top      float64 `json:"top"`
	// Coef holds the coefficients of the fit to all rows, then of the bootstrap fits.
	Coef [][]float64 `json:"coef"`
	// Confounded lists the parents with a possible hidden common cause.
	Confounded []int `json:"confounded,omitempty"`
	// Text is the equation with its largest terms, for readers.
	Text string `json:"text"`
}

// FormulaObjective is an objective's blend.
type FormulaObjective struct {
	Direct FormulaNode `json:"direct"`
	// Weight is the weight of the structural head. Spread is the standard deviation of
	// a measurement about the prediction, in the units of the direct head's fit.
	Weight float64 `json:"weight"`
	Spread float64 `json:"spread"`
}

// Formula returns the model in closed form. It returns an error for a model that
// contains trees.
func (m *Model) Formula() (*Formula, error) {
	f := &Formula{}
	for i := range m.table.Len() {
		c, s := m.table.Column(i), &m.scales[i]
		low, high := m.Range(c.Name)
		whole := !slices.ContainsFunc(m.rows, func(row []float64) bool { return row[i] != math.Trunc(row[i]) })
		f.Columns = append(f.Columns, FormulaColumn{Name: c.Name, Tier: m.s.Tiers[i], Levels: c.Levels, Log: s.log,
			Mean: s.mean, SD: s.sd, Low: s.low, Top: s.top, Least: low, Most: high, Whole: whole})
	}
	for _, n := range m.order {
		node, err := m.formula(m.nodes[n], func(v *variant) *fitted { return &v.nodes[n] })
		if err != nil {
			return nil, err
		}
		for _, p := range m.s.Parents[n] {
			if m.confounded(p, n) {
				node.Confounded = append(node.Confounded, p)
			}
		}
		f.Nodes = append(f.Nodes, node)
	}
	for k := range m.objectives {
		node, err := m.formula(m.direct[k], func(v *variant) *fitted { return &v.direct[k] })
		if err != nil {
			return nil, err
		}
		f.Objectives = append(f.Objectives, FormulaObjective{node, m.blend[k], m.spread[k]})
	}
	return f, nil
}

func (m *Model) formula(r *regression, of func(*variant) *fitted) (FormulaNode, error) {
	if r.family == Boosted {
		return FormulaNode{}, fmt.Errorf("causal/model: %s is predicted by trees, which have no formula",
			m.name(r.target))
	}
	low, top := r.bounds()
	n := FormulaNode{Column: r.target, Parents: slices.Clone(r.basis.parents), Log: r.log,
		Positive: r.positive(), Low: low, Top: top}
	if n.Parents == nil {
		n.Parents = []int{}
	}
	n.Coef = append(n.Coef, of(&m.all).coef)
	for b := range m.boots {
		n.Coef = append(n.Coef, of(&m.boots[b]).coef)
	}
	n.Text = m.equation(r, n.Coef[0])
	return n, nil
}

// maxTerms is the number of terms of an equation for readers.
const maxTerms = 6

// equation returns the largest terms of a regression as text, with numbers as
// z-scores.
func (m *Model) equation(r *regression, coef []float64) string {
	names := m.terms(&r.basis)
	by := make([]int, 0, len(coef))
	for k := 1; k < len(coef); k++ {
		by = append(by, k)
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(math.Abs(coef[b]), math.Abs(coef[a])) })
	name := m.name(r.target)
	if r.log {
		name = "log " + name
	}
	var b strings.Builder
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	b.WriteString(name + " = " + number(coef[0]))
	for i, k := range by {
		if i == maxTerms {
			fmt.Fprintf(&b, " and %d smaller terms", len(by)-i)
			break
		}
		sign := "+"
		if coef[k] < 0 {
			sign = "-"
		}
		fmt.Fprintf(&b, " %s %s %s", sign, number(math.Abs(coef[k])), names[k])
	}
	return b.String()
}

// terms returns the names of a basis's regressors, in order.
func (m *Model) terms(b *basis) []string {
	out := []string{"1"}
	of := func(p, w int) string {
		c := m.table.Column(p)
		if b.scales[p].levels > 0 {
			return "[" + c.Name + " is " + c.Levels[w+1] + "]"
		}
		return "z(" + c.Name + ")"
	}
	for _, p := range b.parents {
		for w := range b.width(p) {
			out = append(out, of(p, w))
		}
	}
	for _, p := range b.parents {
		if b.scales[p].levels == 0 {
			out = append(out, of(p, 0)+"^2")
		}
	}
	if len(b.parents) > maxProducts {
		return out
	}
	for i, p := range b.parents {
		for _, q := range b.parents[:i] {
			for u := range b.width(p) {
				for v := range b.width(q) {
					out = append(out, of(p, u)+" "+of(q, v))
				}
			}
		}
	}
	return out
}
