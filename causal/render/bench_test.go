package render

import (
	"fmt"
	"io"
	"testing"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/rng"
)

// BenchmarkPicture draws graphs of common size and of the largest size allowed.
func BenchmarkPicture(b *testing.B) {
	for _, size := range [][2]int{{14, 26}, {50, 200}, {maxDrawnNodes, maxDrawnEdges}} {
		r := rng.Stream("picture benchmark", 1)
		d := &causal.Document{Schema: causal.Schema}
		for i := range size[0] {
			d.Nodes = append(d.Nodes,
				causal.Node{ID: fmt.Sprintf("variable%d", i), Tier: causal.TierNames()[i*4/size[0]]})
		}
		joined := map[[2]int]bool{}
		for len(d.Edges) < size[1] {
			i, j := r.IntN(size[0]), r.IntN(size[0])
			if i < j && !joined[[2]int{i, j}] {
				joined[[2]int{i, j}] = true
				d.Edges = append(d.Edges, causal.Edge{Source: d.Nodes[i].ID, Target: d.Nodes[j].ID,
					MarkSource: causal.Tail, MarkTarget: causal.Arrow})
			}
		}
		b.Run(fmt.Sprintf("nodes=%d/edges=%d", size[0], size[1]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := HTML(io.Discard, d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
