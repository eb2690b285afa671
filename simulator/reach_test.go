package simulator

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// TestReachIsWhatStoppingGives: a gang fits by reach's counts exactly if it
// finds a place once the others have stopped.
func TestReachIsWhatStoppingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := workload.Cluster{Nodes: rapid.IntRange(1, 8).Draw(t, "nodes"), GPUsPerNode: 1 << rapid.IntRange(0, 3).Draw(t, "GPUs per node, log 2")}
		s := Sim{cluster: c, opts: Options{Models: defaultModels}}
		s.place.reset(Placement(rapid.IntRange(0, 3).Draw(t, "placement")), c)
		var stop []ID
		for range rapid.IntRange(0, 30).Draw(t, "jobs") {
			g := rapid.IntRange(1, min(20, c.TotalGPUs())).Draw(t, "GPUs")
			id := ID(len(s.jobs))
			s.jobs = append(s.jobs, job{gpus: int32(g), node: -1, multi: -1, partner: -1, tenant: -1, share: 1, relaxed: rapid.Bool().Draw(t, "relaxed")})
			if !s.seat(id, g) {
				s.jobs = s.jobs[:id]
				continue
			}
			s.jobs[id].phase = running
			if rapid.Bool().Draw(t, "stops") {
				stop = append(stop, id)
			}
		}
		s.reach.look(&s, stop)
		s.vacateAll(stop)
		for g := 1; g <= c.TotalGPUs(); g++ {
			for _, relaxed := range []bool{false, true} {
				want := g <= s.place.idle
				if s.place.mode != Count {
					want = len(s.place.find(nil, g, 0, relaxed)) > 0
				}
				if got := s.reach.fits(&s, g, relaxed); got != want {
					t.Fatalf("%d GPUs, relaxed %v: %v, want %v", g, relaxed, got, want)
				}
			}
		}
	})
}
