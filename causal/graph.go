package causal

import (
	"fmt"
	"strings"
)

// A Mark is the mark at one end of an edge.
type Mark uint8

// The values are those of pcalg's adjacency matrices.
const (
	None   Mark = iota // no edge
	Circle             // arrow in some models that fit, tail in others
	Arrow              // this end does not cause the other
	Tail               // this end causes the other
)

var markNames = []string{"none", "circle", "arrow", "tail"}

func (m Mark) String() string {
	if int(m) < len(markNames) {
		return markNames[m]
	}
	return fmt.Sprintf("Mark(%d)", m)
}

// MarshalText returns the mark's name: circle, arrow or tail.
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText parses circle, arrow or tail.
func (m *Mark) UnmarshalText(text []byte) error {
	for i, name := range markNames {
		if i > 0 && name == string(text) {
			*m = Mark(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a mark; use circle, arrow or tail", text)
}

// A Graph is a mixed graph: at most one edge between two variables, with a mark at
// each end.
type Graph struct {
	n     int
	marks []Mark // [i*n+j]: mark at j of the edge between i and j
}

// NewGraph returns a graph of n variables without edges.
func NewGraph(n int) *Graph { return &Graph{n: n, marks: make([]Mark, n*n)} }

// Len returns the number of variables.
func (g *Graph) Len() int { return g.n }

// At returns the mark at j of the edge between i and j, or None if there is no edge.
func (g *Graph) At(i, j int) Mark { return g.marks[i*g.n+j] }

// Adjacent reports whether there is an edge between i and j.
func (g *Graph) Adjacent(i, j int) bool { return g.marks[i*g.n+j] != None }

// Set puts an edge with marks atI and atJ between i and j; None at both ends removes
// it.
func (g *Graph) Set(i, j int, atI, atJ Mark) {
	if i == j || (atI == None) != (atJ == None) {
		panic(fmt.Sprintf("causal: Set(%d, %d, %v, %v)", i, j, atI, atJ))
	}
	g.marks[j*g.n+i], g.marks[i*g.n+j] = atI, atJ
}

// mark sets the mark at j of the edge between i and j.
func (g *Graph) mark(i, j int, atJ Mark) { g.marks[i*g.n+j] = atJ }

// Is reports whether the edge between i and j has mark atI at i and atJ at j.
func (g *Graph) Is(i, j int, atI, atJ Mark) bool {
	return g.marks[j*g.n+i] == atI && g.marks[i*g.n+j] == atJ
}

// Clone returns a deep copy.
func (g *Graph) Clone() *Graph {
	return &Graph{n: g.n, marks: append([]Mark(nil), g.marks...)}
}

// Neighbours returns the variables adjacent to i, ascending.
func (g *Graph) Neighbours(i int) []int {
	var out []int
	for j := range g.n {
		if g.Adjacent(i, j) {
			out = append(out, j)
		}
	}
	return out
}

// Format writes one edge a line, such as "a o-> b", the earlier variable first.
func (g *Graph) Format(names []string) string {
	var b strings.Builder
	for i := range g.n {
		for j := i + 1; j < g.n; j++ {
			if g.Adjacent(i, j) {
				fmt.Fprintf(&b, "%s %s %s\n", names[i], Arrows(g.At(j, i), g.At(i, j)), names[j])
			}
		}
	}
	return b.String()
}

// Arrows returns the drawing of an edge with the given marks, such as "o->".
func Arrows(left, right Mark) string {
	l := map[Mark]string{Circle: "o", Arrow: "<", Tail: "-"}[left]
	r := map[Mark]string{Circle: "o", Arrow: ">", Tail: "-"}[right]
	return l + "-" + r
}
