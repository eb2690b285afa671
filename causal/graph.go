package causal

import (
	"fmt"
	"strings"
)

// A Mark is what an edge has at one of its ends.
type Mark uint8

// The codes are those of the adjacency matrices of R's pcalg.
const (
	None   Mark = iota // no edge
	Circle             // arrow in some of the models that fit, tail in others
	Arrow              // this end is no cause of the other
	Tail               // this end is a cause of the other
)

var markNames = []string{"none", "circle", "arrow", "tail"}

func (m Mark) String() string {
	if int(m) < len(markNames) {
		return markNames[m]
	}
	return fmt.Sprintf("Mark(%d)", m)
}

// MarshalText writes circle, arrow or tail.
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *Mark) UnmarshalText(text []byte) error {
	for i, name := range markNames {
		if i > 0 && name == string(text) {
			*m = Mark(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a mark; use circle, arrow or tail", text)
}

// A Graph is a mixed graph: at most one edge between two variables, with a mark
// at each end.
type Graph struct {
	n     int
	marks []Mark // at [i*n+j] the mark at j of the edge between i and j
}

// NewGraph returns a graph of n variables without edges.
func NewGraph(n int) *Graph { return &Graph{n: n, marks: make([]Mark, n*n)} }

// Len is the number of variables.
func (g *Graph) Len() int { return g.n }

// At returns the mark at j of the edge between i and j, None without an edge.
func (g *Graph) At(i, j int) Mark { return g.marks[i*g.n+j] }

// Adjacent reports whether there is an edge between i and j.
func (g *Graph) Adjacent(i, j int) bool { return g.marks[i*g.n+j] != None }

// Set puts an edge between i and j with a mark at each, or takes it away with
// None at both.
func (g *Graph) Set(i, j int, atI, atJ Mark) {
	if i == j || (atI == None) != (atJ == None) {
		panic(fmt.Sprintf("causal: Set(%d, %d, %v, %v)", i, j, atI, atJ))
	}
	g.marks[j*g.n+i], g.marks[i*g.n+j] = atI, atJ
}

// mark changes one end of an edge.
func (g *Graph) mark(i, j int, atJ Mark) { g.marks[i*g.n+j] = atJ }

// Is reports whether the edge between i and j has these marks at i and at j.
func (g *Graph) Is(i, j int, atI, atJ Mark) bool {
	return g.marks[j*g.n+i] == atI && g.marks[i*g.n+j] == atJ
}

// Clone returns a copy.
func (g *Graph) Clone() *Graph {
	return &Graph{n: g.n, marks: append([]Mark(nil), g.marks...)}
}

// Equal reports whether two graphs have the same edges and marks.
func (g *Graph) Equal(h *Graph) bool {
	return g.n == h.n && string(markBytes(g.marks)) == string(markBytes(h.marks))
}

func markBytes(marks []Mark) []byte {
	b := make([]byte, len(marks))
	for i, m := range marks {
		b[i] = byte(m)
	}
	return b
}

// Neighbours returns the variables that have an edge with i, ascending.
func (g *Graph) Neighbours(i int) []int {
	var out []int
	for j := range g.n {
		if g.Adjacent(i, j) {
			out = append(out, j)
		}
	}
	return out
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

// Matrix returns the marks: at [i][j] the one at j.
func (g *Graph) Matrix() [][]Mark {
	out := make([][]Mark, g.n)
	for i := range out {
		out[i] = append([]Mark(nil), g.marks[i*g.n:(i+1)*g.n]...)
	}
	return out
}

// Format writes the edges one a line, "a o-> b", the earlier variable first.
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

// Arrows draws an edge by its marks at the left and at the right: "o->".
func Arrows(left, right Mark) string {
	l := map[Mark]string{Circle: "o", Arrow: "<", Tail: "-"}[left]
	r := map[Mark]string{Circle: "o", Arrow: ">", Tail: "-"}[right]
	return l + "-" + r
}
