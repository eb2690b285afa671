package nodetest

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestTable: rounds are read as they were written, and the table sums them by kind.
func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rounds")
	want := []Round{
		{Kind: "kill", Leads: true, Node: Outage{Longest: 11 * time.Second}, Operations: 5,
			Counts: map[string]int{"events": 10}, Whole: time.Second},
		{Kind: "kill", Node: Outage{Longest: time.Minute}, Operations: 6, Counts: map[string]int{"events": 20},
			Violations: 3},
		{Kind: "disk full", Counts: map[string]int{"events": 1}},
	}
	for _, r := range want {
		if err := r.Append(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadRounds(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, line := range []string{
		"| kill | 2 | 1 | 11.0, 11.0, 11.0 | 1.0 | 11 | 30 | 3 |",
		"| disk full | 1 | 0 | - | 0.0 | 0 | 1 | 0 |",
		"| all that end a leadership | 1 | 1 | 11.0, 11.0, 11.0 | 1.0 | 5 | 10 | 0 |",
		"| all | 3 | 1 | 11.0, 11.0, 11.0 | 0.0 | 11 | 31 | 3 |",
	} {
		if table := Table(got); !strings.Contains(table, line+"\n") {
			t.Errorf("no line %q in\n%s", line, table)
		}
	}
}

var update = flag.Bool("update", false, "write the table of docs/notes/engine.md")

// TestPage: the page of the engine has the table of the rounds.
func TestPage(t *testing.T) {
	rounds, err := ReadRounds(filepath.Join("testdata", "rounds.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "notes", "engine.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rounds -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed || len(rounds) == 0 {
		t.Fatalf("%s has no place for a table, or there are no rounds", path)
	}
	want := before + begin + Table(rounds) + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not that of the rounds: run go test ./service/nodetest -run Page -update", path)
	}
}
