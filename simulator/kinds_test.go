package simulator

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestKindsFollowTheirJobs: whatever becomes of waiting jobs, each has the kind
// that its record says, and sorting by kind is sorting by width.
func TestKindsFollowTheirJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sim
		s.place.mode = Count
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			s.kinds.reset()
			s.jobs = s.jobs[:0]
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				if len(s.jobs) == 0 || rapid.IntRange(0, 2).Draw(t, "arrives") == 0 {
					s.jobs = append(s.jobs, job{gpus: int32(rapid.IntRange(1, 70).Draw(t, "GPUs")), members: 1, tenant: int32(rapid.IntRange(-1, 3).Draw(t, "tenant"))})
				}
				id := ID(rapid.IntRange(0, len(s.jobs)-1).Draw(t, "job"))
				j := &s.jobs[id]
				switch rapid.SampledFrom([]string{"starts", "stops", "spreads", "moves", "asks"}).Draw(t, "what") {
				case "starts":
					if j.phase == pending {
						s.kinds.waitsNoLonger(id)
						j.phase = running
					}
				case "stops":
					j.phase = pending
				case "spreads":
					s.SetRelaxed(id, rapid.Bool().Draw(t, "relaxed"))
				case "moves":
					s.SetPool(id, rapid.IntRange(0, 2).Draw(t, "pool"))
				case "asks":
					if j.phase == pending {
						s.kind(id)
					}
				}
			}
			var fork Sim
			fork.jobs = s.jobs
			fork.kinds.copyFrom(&s.kinds)
			for _, s := range []*Sim{&s, &fork} {
				var waiting []ID
				for i := range s.jobs {
					j := &s.jobs[i]
					if j.phase != pending {
						continue
					}
					waiting = append(waiting, ID(i))
					if got, want := s.kinds.list[s.kind(ID(i))].key, (kindKey{j.gpus, j.members, j.tenant, j.pool, j.relaxed}); got != want {
						t.Fatalf("job %d is of kind %+v, want %+v", i, got, want)
					}
				}
				waiting = rapid.Permutation(waiting).Draw(t, "order")
				want := slices.Clone(waiting)
				slices.SortStableFunc(want, func(a, b ID) int { return int(s.jobs[b].gpus - s.jobs[a].gpus) })
				if s.sortWidest(waiting); !slices.Equal(waiting, want) {
					t.Fatalf("sorted to %v, want %v", waiting, want)
				}
			}
		}
	})
}

func TestStartingWhoRunsPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	s := Sim{jobs: []job{{gpus: 1, members: 1}}}
	s.kind(0)
	s.kinds.waitsNoLonger(0)
	s.jobs[0].phase = running
	s.helps(nil, []ID{0})
}
