package simulator

import (
	"fmt"
	"testing"

	"github.com/autosched/autosched/workload"
)

func TestFirstFit(t *testing.T) {
	// Six nodes of eight GPUs; taken is how many of each are in use.
	tests := []struct {
		taken [6]int
		gpus  int
		want  string
	}{
		{[6]int{8, 3, 6, 0, 0, 0}, 2, "[{1 2}]"}, // best fit would take node 2
		{[6]int{8, 3, 6, 0, 0, 0}, 6, "[{3 6}]"},
		{[6]int{8, 3, 6, 0, 0, 0}, 16, "[{3 8} {4 8}]"},
		{[6]int{8, 3, 6, 0, 0, 0}, 12, "[{3 8} {1 4}]"}, // the rest in the first gap
		{[6]int{8, 5, 6, 0, 0, 0}, 12, "[{3 8} {4 4}]"}, // or in a node not taken whole
		{[6]int{8, 3, 6, 0, 0, 0}, 30, "[]"},            // three empty nodes and no gap for six more
		{[6]int{8, 1, 6, 0, 0, 0}, 30, "[{3 8} {4 8} {5 8} {1 6}]"},
		{[6]int{1, 1, 1, 1, 1, 1}, 8, "[]"},
		{[6]int{1, 1, 1, 1, 1, 1}, 14, "[]"}, // 7+7 would do, but no node is empty
	}
	for _, tt := range tests {
		var p placer
		p.reset(FirstFit, workload.Uniform(len(tt.taken), 8))
		for n, g := range tt.taken {
			if g > 0 {
				p.take(n, g)
			}
		}
		if got := fmt.Sprint(p.find(nil, tt.gpus, 0, false, 0)); got != tt.want {
			t.Errorf("%d GPUs beside %v: %s, want %s", tt.gpus, tt.taken, got, tt.want)
		}
	}
}
