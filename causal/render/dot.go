package render

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/autosched/autosched/causal"
)

// arrowheads are the shapes that Graphviz draws marks as.
var arrowheads = map[causal.Mark]string{causal.Circle: "odot", causal.Arrow: "normal", causal.Tail: "none"}

// DOT writes a graph for Graphviz, tiers as clusters from causes to effects. An edge
// has its marks at both ends, a dashed line if something hidden moves both, the width
// of its strength, and the share of bootstrap samples that have it as a label.
func DOT(out io.Writer, d *causal.Document) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "digraph {\n  node [shape=box];")
	names, nodes := tiers(d)
	for _, tier := range names {
		indent := "  "
		if tier != "" {
			fmt.Fprintf(w, "  subgraph cluster_%s {\n    label=%s;\n", tier, quoted(tier))
			indent = "    "
		}
		for _, i := range nodes[tier] {
			fmt.Fprintf(w, "%s%s;\n", indent, quoted(d.Nodes[i].ID))
		}
		if tier != "" {
			fmt.Fprintln(w, "  }")
		}
	}
	for _, e := range sortedEdges(d) {
		e = downwards(e)
		fmt.Fprintf(w, "  %s -> %s [dir=both, arrowtail=%s, arrowhead=%s", quoted(e.Source), quoted(e.Target),
			arrowheads[e.MarkSource], arrowheads[e.MarkTarget])
		if e.MarkSource == causal.Arrow && e.MarkTarget == causal.Arrow {
			fmt.Fprint(w, ", style=dashed, constraint=false")
		}
		if e.Strength != nil {
			fmt.Fprintf(w, ", penwidth=%.2f", 1+3**e.Strength)
		}
		if e.BootFreq != nil {
			fmt.Fprintf(w, ", label=%s", quoted(strconv.FormatFloat(*e.BootFreq, 'f', 2, 64)))
		}
		fmt.Fprintln(w, "];")
	}
	fmt.Fprintln(w, "}")
	return w.Flush()
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns text as a DOT string. Control characters are escaped.
func quoted(s string) string { return `"` + dotEscapes.Replace(printable(s)) + `"` }

// tiers returns the tiers in use, from causes to effects ("" for nodes without one),
// and the nodes of each.
func tiers(d *causal.Document) (names []string, nodes map[string][]int) {
	nodes = map[string][]int{}
	for i := range d.Nodes {
		t := d.Nodes[i].Tier
		nodes[t] = append(nodes[t], i)
	}
	for _, t := range append(causal.TierNames(), "") {
		if len(nodes[t]) > 0 {
			names = append(names, t)
		}
	}
	return names, nodes
}
