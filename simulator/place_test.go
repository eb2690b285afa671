package simulator

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// nodes makes a placer of 8-GPU nodes with the given numbers of free GPUs.
func nodes(mode Placement, free ...int) *placer {
	p := new(placer)
	p.reset(mode, workload.Uniform(len(free), 8))
	for n, f := range free {
		if f < 8 {
			p.take(n, 8-f)
		}
	}
	return p
}

func TestPlacement(t *testing.T) {
	const a, b = ConsolidateWhole, ConsolidateFewest
	tests := []struct {
		name    string
		free    []int
		gpus    int
		relaxed bool
		whole   string // node:GPUs, by ConsolidateWhole; - for no place
		fewest  string // by ConsolidateFewest
	}{
		{"on an empty cluster, the first node", []int{8, 8, 8}, 1, false, "0:1", "0:1"},
		{"best fit: the fewest free GPUs that do", []int{8, 3, 5, 4}, 3, false, "1:3", "1:3"},
		{"best fit passes over nodes that are too full", []int{8, 2, 5, 4}, 3, false, "3:3", "3:3"},
		{"of equal nodes, the lowest index", []int{8, 4, 4, 2}, 3, false, "1:3", "1:3"},
		{"a gang that fits a node is never split", []int{4, 4, 4}, 5, false, "-", "-"},
		{"a node's worth needs an empty node", []int{7, 8, 7}, 8, false, "1:8", "1:8"},
		{"and waits where there is none", []int{7, 7, 7}, 8, false, "-", "-"},
		{"no more than is free in all", []int{1, 1, 0}, 3, false, "-", "-"},

		{"two nodes' worth needs two empty nodes", []int{8, 7, 8, 8}, 16, false, "0:8 2:8", "0:8 2:8"},
		{"and waits for the second", []int{8, 7, 7, 7}, 16, false, "-", "-"},
		{"12 is an empty node and half of the next in order of most free", []int{6, 8, 5, 4}, 12, false, "1:8 0:4",
			"1:8 0:4"},
		{"12 splits a second empty node", []int{4, 8, 8}, 12, false, "1:8 2:4", "1:8 2:4"},
		{"12 as 6+6 is two nodes, the fewest, but not whole ones", []int{6, 6, 6}, 12, false, "-", "0:6 1:6"},
		{"12 as 7+5", []int{1, 7, 5, 6}, 12, false, "-", "1:7 3:5"},
		{"12 on three nodes is more than it needs", []int{5, 5, 5}, 12, false, "-", "-"},
		{"20 with one whole node of two", []int{8, 7, 7}, 20, false, "-", "0:8 1:7 2:5"},
		{"20 with two whole nodes", []int{8, 4, 8}, 20, false, "0:8 2:8 1:4", "0:8 2:8 1:4"},
		{"20 with a rest too small", []int{8, 3, 8}, 20, false, "-", "-"},

		{"relaxed prefers to be consolidated", []int{8, 3, 5}, 3, true, "1:3", "1:3"},
		{"relaxed spills over the emptiest nodes", []int{2, 4, 3}, 6, true, "1:4 2:2", "1:4 2:2"},
		{"relaxed spills as far as it must", []int{1, 1, 1, 1}, 4, true, "0:1 1:1 2:1 3:1", "0:1 1:1 2:1 3:1"},
		{"relaxed gives what whole refuses", []int{6, 6, 6}, 12, true, "0:6 1:6", "0:6 1:6"},
		{"relaxed still needs the GPUs", []int{2, 4, 3}, 10, true, "-", "-"},
	}
	for _, tt := range tests {
		for mode, want := range map[Placement]string{a: tt.whole, b: tt.fewest} {
			p := nodes(mode, tt.free...)
			got := ""
			for _, n := range p.find(nil, tt.gpus, 0, tt.relaxed, 0) {
				got += fmt.Sprintf(" %d:%d", n.Node, n.GPUs)
			}
			if got == "" {
				got = " -"
			}
			if got[1:] != want {
				t.Errorf("%s: %d GPUs on %v, placement %d: %s, want %s", tt.name, tt.gpus, tt.free, mode, got[1:], want)
			}
		}
	}
}

