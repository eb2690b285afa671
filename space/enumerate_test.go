package space

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestEnumerateIsWhatDecodeReturns checks that Enumerate returns exactly the
// configurations that Decode can return, each once.
func TestEnumerateIsWhatDecodeReturns(t *testing.T) {
	const limit = 3000
	complete := 0
	rapid.Check(t, func(t *rapid.T) {
		s := spaces().Draw(t, "space")
		all, ok := s.Enumerate(limit)
		if !s.Finite() {
			if ok || len(all) > 0 {
				t.Fatal("an infinite space was enumerated")
			}
			return
		}
		listed := map[string]bool{}
		for _, c := range all {
			if err := s.Check(c); err != nil {
				t.Fatalf("an invalid configuration is listed: %v", err)
			}
			if listed[c.Hash()] {
				t.Fatalf("%v is listed twice", c)
			}
			listed[c.Hash()] = true
		}
		if float64(len(all)) > s.Size() {
			t.Fatalf("%d listed, Size is %v", len(all), s.Size())
		}
		if !ok {
			return
		}
		complete++
		if !listed[s.Default().Hash()] {
			t.Fatal("the default is not listed")
		}
		for range 10 {
			if c := s.Decode(points(s).Draw(t, "x")); !listed[c.Hash()] {
				t.Fatalf("Decode returned %v, which is not listed", c)
			}
		}
	})
	if complete == 0 {
		t.Error("no space was enumerated completely")
	}
}

// TestEnumerateCounts compares with counts made by hand.
func TestEnumerateCounts(t *testing.T) {
	list := whole("list", 1, 5, 0)
	list.Array, list.Default = &Array{Length: "n", Max: 3}, Nums(1)
	off := whole("off", 1, 3, 1)
	off.Special = []Special{{Value: -1, Name: "off"}}
	tests := []struct {
		name   string
		params []Param
		rules  []Rule
		want   int
	}{
		{"a product", []Param{whole("a", 1, 6, 1), one("k", "x", "x", "y"),
			{ID: "b", Kind: KindBool, Default: Bool(true)}}, nil, 24},
		{"special values", []Param{off}, nil, 4},
		{"what does not exist is not varied", []Param{one("k", "x", "x", "y"), whole("a", 1, 6, 1)},
			[]Rule{activation("r", "a", "k", Equal, Text("x"))}, 7},
		{"increasing lists: C(5,0)+C(5,1)+C(5,2)+C(5,3)", []Param{whole("n", 0, 3, 1), list},
			[]Rule{{ID: "o", Ordering: &Ordering{Params: []string{"list"}}}}, 1 + 5 + 10 + 10},
		{"lists in any order", []Param{whole("n", 0, 3, 1), list}, nil, 1 + 5 + 25 + 125},
		{"a sum", []Param{whole("a", 0, 3, 0), whole("b", 0, 3, 0)}, []Rule{linear("r", 3, Term{"a", 1}, Term{"b", 1})},
			10},
		{"a combination", []Param{whole("a", 0, 3, 0), whole("b", 0, 3, 0)},
			[]Rule{never("r", Condition{Param: "a", Op: Greater, Value: Int(1)},
				Condition{Param: "b", Op: Equal, Value: Int(0)})}, 14},
	}
	for _, test := range tests {
		s := must(t, test.params, test.rules...)
		all, ok := s.Enumerate(200)
		if len(all) != test.want || !ok {
			t.Errorf("%s: %d, %v, want %d", test.name, len(all), ok, test.want)
		}
		if some, ok := s.Enumerate(test.want - 1); len(some) != test.want-1 || ok {
			t.Errorf("%s: a limit of %d gave %d, %v", test.name, test.want-1, len(some), ok)
		}
	}
}

// TestEnumerateIsBounded enumerates a large space of which rules exclude almost all.
func TestEnumerateIsBounded(t *testing.T) {
	var params []Param
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		params = append(params, whole(id, 0, 99, 0))
	}
	var terms []Term
	for i := range params {
		terms = append(terms, Term{params[i].ID, 1})
	}
	s := must(t, params, linear("r", 0, terms...))
	if all, ok := s.Enumerate(50); ok || len(all) != 1 {
		t.Errorf("%d, %v", len(all), ok)
	}
	if s.Size() != math.Pow(100, 6) || !s.Finite() {
		t.Errorf("size %v", s.Size())
	}
}

func BenchmarkEnumerate(b *testing.B) {
	for _, n := range []int{10, 30, 100} {
		s := must(b, []Param{whole("a", 1, n, 1), whole("b", 1, n, 1), whole("c", 1, 10, 1)},
			linear("r", float64(n), Term{"a", 1}, Term{"b", 1}))
		b.Run(formatNumber(float64(n)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Enumerate(1 << 20)
			}
		})
	}
}
