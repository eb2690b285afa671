package nodetest

import (
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
		"| all | 3 | 1 | 11.0, 11.0, 11.0 | 0.0 | 11 | 31 | 3 |",
	} {
		if table := Table(got); !strings.Contains(table, line+"\n") {
			t.Errorf("no line %q in\n%s", line, table)
		}
	}
}
