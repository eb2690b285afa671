// Package render writes causal graphs as text and for Graphviz.
package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/autosched/autosched/causal"
)

// A Format is an output format.
type Format struct {
	Name string
	// Is is a one-line description.
	Is    string
	Write func(io.Writer, *causal.Document) error
}

// Formats returns the output formats.
func Formats() []Format {
	return []Format{
		{"table", "edges with their evidence, for people", Table},
		{"json", "the document, as learn writes it", func(w io.Writer, d *causal.Document) error { return d.Write(w) }},
		{"dot", "a drawing for Graphviz: pipe it to dot -Tsvg", DOT},
	}
}

// Find returns the named format.
func Find(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("%q is not a format; there are %s", name, strings.Join(names, ", "))
}

// AsDAG returns a document whose edges are those of the DAG: a directed edge has a
// tail and an arrow, a correlated pair two arrows. Edges keep their evidence. It
// returns an error for a document without a DAG.
func AsDAG(d *causal.Document) (*causal.Document, error) {
	if d.DAG == nil {
		return nil, fmt.Errorf("the graph holds no DAG: learn writes one")
	}
	out := *d
	out.Edges = []causal.Edge{}
	evidence := func(a, b string) causal.Edge {
		for _, e := range d.Edges {
			if e.Source == a && e.Target == b || e.Source == b && e.Target == a {
				return e
			}
		}
		return causal.Edge{}
	}
	add := func(a, b string, left causal.Mark) {
		e := evidence(a, b)
		e.Source, e.Target, e.MarkSource, e.MarkTarget = a, b, left, causal.Arrow
		out.Edges = append(out.Edges, e)
	}
	for _, e := range d.DAG.Edges {
		add(e.Source, e.Target, causal.Tail)
	}
	for _, pair := range d.DAG.Correlated {
		add(pair[0], pair[1], causal.Arrow)
	}
	return &out, nil
}

// downwards swaps the ends of an edge with an arrow at its source only, so that it
// leads from cause to effect.
func downwards(e causal.Edge) causal.Edge {
	if e.MarkSource == causal.Arrow && e.MarkTarget != causal.Arrow {
		e.Source, e.Target, e.MarkSource, e.MarkTarget = e.Target, e.Source, e.MarkTarget, e.MarkSource
	}
	return e
}

// printable returns a name without terminal control characters.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// indexOf maps names to node indices.
func indexOf(d *causal.Document) map[string]int {
	index := make(map[string]int, len(d.Nodes))
	for i := range d.Nodes {
		index[d.Nodes[i].ID] = i
	}
	return index
}

// sortedEdges returns the edges sorted by the indices of their nodes.
func sortedEdges(d *causal.Document) []causal.Edge {
	index := indexOf(d)
	edges := slices.Clone(d.Edges)
	slices.SortStableFunc(edges, func(a, b causal.Edge) int {
		ka := min(index[a.Source], index[a.Target])*len(index) + max(index[a.Source], index[a.Target])
		kb := min(index[b.Source], index[b.Target])*len(index) + max(index[b.Source], index[b.Target])
		return ka - kb
	})
	return edges
}
