package causal

import (
	"fmt"
	"slices"
)

// Oracle tests independence by d-separation in the true causal graph. The first
// variables are observed, the others hidden.
type Oracle struct {
	parents  [][]int
	children [][]int
}

// NewOracle returns the oracle of an acyclic graph, given by the parents of every
// variable.
func NewOracle(parents [][]int) (*Oracle, error) {
	n := len(parents)
	o := &Oracle{parents: parents, children: make([][]int, n)}
	waiting := make([]int, n)
	for v, list := range parents {
		for _, p := range list {
			if p < 0 || p >= n || p == v {
				return nil, fmt.Errorf("causal: variable %d cannot have the parent %d", v, p)
			}
			o.children[p] = append(o.children[p], v)
			waiting[v]++
		}
	}
	var ready []int
	for v, w := range waiting {
		if w == 0 {
			ready = append(ready, v)
		}
	}
	done := 0
	for ; done < len(ready); done++ {
		for _, c := range o.children[ready[done]] {
			if waiting[c]--; waiting[c] == 0 {
				ready = append(ready, c)
			}
		}
	}
	if done < n {
		return nil, fmt.Errorf("causal: the true graph has a cycle")
	}
	return o, nil
}

// Ancestor reports whether a is an ancestor of b, or b itself.
func (o *Oracle) Ancestor(a, b int) bool {
	seen := make([]bool, len(o.parents))
	stack := []int{b}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if v == a {
			return true
		}
		if !seen[v] {
			seen[v] = true
			stack = append(stack, o.parents[v]...)
		}
	}
	return false
}

// Separated reports whether x and y are d-separated given others (Koller and
// Friedman, "Probabilistic Graphical Models", algorithm 3.1).
func (o *Oracle) Separated(x, y int, given []int) bool {
	n := len(o.parents)
	observed := make([]bool, n)
	above := make([]bool, n) // the given and their ancestors
	stack := append([]int(nil), given...)
	for _, v := range given {
		observed[v] = true
	}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !above[v] {
			above[v] = true
			stack = append(stack, o.parents[v]...)
		}
	}
	// A variable is visited from below (from a child) or from above.
	type visit struct {
		v         int
		fromAbove bool
	}
	seen := make([]bool, 2*n)
	walk := []visit{{x, false}}
	for len(walk) > 0 {
		at := walk[len(walk)-1]
		walk = walk[:len(walk)-1]
		key := 2*at.v + btoi(at.fromAbove)
		if seen[key] {
			continue
		}
		seen[key] = true
		if at.v == y {
			return false
		}
		if !observed[at.v] {
			for _, c := range o.children[at.v] {
				walk = append(walk, visit{c, true})
			}
		}
		if at.fromAbove && above[at.v] || !at.fromAbove && !observed[at.v] {
			for _, p := range o.parents[at.v] {
				walk = append(walk, visit{p, false})
			}
		}
	}
	return true
}

// Worker implements Independence: P is 1 for independence, otherwise 0.
func (o *Oracle) Worker() func(x, y int, given []int) Outcome {
	return func(x, y int, given []int) Outcome {
		if o.Separated(x, y, given) {
			return Outcome{P: 1}
		}
		return Outcome{Strength: 1}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Equal reports whether two graphs have the same edges and marks.
func (g *Graph) Equal(h *Graph) bool {
	return g.n == h.n && slices.Equal(g.marks, h.marks)
}

// Edges returns the number of edges.
func (g *Graph) Edges() int {
	n := 0
	for i := range g.n {
		for j := i + 1; j < g.n; j++ {
			if g.Adjacent(i, j) {
				n++
			}
		}
	}
	return n
}
