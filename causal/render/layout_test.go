package render

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/causal"
)

// TestLayout lays out random graphs: boxes do not overlap, tiers are in order, causes
// are above their effects within a tier, and every line connects its boxes through the
// rows between.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "nodes")
		layered := rapid.Bool().Draw(t, "tiers")
		d := &causal.Document{DAG: &causal.DAGDocument{}}
		rank := func(i int) int { return min(i*4/n, 3) }
		for i := range n {
			node := causal.Node{ID: fmt.Sprintf("v%0*d", rapid.IntRange(1, 30).Draw(t, "length"), i)}
			if layered {
				node.Tier = causal.TierNames()[rank(i)]
			}
			d.Nodes = append(d.Nodes, node)
		}
		var pairs [][2]int
		for range rapid.IntRange(0, 60).Draw(t, "edges") {
			a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b")
			if a >= b {
				continue
			}
			pairs = append(pairs, [2]int{a, b})
			if rapid.Bool().Draw(t, "directed") {
				d.DAG.Edges = append(d.DAG.Edges, causal.DAGEdge{Source: d.Nodes[a].ID, Target: d.Nodes[b].ID})
			}
		}
		l := arrange(d, pairs)
		seen := 0
		for row, places := range l.rows {
			end := math.Inf(-1)
			for _, k := range places {
				p := l.places[k]
				if p.row != row {
					t.Fatalf("place %d stands in row %d and says %d", k, row, p.row)
				}
				if p.x-p.w/2 < end+boxGap-1e-6 {
					t.Fatalf("row %d: places overlap", row)
				}
				end = p.x + p.w/2
				if p.node >= 0 {
					seen++
				}
				if p.x-p.w/2 < 0 || end > l.width || top(row)+boxHeight > l.height {
					t.Fatalf("place %d lies outside the picture", k)
				}
			}
		}
		if seen != n {
			t.Fatalf("%d of %d nodes are placed", seen, n)
		}
		for i := range n {
			for j := range n {
				if layered && rank(i) < rank(j) && l.places[i].row >= l.places[j].row {
					t.Fatalf("%d of a tier before %d stands in row %d, that in row %d",
						i, j, l.places[i].row, l.places[j].row)
				}
			}
		}
		index := indexOf(d)
		for _, e := range d.DAG.Edges {
			a, b := index[e.Source], index[e.Target]
			if d.Nodes[a].Tier == d.Nodes[b].Tier && l.places[a].row >= l.places[b].row && l.places[a].row < 8 {
				t.Fatalf("cause %d does not stand above its effect %d", a, b)
			}
		}
		for k, r := range l.routes {
			a, b := r[0], r[len(r)-1]
			if min(a, b) != pairs[k][0] || max(a, b) != pairs[k][1] {
				t.Fatalf("line %d joins %d and %d, not %v", k, a, b, pairs[k])
			}
			for i := range r[1:] {
				if step := l.places[r[i+1]].row - l.places[r[i]].row; step != 1 && (step != 0 || len(r) != 2) {
					t.Fatalf("line %d steps %d rows", k, step)
				}
			}
		}
	})
}
