package causal

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestReadDocument(t *testing.T) {
	g := NewGraph(3)
	g.Set(0, 1, Circle, Arrow)
	g.Set(2, 1, Arrow, Tail)
	d := NewDocument(g, []string{"a", "b", "c"}, nil, map[string]string{"a": TierConfig})
	var out bytes.Buffer
	if err := d.Write(&out); err != nil {
		t.Fatal(err)
	}
	back, err := ReadDocument(&out)
	if err != nil {
		t.Fatal(err)
	}
	if !back.Graph().Equal(g) {
		t.Errorf("read back\n%s", back.Graph().Format(back.Names()))
	}
	if got, want := g.Format(d.Names()), "a o-> b\nb --> c\n"; got != want {
		t.Errorf("edges %q, want %q", got, want)
	}
}

func TestReadDocumentErrors(t *testing.T) {
	const nodes = `"nodes": [{"id": "a", "type": "cont"}, {"id": "b", "type": "cat"}]`
	edge := func(s string) string { return fmt.Sprintf(`{"schema": %q, %s, "edges": [%s]}`, Schema, nodes, s) }
	with := func(s string) string { return fmt.Sprintf(`{"schema": %q, %s, "edges": [], %s}`, Schema, nodes, s) }
	tests := []struct{ name, text, want string }{
		{"no JSON", "digraph", "line 1: invalid character"},
		{"schema", `{"schema": "x"}`, `schema: "x" is not`},
		{"twice", `{"schema": "causal-graph/v1", "nodes": [{"id": "a", "type": "int"}, {"id": "a", "type": "int"}]}`,
			`two nodes "a"`},
		{"nameless", `{"schema": "causal-graph/v1", "nodes": [{"type": "int"}]}`, "the id is empty"},
		{"tier", `{"schema": "causal-graph/v1", "nodes": [{"id": "a", "tier": "top"}]}`, `"top" is not a tier`},
		{"unknown end", edge(`{"source": "a", "target": "x", "mark_source": "tail", "mark_target": "arrow"}`),
			`edges[0]: there is no node "x"`},
		{"loop", edge(`{"source": "a", "target": "a", "mark_source": "tail", "mark_target": "arrow"}`),
			"joined to itself"},
		{"half", edge(`{"source": "a", "target": "b", "mark_source": "tail"}`), "mark_target is missing"},
		{"mark", edge(`{"source": "a", "target": "b", "mark_source": "none", "mark_target": "arrow"}`),
			`"none" is not a mark`},
		{"doubled",
			edge(
				`{"source": "a", "target": "b", "mark_source": "tail", "mark_target": "arrow"}, {"source": "b", "target": "a", "mark_source": "tail", "mark_target": "arrow"}`), "two edges"},
		{"p", edge(`{"source": "a", "target": "b", "mark_source": "tail", "mark_target": "arrow", "p": 2}`),
			"2 is not within"},
		{"separation", with(`"separations": [{"a": "a", "b": "b", "given": ["x"]}]`),
			`separations[0]: there is no node "x"`},
		{"conflict", with(`"conflicts": [{"a": "a", "b": "y", "given": []}]`), `conflicts[0]: there is no node "y"`},
		{"dependence", with(`"dependent_inputs": [{"a": "z", "b": "a"}]`), `dependent_inputs[0]: there is no node "z"`},
		{"knowledge", with(`"knowledge": {"tiers": {"a": "up"}}`), `knowledge: tiers: "up"`},
		{"order", with(`"dag": {"edges": [], "order": ["a"]}`), "order has 1 different names, there are 2"},
		{"cycle", with(`"dag": {"edges": [{"source": "b", "target": "a"}], "order": ["a", "b"]}`),
			"goes against the order"},
		{"correlated", with(`"dag": {"edges": [], "order": ["a", "b"], "correlated": [["a", "a"]]}`), "not two nodes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ReadDocument(strings.NewReader(tt.text)); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzLoaders checks that the readers return an error or a valid value that survives a
// round trip.
func FuzzLoaders(f *testing.F) {
	f.Add(byte(0), []byte("policy,x\nlas,1\nfifo,2.5\n"))
	f.Add(byte(0), []byte("a\nNaN\n"))
	f.Add(byte(1), []byte(`{"mode":"tiers","tiers":{"a":"config","b":"metric"},"required":[["a","b"]]}`))
	f.Add(byte(2),
		[]byte(
			`{"schema":"causal-graph/v1","nodes":[{"id":"a","type":"int"},{"id":"b","type":"cat"}],"edges":[{"source":"a","target":"b","mark_source":"tail","mark_target":"arrow","p":0.1}]}`))
	f.Fuzz(func(t *testing.T, format byte, data []byte) {
		switch format % 3 {
		case 0:
			table, err := ReadCSV(bytes.NewReader(data), map[string]Kind{"c": Categorical})
			if err != nil {
				return
			}
			var out bytes.Buffer
			if err := table.WriteCSV(&out); err != nil {
				t.Fatal(err)
			}
			kinds := map[string]Kind{}
			for i := range table.Len() {
				kinds[table.Column(i).Name] = table.Column(i).Kind
			}
			again, err := ReadCSV(&out, kinds)
			if err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if again.Hash() != table.Hash() {
				t.Fatal("what was read again differs")
			}
		case 1:
			s, err := ReadSpec(bytes.NewReader(data))
			if err != nil {
				return
			}
			names := slices.Sorted(maps.Keys(s.Tiers))
			if k, err := s.Bind(names); err == nil && k.Check(names) != nil {
				t.Fatal("bound knowledge does not pass its own check")
			}
		case 2:
			d, err := ReadDocument(bytes.NewReader(data))
			if err != nil {
				return
			}
			var out bytes.Buffer
			if err := d.Write(&out); err != nil {
				t.Fatal(err)
			}
			again, err := ReadDocument(&out)
			if err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if !again.Graph().Equal(d.Graph()) {
				t.Fatal("what was read again differs")
			}
		}
	})
}
