package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestCausal(t *testing.T) {
	dir := t.TempDir()
	data, tiers := clitest.WriteRuns(t, dir)
	graph := filepath.Join(dir, "graph.json")
	code, out, errs := clitest.Run("explain", "learn", "--data", data, "--tiers", tiers, "--bootstrap", "5", "--out",
		graph)
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{"4 variables, 2 edges from 400 rows", "5 bootstrap samples", "queues  -->  delay",
		"delay   -->  jct", "without an edge: verbose"} {
		if !strings.Contains(out, want) {
			t.Errorf("learn printed no %q:\n%s", want, out)
		}
	}
	code, out, errs = clitest.Run("explain", "learn", "--data", data, "--group", "verbose", "--bootstrap", "3")
	if code != 0 || strings.Contains(out, "verbose") || !strings.Contains(out, "3 bootstrap samples") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	var d causal.Document
	code, out, errs = clitest.Run("explain", "learn", "--data", data, "--tiers", tiers, "--alpha",
		"0.05", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Schema != causal.Schema || d.Learning.Test != causal.TestBFX2 || d.Learning.Alpha != 0.05 ||
		!d.Learning.Complete || !strings.HasPrefix(d.Learning.DataHash, "sha256:") {
		t.Errorf("learning %+v", d.Learning)
	}
	for format, want := range map[string]string{
		"table": "queues  -->  delay", "json": `"mark_target": "arrow"`, "dot": `"queues" -> "delay"`,
	} {
		code, out, errs := clitest.Run("explain", "show", graph, "--as", format)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, no %q in\n%s%s", format, code, want, out, errs)
		}
	}
	drawing := filepath.Join(dir, "graph.dot")
	if code, out, errs := clitest.Run("explain", "show", graph, "--as", "dot", "--view", "dag", "--out",
		drawing); code != 0 || out != "" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if text, err := os.ReadFile(drawing); err != nil || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("the drawing: %v", err)
	}
	if _, a, _ := clitest.Run("explain", "show", graph, "--json"); true {
		text, err := os.ReadFile(graph)
		if err != nil || a != string(text) {
			t.Error("show --json changes the document")
		}
	}
}

func TestCausalErrors(t *testing.T) {
	dir := t.TempDir()
	data, tiers := clitest.WriteRuns(t, dir)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad := file("bad.csv", "a,b\n1,2\n3,NaN\n")
	graph := file("graph.json", `{"schema": "causal-graph/v1", "nodes": [{"id": "a b", "type": "cont"}], "edges": []}`)
	learn := func(args ...string) []string { return append([]string{"explain", "learn"}, args...) }
	tests := []struct {
		args []string
		code int
		want string
	}{
		{learn(), 2, "--data is missing"},
		{learn("--data", data, "--alpha", "0"), 2, "--alpha: 0"},
		{learn("--data", data, "--alpha", "1.5"), 2, "--alpha: 1.5"},
		{learn("--data", data, "--tier-mode", "loose"), 2, `--tier-mode: "loose"`},
		{learn("--data", data, "--bootstrap", "-1"), 2, "--bootstrap"},
		{learn("--data", data, "--deadline", "-1s"), 2, "--deadline"},
		{learn("--data", data, "--group", "day"), 2, `--group: the data have no column "day"`},
		{learn("--data", data, "x"), 2, "no arguments"},
		{learn("--data", filepath.Join(dir, "none.csv")), 1, "none.csv"},
		{learn("--data", bad), 1, `bad.csv: line 3, column "b": NaN`},
		{learn("--data", data, "--tiers", bad), 1, "bad.csv: line 1"},
		{learn("--data", data, "--tiers", file("part.json", `{"tiers": {"queues": "config"}}`)), 1, "has no tier"},
		{learn("--data", data, "--tiers", tiers, "--out", filepath.Join(dir, "no", "graph.json")), 1, "--out"},
		{[]string{"explain", "show"}, 2, "name one graph"},
		{[]string{"explain", "show", graph, "--as", "png"}, 2, `"png" is not a format`},
		{[]string{"explain", "show", graph, "--view", "both"}, 2, "--view"},
		{[]string{"explain", "show", graph, "--json", "--as", "dot"}, 2, "contradict"},
		{[]string{"explain", "show", graph, "--view", "dag"}, 1, "holds no DAG"},
		{[]string{"explain", "show", bad}, 1, "expected the JSON of a causal graph"},
		{[]string{"explain", "explain"}, 2, `no command "explain"`},
	}
	for _, tt := range tests {
		code, _, errs := clitest.Run(tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit %d, %q; want %d, %q", tt.args, code, errs, tt.code, tt.want)
		}
	}
}

// TestCausalDeadline asks for more than there is time for.
func TestCausalDeadline(t *testing.T) {
	data, tiers := clitest.WriteRuns(t, t.TempDir())
	code, out, errs := clitest.Run("explain", "learn", "--data", data, "--tiers", tiers, "--deadline", "1ns")
	if code != 0 || !strings.Contains(out, "NOT COMPLETE: time ran out in the skeleton") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = clitest.Run("explain", "learn", "--data", data, "--tiers", tiers, "--deadline", "1ns", "--json")
	if code != 0 || !strings.Contains(out, `"complete": false`) || !strings.Contains(errs, "warning: time ran out") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
