package causal

import (
	"cmp"
	"fmt"
	"slices"
)

// A DAG is a directed acyclic graph resolved from a learned graph, with the
// assumptions made.
type DAG struct {
	// Order holds the variables, causes first.
	Order []int
	// Arcs are the directed edges, sorted by effect, then cause.
	Arcs []Arc
	// Correlated pairs share a hidden cause: their noise is correlated, and neither is
	// a parent of the other.
	Correlated [][2]int
	// Assumed lists the assumptions in the order in which they were made.
	Assumed []Assumption
}

// An Arc is a directed edge.
type Arc struct {
	From, To int
	// ConfoundingPossible is true if a hidden common cause may account for all or part
	// of the effect.
	ConfoundingPossible bool
}

// An Assumption resolves an edge whose marks leave its direction open.
type Assumption struct {
	I, J int
	// From is the learned edge, as Arrows draws it, and To the resolved one: "-->"
	// from I to J, "<--", "<->" or "dropped".
	From, To string
	Reason   string
}

// resolver turns a graph into a DAG.
type resolver struct {
	result *Result
	table  *Table
	order  []int // given by the caller, causes first
	n      int
	arcs   []Arc
	dag    *DAG
}

// Resolve turns a learned graph into a DAG. An edge with one arrowhead is directed;
// a bidirected edge becomes correlated noise. Any other edge is directed by order
// (causes first; may be nil), else in the direction in which the effect's residual
// depends less on the cause, else by column order. These edges are directed in
// descending order of strength; a direction that would close a cycle is reversed. If
// the edges that the data direct contain a cycle, as happens in small samples, its
// weakest edge is dropped.
func Resolve(r *Result, t *Table, order []int) *DAG {
	n := r.Graph.Len()
	v := &resolver{result: r, table: t, order: order, n: n, dag: &DAG{}}
	var open [][2]int
	for i := range n {
		for j := i + 1; j < n; j++ {
			if !r.Graph.Adjacent(i, j) {
				continue
			}
			if v.directed(i, j) || v.directed(j, i) {
				continue
			}
			switch left, right := r.Graph.At(j, i), r.Graph.At(i, j); {
			case left == Arrow && right == Arrow:
				v.dag.Correlated = append(v.dag.Correlated, [2]int{i, j})
			default:
				open = append(open, [2]int{i, j})
			}
		}
	}
	v.breakCycles()
	// Strong edges first: a weaker, later one is reversed where it would close a
	// cycle.
	slices.SortStableFunc(open, func(a, b [2]int) int {
		return cmp.Compare(r.Evidence(b[0], b[1]).Strength, r.Evidence(a[0], a[1]).Strength)
	})
	for _, e := range open {
		v.direct(e[0], e[1])
	}
	slices.SortFunc(v.arcs, func(a, b Arc) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	v.dag.Arcs = v.arcs
	v.dag.Order = v.sorted()
	return v.dag
}

func (v *resolver) assume(i, j int, to, reason string) {
	g := v.result.Graph
	v.dag.Assumed = append(v.dag.Assumed, Assumption{i, j, Arrows(g.At(j, i), g.At(i, j)), to, reason})
}

// directed adds the arc i to j if the marks make i the cause of j, and reports
// whether it did.
func (v *resolver) directed(i, j int) bool {
	atI, atJ := v.result.Graph.At(j, i), v.result.Graph.At(i, j)
	switch {
	case atI == Tail && atJ == Arrow:
		v.arcs = append(v.arcs, Arc{i, j, !v.result.Visible(i, j)})
	case atI == Circle && atJ == Arrow:
		v.arcs = append(v.arcs, Arc{i, j, true})
		v.note(i, j, "taken for a cause; the data would also allow a hidden common cause instead")
	case atI == Tail && atJ == Circle:
		v.arcs = append(v.arcs, Arc{i, j, true})
		v.note(i, j, "taken for a cause; the data would also allow that the rows were selected by both")
	default:
		return false
	}
	return true
}

// note records the direction i to j as an assumption, the earlier variable first.
func (v *resolver) note(i, j int, reason string) {
	if i < j {
		v.assume(i, j, "-->", reason)
	} else {
		v.assume(j, i, "<--", reason)
	}
}

// breakCycles drops the weakest edge of every cycle.
func (v *resolver) breakCycles() {
	for {
		worst := -1
		for k, a := range v.arcs {
			if !v.reaches(a.To, a.From) {
				continue
			}
			if worst < 0 || v.weaker(a, v.arcs[worst]) {
				worst = k
			}
		}
		if worst < 0 {
			return
		}
		a := v.arcs[worst]
		v.arcs = slices.Delete(v.arcs, worst, worst+1)
		v.assume(min(a.From, a.To), max(a.From, a.To), "dropped",
			"it closes a cycle of causes and has the weakest evidence of its edges: a sign of too few rows")
	}
}

func (v *resolver) weaker(a, b Arc) bool {
	x, y := v.result.Evidence(a.From, a.To), v.result.Evidence(b.From, b.To)
	if x.P != y.P {
		return x.P > y.P
	}
	return x.Strength < y.Strength
}

// reaches reports whether a directed path leads from a to b.
func (v *resolver) reaches(a, b int) bool {
	var seen set
	stack := []int{a}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if at == b {
			return true
		}
		if seen.has(at) {
			continue
		}
		seen = seen.with(at)
		for _, arc := range v.arcs {
			if arc.From == at {
				stack = append(stack, arc.To)
			}
		}
	}
	return false
}

// direct chooses a direction for an edge whose marks leave it open.
func (v *resolver) direct(i, j int) {
	from, to := i, j
	var reason string
	at, before := slices.Index(v.order, i), slices.Index(v.order, j)
	if at >= 0 && before >= 0 {
		if before < at {
			from, to = j, i
		}
		reason = "the order given says so"
	} else if forth, back, ok := v.residuals(i, j); ok && forth != back {
		if back > forth {
			from, to = j, i
		}
		reason = fmt.Sprintf(
			"what the cause leaves unexplained depends less on it in this direction (p %.3g against %.3g)",
			max(forth, back), min(forth, back))
	} else {
		reason = "the data do not tell the direction: the earlier column is taken for the cause"
	}
	if v.reaches(to, from) {
		from, to = to, from
		reason = "the other direction would close a cycle"
	}
	v.arcs = append(v.arcs, Arc{from, to, true})
	v.note(from, to, reason)
}

// sorted returns the variables in topological order, ties by index.
func (v *resolver) sorted() []int {
	waiting := make([]int, v.n)
	for _, a := range v.arcs {
		waiting[a.To]++
	}
	order := make([]int, 0, v.n)
	var done set
	for len(order) < v.n {
		next := 0
		for done.has(next) || waiting[next] > 0 {
			next++
		}
		done = done.with(next)
		order = append(order, next)
		for _, a := range v.arcs {
			if a.From == next {
				waiting[a.To]--
			}
		}
	}
	return order
}
