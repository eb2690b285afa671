package render

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/table"
)

// Table writes a graph as text: how it was learned, its edges with their evidence,
// and warnings.
func Table(out io.Writer, d *causal.Document) error {
	buffer := bufio.NewWriter(out)
	w := table.NewLines(buffer, out)
	if l := d.Learning; l != nil {
		fmt.Fprintf(w, "%d variables, %d edges from %d rows: test %s, alpha %g, sets up to %d, %d tests", len(d.Nodes),
			len(d.Edges), l.Rows, l.Test, l.Alpha, l.MaxCond, l.Tests)
		if l.Bootstrap > 0 {
			fmt.Fprintf(w, ", %d bootstrap samples", l.Bootstrap)
		}
		fmt.Fprintln(w)
		if !l.Complete {
			where := ""
			if l.Stopped != "" {
				where = " " + l.Stopped
			}
			fmt.Fprintf(w, "NOT COMPLETE: time ran out%s\n", where)
		}
	} else {
		fmt.Fprintf(w, "%d variables, %d edges\n", len(d.Nodes), len(d.Edges))
	}
	for _, text := range d.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	fmt.Fprintln(w)
	edgeTable(w, sortedEdges(d))
	if len(d.Dropped) > 0 {
		fmt.Fprintln(w, "\ndropped, found in too few bootstrap samples:")
		edgeTable(w, d.Dropped)
	}
	if len(d.Conflicts) > 0 {
		fmt.Fprintln(w, "\nCONFLICTS: knowledge keeps these apart, the data do not")
		for _, hint := range hints(d) {
			fmt.Fprintf(w, "  %s\n", hint)
			for _, c := range d.Conflicts {
				if c.Hint == hint {
					fmt.Fprintf(w, "    %s, %s\n", printable(c.A), printable(c.B))
				}
			}
		}
	}
	if len(d.DependentInputs) > 0 {
		fmt.Fprintln(w, "\ninputs that go together, each with the others it depends on:")
		for _, line := range dependentInputs(d) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if d.DAG != nil && len(d.DAG.Resolved) > 0 {
		fmt.Fprintln(w, "\nassumed, to get a directed graph:")
		for _, r := range d.DAG.Resolved {
			fmt.Fprintf(w, "  %s %s %s  becomes %s: %s\n",
				printable(r.Source), r.From, printable(r.Target), r.To, r.Reason)
		}
	}
	if lonely := unconnected(d); len(lonely) > 0 {
		fmt.Fprintf(w, "\nwithout an edge: %s\n", strings.Join(lonely, ", "))
	}
	fmt.Fprintln(w,
		"\n-->  causes    o->  causes, or something hidden moves both\n<->  something hidden moves both    o-o  not known\n"+
			"visible: no hidden cause can blur the effect\np: the largest of all sets tried, and the set")
	return errors.Join(w.Flush(), buffer.Flush())
}

func edgeTable(out io.Writer, edges []causal.Edge) {
	if len(edges) == 0 {
		fmt.Fprintln(out, "no edges")
		return
	}
	frequency := false
	for _, e := range edges {
		frequency = frequency || e.BootFreq != nil
	}
	header := "FROM\t\tTO\tSTRENGTH\tP\tGIVEN\tVISIBLE"
	if frequency {
		header += "\tFOUND\tSAME MARKS"
	}
	t := table.New(out, header)
	short := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'g', 2, 64)
	}
	for _, e := range edges {
		e = downwards(e)
		given := "-"
		if e.P != nil {
			names := make([]string, len(e.Given))
			for k, name := range e.Given {
				names[k] = printable(name)
			}
			given = "{" + strings.Join(names, ", ") + "}"
		}
		visible := ""
		if e.Visible {
			visible = "visible"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s", printable(e.Source), causal.Arrows(e.MarkSource, e.MarkTarget),
			printable(e.Target), short(e.Strength), short(e.P), given, visible)
		if frequency {
			fmt.Fprintf(t, "\t%s\t%s", short(e.BootFreq), short(e.BootMarks))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // the buffer below keeps the error
}

// hints returns the distinct hints of the conflicts, in order.
func hints(d *causal.Document) []string {
	var out []string
	for _, c := range d.Conflicts {
		if !slices.Contains(out, c.Hint) {
			out = append(out, c.Hint)
		}
	}
	return out
}

// dependentInputs returns for each input, in node order, the inputs that it depends
// on; each pair appears once.
func dependentInputs(d *causal.Document) []string {
	with := map[string][]string{}
	for _, p := range d.DependentInputs {
		with[p.A] = append(with[p.A], printable(p.B))
	}
	var out []string
	for _, n := range d.Nodes {
		if others := with[n.ID]; others != nil {
			out = append(out, printable(n.ID)+": "+strings.Join(others, ", "))
		}
	}
	return out
}

func unconnected(d *causal.Document) []string {
	joined := map[string]bool{}
	for _, e := range d.Edges {
		joined[e.Source], joined[e.Target] = true, true
	}
	var out []string
	for _, n := range d.Nodes {
		if !joined[n.ID] {
			out = append(out, printable(n.ID))
		}
	}
	return out
}
