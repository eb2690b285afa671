package simulator

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// TestReachIsWhatStoppingGives: while jobs come and go and others are offered, a
// gang is within reach exactly if it finds a place once the offered ones have
// stopped.
func TestReachIsWhatStoppingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := workload.Uniform(rapid.IntRange(1, 8).Draw(t, "nodes"),
			1<<rapid.IntRange(0, 3).Draw(t, "GPUs per node, log 2"))
		s := Sim{View: View{inputs: inputs{cluster: c, opts: Options{Models: defaultModels}}}}
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
			s.offerStops(stop)
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
	s.jobs = append(s.jobs, job{gpus: int32(g), members: 1, limit: never, node: -1, multi: -1, partner: -1, tenant: -1,
		share:   1,
		relaxed: rapid.Bool().Draw(t, "relaxed")})
	if !s.allocate(id, g) {
		s.jobs = s.jobs[:id]
		return 0, false
	}
	s.jobs[id].phase = running
	return id, true
}

func checkReach(t *rapid.T, s *Sim, stop []ID) {
	probe := Sim{View: View{inputs: inputs{cluster: s.cluster},
		records: records{jobs: slices.Clone(s.jobs), multi: s.multi}}}
	probe.place.copyFrom(&s.place)
	probe.vacateAll(stop)
	for g := int32(1); int(g) <= s.cluster.TotalGPUs(); g++ {
		for _, relaxed := range []bool{false, true} {
			want := probe.finds(kindKey{gpus: g, relaxed: relaxed})
			if got := s.couldFit(kindKey{gpus: g, relaxed: relaxed}); got != want {
				t.Fatalf("%d GPUs, relaxed %v: %v, want %v", g, relaxed, got, want)
			}
		}
	}
}

// TestExchangeStartsAllThatFit: a job that was to start and did not would find no
// place even if every offered job had stopped, no job stops without another that
// starts, and no GPU is held twice.
func TestExchangeStartsAllThatFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := workload.Uniform(rapid.IntRange(1, 8).Draw(t, "nodes"),
			1<<rapid.IntRange(0, 3).Draw(t, "GPUs per node, log 2"))
		s := Sim{View: View{inputs: inputs{cluster: c, opts: Options{Models: defaultModels}}}}
		s.place.reset(Placement(rapid.IntRange(0, 3).Draw(t, "placement")), c)
		s.reach.forget()
		for range rapid.IntRange(1, 5).Draw(t, "exchanges") {
			var stop, start []ID
			for range rapid.IntRange(0, 20).Draw(t, "running") {
				drawSeated(t, &s)
			}
			for id := range s.jobs {
				if s.jobs[id].phase == running && rapid.Bool().Draw(t, "stops") {
					stop = append(stop, ID(id))
				}
			}
			for range rapid.IntRange(0, 8).Draw(t, "waiting") {
				start = append(start, ID(len(s.jobs)))
				g := rapid.IntRange(1, min(20, c.TotalGPUs())).Draw(t, "GPUs")
				s.jobs = append(s.jobs, job{gpus: int32(g), members: 1, limit: never, node: -1, multi: -1,
					partner: -1, tenant: -1, share: 1, relaxed: rapid.Bool().Draw(t, "relaxed")})
			}
			s.exchange(slices.Clone(stop), slices.Clone(start), rapid.Bool().Draw(t, "widest"))

			var left []ID
			for _, id := range stop {
				if s.jobs[id].phase == running {
					left = append(left, id)
				}
			}
			started := slices.ContainsFunc(start, func(id ID) bool { return s.jobs[id].phase == running })
			if len(left) < len(stop) && !started {
				t.Fatalf("%d of %d stopped and nobody started", len(stop)-len(left), len(stop))
			}
			held := 0
			for id := range s.jobs {
				if s.jobs[id].phase == running {
					held += int(s.jobs[id].held)
				}
			}
			if held+s.place.idle != c.TotalGPUs() {
				t.Fatalf("%d GPUs held and %d free of %d", held, s.place.idle, c.TotalGPUs())
			}
			probe := Sim{View: View{inputs: inputs{cluster: c},
				records: records{jobs: slices.Clone(s.jobs), multi: s.multi}}}
			probe.place.copyFrom(&s.place)
			probe.vacateAll(left)
			for _, id := range start {
				j := &s.jobs[id]
				if k := (kindKey{gpus: j.gpus, relaxed: j.relaxed}); j.phase == pending && probe.finds(k) {
					t.Fatalf("a job of %d GPUs did not start", j.gpus)
				}
			}
		}
	})
}
