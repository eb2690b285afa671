package render

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/autosched/autosched/causal"
)

// Table writes a graph as text: how it was learned, its edges with their evidence,
// and warnings.
func Table(out io.Writer, d *causal.Document) error {
	w := bufio.NewWriter(out)
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
		"\n-->  causes    o->  causes, or something hidden moves both    <->  something hidden moves both\no-o  "+
			"not known. visible: no hidden cause can blur the effect. p: the largest of all sets tried, and the set.")
	return w.Flush()
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
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	header := "FROM\t\tTO\tSTRENGTH\tP\tGIVEN\tVISIBLE"
	if frequency {
		header += "\tFOUND\tSAME MARKS"
	}
	fmt.Fprintln(t, header)
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

// Tetrad writes the text format of Tetrad, py-tetrad and causal-learn.
func Tetrad(out io.Writer, d *causal.Document) error {
	names := d.Names()
	for _, name := range names {
		if strings.ContainsAny(name, "; \t\r\n,") {
			return fmt.Errorf(
				"the text of Tetrad cannot hold the name %q: it separates names by spaces, commas and semicolons", name)
		}
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "Graph Nodes:\n%s\n\nGraph Edges:\n", strings.Join(names, ";"))
	for k, e := range sortedEdges(d) {
		fmt.Fprintf(w, "%d. %s %s %s\n", k+1, e.Source, causal.Arrows(e.MarkSource, e.MarkTarget), e.Target)
	}
	return w.Flush()
}

// ReadTetrad reads the text format of Tetrad, py-tetrad and causal-learn.
func ReadTetrad(in io.Reader) (*causal.Document, error) {
	const limit = 16 << 20
	d := &causal.Document{Schema: causal.Schema, Nodes: []causal.Node{}, Edges: []causal.Edge{}}
	index := map[string]int{}
	marks := map[byte]causal.Mark{'o': causal.Circle, '<': causal.Arrow, '>': causal.Arrow, '-': causal.Tail}
	s := bufio.NewScanner(io.LimitReader(in, limit))
	s.Buffer(nil, 1<<20)
	section := ""
	joined := map[[2]int]bool{}
	for line := 1; s.Scan(); line++ {
		text := strings.TrimSpace(s.Text())
		switch {
		case text == "":
		case text == "Graph Nodes:" || text == "Graph Edges:":
			section = text
		case strings.HasPrefix(text, "Graph ") && strings.HasSuffix(text, ":"):
			section = "" // attributes, which are not part of the graph
		case section == "Graph Nodes:":
			for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == ',' }) {
				name = strings.TrimSpace(name)
				if _, twice := index[name]; twice || name == "" || strings.ContainsAny(name, " \t") {
					return nil, fmt.Errorf("line %d: %q is not a new name", line, name)
				}
				index[name] = len(d.Nodes)
				d.Nodes = append(d.Nodes, causal.Node{ID: name})
			}
		case section == "Graph Edges:":
			f := strings.Fields(text)
			if len(f) < 4 || !strings.HasSuffix(f[0], ".") || len(f[2]) != 3 || f[2][1] != '-' {
				return nil, fmt.Errorf(`line %d: %q is not an edge such as "1. a o-> b"`, line, text)
			}
			a, okA := index[f[1]]
			b, okB := index[f[3]]
			left, okL := marks[f[2][0]]
			right, okR := marks[f[2][2]]
			if !okA || !okB {
				return nil, fmt.Errorf("line %d: %q or %q is not among the nodes", line, f[1], f[3])
			}
			if !okL || !okR || f[2][0] == '>' || f[2][2] == '<' {
				return nil, fmt.Errorf("line %d: %q is not an edge such as o->", line, f[2])
			}
			if pair := [2]int{min(a, b), max(a, b)}; a == b || joined[pair] {
				return nil, fmt.Errorf("line %d: a second edge between %q and %q, or one of a node with itself",
					line, f[1], f[3])
			} else {
				joined[pair] = true
			}
			d.Edges = append(d.Edges, causal.Edge{Source: f[1], Target: f[3], MarkSource: left, MarkTarget: right})
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(d.Nodes) == 0 {
		return nil, fmt.Errorf(`there are no nodes: the text begins with "Graph Nodes:"`)
	}
	return d, nil
}

// CSV writes one edge a line, with its evidence.
func CSV(out io.Writer, d *causal.Document) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"source", "edge", "target", "mark_source", "mark_target", "p", "given", "tests", "strength",
		"boot_freq", "boot_marks", "visible"})
	for _, e := range sortedEdges(d) {
		_ = w.Write([]string{
			e.Source, causal.Arrows(e.MarkSource, e.MarkTarget), e.Target, e.MarkSource.String(), e.MarkTarget.String(),
			number(e.P), strings.Join(e.Given, " "), strconv.Itoa(e.Tests), number(e.Strength), number(e.BootFreq),
			number(e.BootMarks), strconv.FormatBool(e.Visible),
		})
	}
	w.Flush()
	return w.Error()
}

// Matrix writes the marks as CSV with a header row and column of names: row a,
// column b holds the mark at b of the edge between a and b: 0 for no edge, 1 for a
// circle, 2 for an arrow, 3 for a tail.
func Matrix(out io.Writer, d *causal.Document) error {
	w := csv.NewWriter(out)
	names := d.Names()
	_ = w.Write(append([]string{""}, names...))
	for i, row := range d.Graph().Matrix() {
		record := []string{names[i]}
		for _, m := range row {
			record = append(record, strconv.Itoa(int(m)))
		}
		_ = w.Write(record)
	}
	w.Flush()
	return w.Error()
}
