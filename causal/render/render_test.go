package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/testshared"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ptr(v float64) *float64 { return &v }

// sample is a small graph with every kind of edge, and names that other formats must
// escape.
func sample() *causal.Document {
	e := func(a, b string, left, right causal.Mark) causal.Edge {
		return causal.Edge{Source: a, Target: b, MarkSource: left, MarkTarget: right}
	}
	evident := e("queues", "delay", causal.Tail, causal.Arrow)
	evident.P, evident.Strength, evident.Given, evident.Tests = ptr(1.5e-9), ptr(0.5), []string{"end"}, 12
	evident.BootFreq, evident.BootMarks, evident.Visible = ptr(0.95), ptr(0.8), true
	return &causal.Document{
		Schema: causal.Schema,
		Nodes: []causal.Node{
			{ID: "load", Tier: causal.TierContext}, {ID: "queues", Tier: causal.TierConfig, Type: causal.Integer},
			{ID: "unused", Tier: causal.TierConfig, Type: causal.Categorical},
			{ID: "delay", Tier: causal.TierMetric}, {ID: "end", Tier: causal.TierMetric},
			{ID: "p<95>", Tier: causal.TierMetric},
			{ID: "jct", Tier: causal.TierObjective},
		},
		Edges: []causal.Edge{
			evident, e("load", "delay", causal.Tail, causal.Arrow), e("delay", "end", causal.Circle, causal.Circle),
			e("delay", "p<95>", causal.Arrow, causal.Arrow), e("end", "p<95>", causal.Arrow, causal.Circle),
			e("jct", "delay", causal.Arrow, causal.Tail),
		},
		Dropped: []causal.Edge{{Source: "load", Target: "jct",
			MarkSource: causal.Tail, MarkTarget: causal.Arrow, BootFreq: ptr(0.3)}},
		Separations: []causal.Separation{{A: "load", B: "queues", Given: []string{}, P: 0.7}},
		Conflicts: []causal.Conflict{{A: "jct", B: "end", Given: []string{}, Hint: "metrics affect each other"},
			{A: "jct", B: "load", Given: []string{}, Hint: "a direct effect"},
			{A: "end", B: "unused", Given: []string{}, Hint: "metrics affect each other"}},
		DependentInputs: []causal.Dependence{{A: "load", B: "queues", P: 1e-5}, {A: "load", B: "unused", P: 1e-6},
			{A: "queues", B: "unused", P: 1e-7}},
		Warnings: []string{"the data contradict the knowledge in 1 pairs"},
		Learning: &causal.Learning{Test: causal.TestBFX2, Alpha: 0.01, MaxCond: 4, PDSMax: 2, Rows: 500, Tests: 99,
			Bootstrap: 20, Complete: true},
		DAG: &causal.DAGDocument{
			Edges: []causal.DAGEdge{{Source: "load", Target: "delay"}, {Source: "queues", Target: "delay"},
				{Source: "delay", Target: "end", ConfoundingPossible: true},
				{Source: "p<95>", Target: "end", ConfoundingPossible: true}, {Source: "delay", Target: "jct"}},
			Correlated: [][2]string{{"delay", "p<95>"}},
			Order:      []string{"load", "queues", "unused", "delay", "p<95>", "end", "jct"},
			Resolved: []causal.Resolution{{Source: "delay", Target: "end", From: "o-o", To: "-->",
				Reason: "the data do not tell"}},
		},
	}
}

// TestFormats compares every format with a golden file.
func TestFormats(t *testing.T) {
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			var got bytes.Buffer
			if err := f.Write(&got, sample()); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "sample."+f.Name)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("run with -update if this is meant:\n%s", diff)
			}
		})
	}
}

