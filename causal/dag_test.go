package causal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestResolve resolves random graphs to DAGs and checks that they are acyclic, account
// for every edge and list every assumption.
func TestResolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, rapid.Bool().Draw(t, "layers"))
		r, err := Discover(context.Background(), w.observed, w.knowledge(), w.oracle(t), SearchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// Random marks, as in small samples: cycles included.
		if rapid.Bool().Draw(t, "shuffle") {
			for i := range w.observed {
				for j := i + 1; j < w.observed; j++ {
					if r.Graph.Adjacent(i, j) {
						m := rapid.SampledFrom([][2]Mark{{Tail, Arrow}, {Arrow, Tail}, {Circle, Circle},
							{Circle, Arrow}, {Arrow, Arrow}}).Draw(t,
							fmt.Sprintf("marks %d-%d", i, j))
						r.Graph.Set(i, j, m[0], m[1])
					}
				}
			}
		}
		order := rapid.Permutation(upTo(w.observed)).Draw(t,
			"user order")[:rapid.IntRange(0, w.observed).Draw(t, "known")]
		d := Resolve(r, nil, order)
		place := make([]int, w.observed)
		for k, v := range d.Order {
			place[v] = k
		}
		if got := slices.Sorted(slices.Values(d.Order)); !slices.Equal(got, upTo(w.observed)) {
			t.Fatalf("order %v", d.Order)
		}
		became := map[[2]int]string{}
		for _, a := range d.Arcs {
			if place[a.From] >= place[a.To] {
				t.Fatalf("%d -> %d goes against the order %v", a.From, a.To, d.Order)
			}
			became[[2]int{min(a.From, a.To), max(a.From, a.To)}] = map[bool]string{true: "-->",
				false: "<--"}[a.From < a.To]
		}
		for _, c := range d.Correlated {
			became[c] = "<->"
		}
		assumed := map[[2]int]Assumption{}
		for _, a := range d.Assumed {
			if a.Reason == "" || a.To == "dropped" && became[[2]int{a.I, a.J}] != "" || a.To != "dropped" &&
				became[[2]int{a.I, a.J}] != a.To && !slices.ContainsFunc(d.Assumed, func(b Assumption) bool {
				return b.I == a.I && b.J == a.J && b.To == "dropped"
			}) {
				t.Fatalf("assumed %+v, but it became %q", a, became[[2]int{a.I, a.J}])
			}
			assumed[[2]int{a.I, a.J}] = a
		}
		for i := range w.observed {
			for j := i + 1; j < w.observed; j++ {
				marks := Arrows(r.Graph.At(j, i), r.Graph.At(i, j))
				_, said := assumed[[2]int{i, j}]
				got := became[[2]int{i, j}]
				switch {
				case !r.Graph.Adjacent(i, j):
					if got != "" {
						t.Fatalf("%d-%d: %s out of nothing", i, j, got)
					}
				case marks == "-->" || marks == "<--" || marks == "<->":
					if got != marks && !said {
						t.Fatalf("%d %s %d became %q unsaid", i, marks, j, got)
					}
				case !said:
					t.Fatalf("%d %s %d became %q unsaid", i, marks, j, got)
				}
			}
		}
	})
}

// TestResidualDirection directs an edge with a nonlinear effect.
func TestResidualDirection(t *testing.T) {
	const n = 1000
	noise := normals(2, n)
	cause := normals(1, n)
	effect := combine(n, func(i int) float64 { return cause[i] + cause[i]*cause[i]*cause[i]/2 + 0.5*noise[i] })
	for _, names := range []string{"cause effect", "effect cause"} {
		var columns []Column
		for _, name := range strings.Fields(names) {
			columns = append(columns,
				Column{Name: name, Values: map[string][]float64{"cause": cause, "effect": effect}[name]})
		}
		d, err := Learn(context.Background(), mustTable(t, columns...), nil, LearnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.DAG.Order, " "); got != "cause effect" {
			t.Errorf("columns %s: order %s, %+v", names, got, d.DAG.Resolved)
		}
		if len(d.DAG.Resolved) != 1 || !strings.Contains(d.DAG.Resolved[0].Reason, "unexplained") ||
			!d.DAG.Edges[0].ConfoundingPossible {
			t.Errorf("resolved %+v", d.DAG.Resolved)
		}
	}
}

// TestUserOrder checks that the given order takes precedence over residuals.
func TestUserOrder(t *testing.T) {
	const n = 300
	x, noise := normals(1, n), normals(2, n)
	table := mustTable(t, Column{Name: "x", Values: x}, Column{Name: "y", Values: combine(n, func(i int) float64 {
		return x[i] + noise[i]
	})})
	d, err := Learn(context.Background(), table, &Spec{Order: []string{"y", "x"}}, LearnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(d.DAG.Order, " "); got != "y x" || d.DAG.Resolved[0].To != "<--" {
		t.Errorf("order %s, %+v", got, d.DAG.Resolved)
	}
}
