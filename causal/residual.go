package causal

import (
	"slices"
)

// ridge is added to the diagonal of the normal equations of standardised regressors,
// to keep them solvable where regressors determine each other.
const ridge = 1e-8

// residuals tests both directions of the edge between i and j: forth and back are
// the p-values of independence of cause and residual for i -> j and j -> i (additive
// noise models: Hoyer et al., "Nonlinear causal discovery with additive noise
// models", 2009). The known causes of both take part in the regressions. ok is false
// if either variable is categorical or a regression is impossible.
func (v *resolver) residuals(i, j int) (forth, back float64, ok bool) {
	if v.table == nil || v.table.Column(i).Kind == Categorical || v.table.Column(j).Kind == Categorical {
		return 0, 0, false
	}
	var known set
	for _, a := range v.arcs {
		if a.To == i || a.To == j {
			known = known.with(a.From)
		}
	}
	known = known.without(i).without(j)
	one, ok1 := v.residual(i, j, known.list())
	two, ok2 := v.residual(j, i, known.list())
	return one, two, ok1 && ok2
}

// residual regresses y on functions of x and of the known causes. It returns the
// p-value of independence of x and the residual.
func (v *resolver) residual(x, y int, known []int) (float64, bool) {
	basis, _, err := newBasis(v.table.Columns(append([]int{x}, known...)), basisOptions{degree: 3})
	if err != nil {
		return 0, false
	}
	columns := make([][]float64, 0, len(basis.base))
	for _, c := range basis.base {
		if z, ok := standardised(c); ok {
			columns = append(columns, z)
		}
	}
	target, ok := standardised(v.table.Column(y).Values)
	if !ok || len(columns)+2 >= len(target) {
		return 0, false
	}
	rest := regress(columns, target)
	pair, err := NewTable(Column{Name: "x", Values: v.table.Column(x).Values}, Column{Name: "rest", Values: rest})
	if err != nil {
		return 0, false
	}
	test, _, err := newBasis(pair, basisOptions{degree: 3, rank: true})
	if err != nil {
		return 0, false
	}
	return test.Worker()(0, 1, nil).P, true
}

// regress returns the residual of y in a linear regression on standardised columns.
func regress(columns [][]float64, y []float64) []float64 {
	m := len(columns)
	size := m + 1
	c := make([]float64, size*size)
	n := float64(len(y))
	all := append(slices.Clip(columns), y)
	for i := range size {
		for j := range i + 1 {
			c[i*size+j] = dot(all[i], all[j]) / n
		}
		c[i*size+i] += ridge
	}
	if !choleskyPartial(c, m, size) {
		return slices.Clone(y)
	}
	// Row m now holds the solution of L b = cov(columns, y).
	b := slices.Clone(c[m*size : m*size+m])
	for i := m - 1; i >= 0; i-- {
		for k := i + 1; k < m; k++ {
			b[i] -= c[k*size+i] * b[k]
		}
		b[i] /= c[i*size+i]
	}
	rest := slices.Clone(y)
	for k, column := range columns {
		for r, v := range column {
			rest[r] -= b[k] * v
		}
	}
	return rest
}
