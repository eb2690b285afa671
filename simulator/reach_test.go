package simulator

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// TestReachIsWhatStoppingGives: while jobs come and go and others are offered, a
// gang is within reach exactly if it finds a place once those offered have
// stopped.
func TestReachIsWhatStoppingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := workload.Cluster{Nodes: rapid.IntRange(1, 8).Draw(t, "nodes"), GPUsPerNode: 1 << rapid.IntRange(0, 3).Draw(t, "GPUs per node, log 2")}
		s := Sim{cluster: c, opts: Options{Models: defaultModels}}
		s.place.reset(Placement(rapid.IntRange(0, 3).Draw(t, "placement")), c)
		s.reach.forget()
		var running []ID
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			for range rapid.IntRange(0, 10).Draw(t, "starts") {
				if id, ok := drawSeated(t, &s); ok {
					running = append(running, id)
				}
			}
			for range rapid.IntRange(0, len(running)).Draw(t, "ends") {
				k := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				s.release(running[k])
				s.jobs[running[k]].phase = done
				running = slices.Delete(running, k, k+1)
			}
			var stop []ID
			for _, id := range running {
				if rapid.Bool().Draw(t, "stops") {
					stop = append(stop, id)
				}
			}
			s.look(stop)
			checkReach(t, &s, stop)
			if rapid.Bool().Draw(t, "stop them") {
				s.vacateAll(stop)
				for _, id := range stop {
					s.retake(&s.jobs[id])
				}
			}
		}
	})
}

// drawSeated starts a job wherever there is a place.
func drawSeated(t *rapid.T, s *Sim) (ID, bool) {
	g := rapid.IntRange(1, min(20, s.cluster.TotalGPUs())).Draw(t, "GPUs")
	id := ID(len(s.jobs))
	s.jobs = append(s.jobs, job{gpus: int32(g), node: -1, multi: -1, partner: -1, tenant: -1, share: 1, relaxed: rapid.Bool().Draw(t, "relaxed")})
	if !s.seat(id, g) {
		s.jobs = s.jobs[:id]
		return 0, false
	}
	s.jobs[id].phase = running
	return id, true
}

func checkReach(t *rapid.T, s *Sim, stop []ID) {
	probe := Sim{cluster: s.cluster, jobs: slices.Clone(s.jobs), multi: s.multi}
	probe.place.copyFrom(&s.place)
	probe.vacateAll(stop)
	for g := int32(1); int(g) <= s.cluster.TotalGPUs(); g++ {
		for _, relaxed := range []bool{false, true} {
			want := probe.finds(kindKey{gpus: g, relaxed: relaxed})
			if got := s.reaches(int(g), relaxed); got != want {
				t.Fatalf("%d GPUs, relaxed %v: %v, want %v", g, relaxed, got, want)
			}
		}
	}
}
