package render

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/autosched/autosched/causal"
)

// tierColours are the fill colours of the boxes; tiers are labelled too.
var tierColours = map[string]string{
	causal.TierContext: "#e8e8e8", causal.TierConfig: "#cfe2ff", causal.TierMetric: "#fff3cd",
	causal.TierObjective: "#f8d7da", "": "#ffffff",
}

// DOT writes a graph for Graphviz: tiers as clusters, marks at both ends of an edge,
// dashed edges for hidden causes, widths by strength, and bootstrap frequencies as
// labels.
func DOT(out io.Writer, d *causal.Document) error {
	w := bufio.NewWriter(out)
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ").Replace(s) + `"`
	}
	fmt.Fprintln(w, "digraph G {")
	fmt.Fprintln(w,
		`  rankdir=TB; node [shape=box, style="rounded,filled", fontname="Helvetica"]; edge [fontname="Helvetica", fontsize=9];`)
	names, nodes := tiers(d)
	for _, tier := range names {
		indent, end := "  ", "\n"
		if tier != "" {
			fmt.Fprintf(w, `  subgraph cluster_%s { label="%s"; color="#bbbbbb"; rank=same; `, tier, tier)
			indent, end = "", " "
		}
		for _, i := range nodes[tier] {
			fmt.Fprintf(w, `%s%s [fillcolor="%s"];%s`, indent, quote(d.Nodes[i].ID), tierColours[tier], end)
		}
		if tier != "" {
			fmt.Fprintln(w, "}")
		}
	}
	ends := map[causal.Mark]string{causal.Circle: "odot", causal.Arrow: "normal", causal.Tail: "none"}
	for _, e := range sortedEdges(d) {
		e = downwards(e)
		fmt.Fprintf(w, "  %s -> %s [dir=both, arrowtail=%s, arrowhead=%s", quote(e.Source), quote(e.Target),
			ends[e.MarkSource], ends[e.MarkTarget])
		if e.MarkSource == causal.Arrow && e.MarkTarget == causal.Arrow {
			fmt.Fprint(w, ", style=dashed, constraint=false")
		}
		if e.Strength != nil {
			fmt.Fprintf(w, ", penwidth=%.2f", width(e))
		}
		if e.BootFreq != nil {
			fmt.Fprintf(w, `, label="%s"`, strconv.FormatFloat(*e.BootFreq, 'f', 2, 64))
		}
		fmt.Fprintln(w, "];")
	}
	fmt.Fprintln(w, "}")
	return w.Flush()
}

// width returns the line width of an edge, 1 to 4, by strength.
func width(e causal.Edge) float64 {
	if e.Strength == nil {
		return 1.5
	}
	return 1 + 3**e.Strength
}

// plainID matches names that Mermaid accepts unquoted, except its reserved words.
var plainID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

var mermaidWords = regexp.MustCompile(
	`(?i)^(end|graph|flowchart|subgraph|style|class|classdef|click|linkstyle|direction|default|call|href|[ox])$`)

// Mermaid writes a flowchart for Markdown. Mermaid has no circle at one end only: an
// edge with a circle at the cause is dotted, an edge with two circles has both.
func Mermaid(out io.Writer, d *causal.Document) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "flowchart TD")
	names, nodes := tiers(d)
	id := make(map[string]string, len(d.Nodes))
	index := indexOf(d)
	label := strings.NewReplacer(`"`, "#quot;", "\n", " ", "\r", " ", "<", "#lt;", ">", "#gt;")
	for _, tier := range names {
		indent := "  "
		if tier != "" {
			fmt.Fprintf(w, "  subgraph tier_%s [%s]\n", tier, tier)
			indent = "    "
		}
		for _, i := range nodes[tier] {
			name := d.Nodes[i].ID
			if id[name] = name; plainID.MatchString(name) && !mermaidWords.MatchString(name) {
				fmt.Fprintf(w, "%s%s\n", indent, name)
				continue
			}
			id[name] = "v" + strconv.Itoa(i)
			for _, taken := index[id[name]]; taken; _, taken = index[id[name]] {
				id[name] += "_"
			}
			fmt.Fprintf(w, "%s%s[\"%s\"]\n", indent, id[name], label.Replace(name))
		}
		if tier != "" {
			fmt.Fprintln(w, "  end")
		}
	}
	links := map[[2]causal.Mark]string{
		{causal.Tail, causal.Arrow}: "-->", {causal.Circle, causal.Arrow}: "-.->", {causal.Arrow, causal.Arrow}: "<-->",
		{causal.Circle, causal.Circle}: "o--o", {causal.Tail, causal.Tail}: "---", {causal.Tail, causal.Circle}: "--o",
		{causal.Circle, causal.Tail}: "o--",
	}
	for _, e := range sortedEdges(d) {
		e = downwards(e)
		left, right := e.Source, e.Target
		link := links[[2]causal.Mark{e.MarkSource, e.MarkTarget}]
		if link == "o--" {
			left, right, link = right, left, "--o"
		}
		fmt.Fprintf(w, "  %s %s %s\n", id[left], link, id[right])
	}
	return w.Flush()
}

// GraphML writes a graph with marks and evidence as attributes.
func GraphML(out io.Writer, d *causal.Document) error {
	w := bufio.NewWriter(out)
	fmt.Fprint(w, xml.Header, `<graphml xmlns="http://graphml.graphdrawing.org/xmlns">`, "\n")
	for _, k := range [][3]string{
		{"node", "label", "string"}, {"node", "tier", "string"}, {"node", "type", "string"},
		{"edge", "mark_source", "string"}, {"edge", "mark_target", "string"}, {"edge", "p", "double"},
		{"edge", "strength", "double"},
		{"edge", "boot_freq", "double"}, {"edge", "visible", "boolean"},
	} {
		fmt.Fprintf(w, `  <key id="%s" for="%s" attr.name="%s" attr.type="%s"/>`+"\n", k[1], k[0], k[1], k[2])
	}
	fmt.Fprintln(w, `  <graph id="G" edgedefault="directed">`)
	data := func(key, value string) {
		if value != "" {
			fmt.Fprintf(w, `<data key="%s">%s</data>`, key, escape(value))
		}
	}
	index := indexOf(d)
	for i, n := range d.Nodes {
		fmt.Fprintf(w, `    <node id="n%d">`, i)
		data("label", n.ID)
		data("tier", n.Tier)
		data("type", n.Type.String())
		fmt.Fprintln(w, "</node>")
	}
	for k, e := range sortedEdges(d) {
		e = downwards(e)
		fmt.Fprintf(w, `    <edge id="e%d" source="n%d" target="n%d">`, k, index[e.Source], index[e.Target])
		data("mark_source", e.MarkSource.String())
		data("mark_target", e.MarkTarget.String())
		data("p", number(e.P))
		data("strength", number(e.Strength))
		data("boot_freq", number(e.BootFreq))
		data("visible", strconv.FormatBool(e.Visible))
		fmt.Fprintln(w, "</edge>")
	}
	fmt.Fprintln(w, "  </graph>\n</graphml>")
	return w.Flush()
}
