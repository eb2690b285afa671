package trace

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A list holds the appended elements; names number texts by first appearance.
func TestListAndNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[ab]{0,4}[0-9]{0,3}`), 0, 600).Draw(t, "texts")
		copies := rapid.IntRange(1, 20).Draw(t, "copies")
		var l list[string]
		var n names
		var want []string
		for range copies {
			for _, s := range texts {
				l.append(s)
				number, hash := n.find(s)
				at := int32(slices.Index(want, s))
				if number != at {
					t.Fatalf("%q has number %d, want %d", s, number, at)
				}
				if number < 0 {
					if k := n.add(s, hash); int(k) != len(want) {
						t.Fatalf("%q got number %d, want %d", s, k, len(want))
					}
					want = append(want, s)
				}
			}
		}
		if l.len() != copies*len(texts) {
			t.Fatalf("%d texts", l.len())
		}
		for i := range l.len() {
			if *l.at(i) != texts[i%len(texts)] {
				t.Fatalf("text %d is %q", i, *l.at(i))
			}
		}
		if got, all := l.slice(), slices.Repeat(texts, copies); len(all) > 0 && !reflect.DeepEqual(got, all) {
			t.Fatalf("slice %q", got)
		}
		if l.len() != 0 {
			t.Fatal("slice leaves the list full")
		}
	})
}

func TestMachinesHaveCPUsAndMemory(t *testing.T) {
	_, r, err := Open(t.Context(), "testdata/pai2023_pods.csv,testdata/pai2023_nodes.csv", Options{})
	if err != nil || len(r.Machines) != 1 || r.Machines[0].CPUs != 64 || r.Machines[0].Memory != 256<<30 {
		t.Errorf("%v: %+v", err, r.Machines)
	}
}