// TestGolden reads the graphs of an independent implementation and writes them again.
func TestGolden(t *testing.T) {
	dir := testshared.Path(t, "golden", "causal", "export")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in golden/causal/export: %v", err)
	}
	for _, path := range files {
		t.Run("export/"+filepath.Base(path), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d, err := causal.ReadDocument(bytes.NewReader(want))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := d.Write(&got); err != nil {
				t.Fatal(err)
			}
			var a, b map[string]any
			if err := errors.Join(json.Unmarshal(want, &a), json.Unmarshal(got.Bytes(), &b)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAsDAG(t *testing.T) {
	d, err := AsDAG(sample())
	if err != nil {
		t.Fatal(err)
	}
	want := "load --> delay\nqueues --> delay\ndelay --> end\ndelay <-> p<95>\ndelay --> jct\nend <-- p<95>\n"
	if got := d.Graph().Format(d.Names()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if e := d.Edges[slices.IndexFunc(d.Edges, func(e causal.Edge) bool {
		return e.Source == "queues"
	})]; e.BootFreq == nil {
		t.Error("the evidence is gone")
	}
	if _, err := AsDAG(&causal.Document{}); err == nil {
		t.Error("a DAG out of nothing")
	}
}

// hostile has names that try to escape their context.
func hostile() *causal.Document {
	names := []string{`</script><script>alert(1)</script>`, `"]; evil [label="`, "line\nbreak", "]]>&amp;", `a'b\c`,
		"end", "x", "\x1b[31mred", "ünï ćode", "v0", "<!--"}
	d := &causal.Document{Schema: causal.Schema}
	for i, name := range names {
		d.Nodes = append(d.Nodes, causal.Node{ID: name, Tier: causal.TierNames()[i%4]})
		if i > 0 {
			d.Edges = append(d.Edges, causal.Edge{Source: names[i-1], Target: name, MarkSource: causal.Circle,
				MarkTarget: causal.Arrow, Given: []string{names[0]}, P: ptr(0.001)})
		}
	}
	d.Warnings = []string{"<b>not bold</b>"}
	d.DAG = &causal.DAGDocument{Edges: []causal.DAGEdge{}, Order: names,
		Resolved: []causal.Resolution{{Source: names[0], Target: names[1], From: "o->", To: "<i>", Reason: "</li>"}}}
	return d
}

// TestHostileNames checks that names are rendered as text.
func TestHostileNames(t *testing.T) {
	d := hostile()
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			var out bytes.Buffer
			if err := f.Write(&out, d); err != nil {
				t.Error(err)
			}
			if strings.ContainsRune(out.String(), 0x1b) {
				t.Error("a control character reached the terminal")
			}
			if f.Name == "dot" {
				checkDOT(t, out.String(), len(d.Nodes), len(d.Edges))
			}
		})
	}
}

// dotLine matches the lines of a drawing. A string is closed on its line.
var dotLine = regexp.MustCompile(`^(digraph \{|  subgraph cluster_[a-z]+ \{| *\}| *node \[shape=box\];| *label="[a-z]+";` +
	`|(?P<node> *"(?:[^"\\]|\\.)*";)|(?P<edge>  "(?:[^"\\]|\\.)*" -> "(?:[^"\\]|\\.)*" \[dir=[^"]*(?:"[0-9.]+")?\];))$`)

// checkDOT requires a statement for every node and edge, and no other.
func checkDOT(t *testing.T, text string, nodes, edges int) {
	t.Helper()
	gotNodes, gotEdges := 0, 0
	for line := range strings.Lines(text) {
		m := dotLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("not a statement: %q", line)
			continue
		}
		if m[dotLine.SubexpIndex("node")] != "" {
			gotNodes++
		}
		if m[dotLine.SubexpIndex("edge")] != "" {
			gotEdges++
		}
	}
	if gotNodes != nodes || gotEdges != edges {
		t.Errorf("%d nodes, %d edges; want %d, %d", gotNodes, gotEdges, nodes, edges)
	}
}

func TestFind(t *testing.T) {
	if _, err := Find("png"); err == nil || !strings.Contains(err.Error(), "table, json, dot") {
		t.Errorf("got %v", err)
	}
}

// FuzzRender renders any readable graph in every format.
func FuzzRender(f *testing.F) {
	for _, d := range []*causal.Document{sample(), hostile()} {
		var b bytes.Buffer
		if err := d.Write(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := causal.ReadDocument(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, format := range Formats() {
			var out bytes.Buffer
			if err := format.Write(&out, d); err != nil {
				t.Errorf("%s: %v", format.Name, err)
			} else if format.Name == "dot" {
				checkDOT(t, out.String(), len(d.Nodes), len(d.Edges))
			}
		}
	})
}