// TestPlacementRemembersRefusals: a refusal is remembered only until GPUs come
// back, and refusing the consolidated place does not refuse the spread one.
func TestPlacementRemembersRefusals(t *testing.T) {
	p := nodes(ConsolidateFewest, 4, 4, 4)
	if got := p.find(nil, 6, 0, false, 0); len(got) != 0 {
		t.Fatalf("6 GPUs at %v", got)
	}
	if got := p.find(nil, 6, 0, true, 0); len(got) != 2 {
		t.Errorf("spread, 6 GPUs go to two nodes, not %v", got)
	}
	p.give(1, 2)
	if got := p.find(nil, 6, 0, false, 0); len(got) != 1 || got[0].Node != 1 {
		t.Errorf("2 more free on node 1: %v", got)
	}
}

// TestPlacementOnManyNodes crosses the words of the bitmaps: the lowest index
// and the fewest free GPUs win wherever they are.
func TestPlacementOnManyNodes(t *testing.T) {
	const n = 64*64 + 200 // more than one summary word
	for _, at := range []int{0, 1, 63, 64, 65, 127, 4095, 4096, 4097, n - 1} {
		free := make([]int, n)
		free[at] = 3
		p := nodes(ConsolidateFewest, free...)
		if got := p.find(nil, 2, 0, false, 0); len(got) != 1 || got[0].Node != at {
			t.Errorf("the only node with room is %d, found %v", at, got)
		}
		if got := p.find(nil, 4, 0, true, 0); len(got) != 0 {
			t.Errorf("4 GPUs found at %v with 3 free", got)
		}
		p.take(at, 3)
		p.give(n-1, 5)
		if got := p.find(nil, 2, 0, false, 0); len(got) != 1 || got[0].Node != n-1 {
			t.Errorf("the only node with room is the last, found %v", got)
		}
	}
}

func TestFragmented(t *testing.T) {
	for _, tt := range []struct {
		free []int
		want int
	}{{[]int{8, 8}, 0}, {[]int{0, 0}, 0}, {[]int{8, 3, 1}, 4}} {
		if got := nodes(ConsolidateFewest, tt.free...).fragmented(); got != tt.want {
			t.Errorf("%v free: %d GPUs on partly used nodes, want %d", tt.free, got, tt.want)
		}
	}
	if got := nodes(Count, 8, 8).fragmented(); got != 0 {
		t.Errorf("a counter has %d fragmented GPUs", got)
	}
}

// TestNodesSetApart: pool 1 keeps its nodes in use and has the last empty ones, as many
// as it lacks, whatever happened before.
func TestNodesSetApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := nodes(ConsolidateFewest, 8, 8, 8, 8, 8, 8)
		type held struct {
			pool uint8
			at   []workload.NodeGPUs
		}
		var jobs []held
		for range 60 {
			switch i := rapid.IntRange(-4, len(jobs)-1).Draw(t, "what"); {
			case i >= 0:
				for _, n := range jobs[i].at {
					p.give(n.Node, n.GPUs)
				}
				jobs = slices.Delete(jobs, i, i+1)
			case i == -1:
				p.partition(rapid.IntRange(1, 4).Draw(t, "apart"))
			default:
				pool := uint8(rapid.IntRange(0, len(p.cells)-1).Draw(t, "pool"))
				at := p.find(nil, rapid.IntRange(1, 16).Draw(t, "GPUs"), pool, false, 0)
				for _, n := range at {
					p.take(n.Node, n.GPUs)
				}
				if len(at) > 0 {
					jobs = append(jobs, held{pool, at})
				}
			}
			used := map[int]uint8{}
			want, lacks := make([]uint8, 6), p.apart
			for _, j := range jobs {
				for _, n := range j.at {
					if _, seen := used[n.Node]; !seen && j.pool == 1 {
						lacks--
					}
					used[n.Node], want[n.Node] = j.pool, j.pool
				}
			}
			for n := 5; n >= 0 && lacks > 0; n-- {
				if _, in := used[n]; !in {
					want[n] = 1
					lacks--
				}
			}
			if !slices.Equal(p.pool, want) {
				t.Fatalf("%d apart, %d free: pools %v, want %v", p.apart, p.free, p.pool, want)
			}
		}
	})
}
