package simulator

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// TestKindsFollowTheirJobs: whatever happens to waiting jobs, each has the kind
// that its record says, and sorting by kind is sorting by width.
func TestKindsFollowTheirJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sim
		s.place.mode = Count
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			s.plan.s = &s
			s.kinds.reset()
			s.jobs = s.jobs[:0]
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				if len(s.jobs) == 0 || rapid.IntRange(0, 2).Draw(t, "arrives") == 0 {
					s.jobs = append(s.jobs, job{gpus: int32(rapid.IntRange(1, 70).Draw(t, "GPUs")), members: 1,
						tenant: int32(rapid.IntRange(-1, 3).Draw(t, "tenant"))})
				}
				id := ID(rapid.IntRange(0, len(s.jobs)-1).Draw(t, "job"))
				j := &s.jobs[id]
				switch rapid.SampledFrom([]string{"starts", "stops", "spreads", "moves", "asks"}).Draw(t, "what") {
				case "starts":
					if j.phase == pending {
						s.kinds.stopsWaiting(id)
						j.phase = running
					}
				case "stops":
					j.phase = pending
				case "spreads":
					s.plan.AllowSpread(id, rapid.Bool().Draw(t, "relaxed"))
				case "moves":
					s.plan.SetPool(id, rapid.IntRange(0, 2).Draw(t, "pool"))
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
					if got, want := s.kinds.list[s.kind(ID(i))].key,
						(kindKey{j.gpus, j.members, j.tenant, j.pool, j.relaxed, 0, false}); got != want {
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

// apart is a policy with a pool for the last node.
type apart struct{ inOrder }

func (p *apart) Reset(v *View, plan *Plan) {
	p.inOrder.Reset(v, plan)
	plan.Partition(1)
}

// TestResumedJobsHaveTheKindOfTheirPool: also where their kinds are asked for
// before it is known on which nodes they run.
func TestResumedJobsHaveTheKindOfTheirPool(t *testing.T) {
	for _, attribute := range []bool{false, true} {
		state := &workload.State{At: time.Hour, Cluster: workload.Uniform(2, 8)}
		j := workload.ActiveJob{Job: tenantJob("a", 0, 10_000, 4), Running: true, Since: 0, Starts: 1, Pool: 1,
			Placement: []workload.NodeGPUs{{Node: 1, GPUs: 4}}}
		j.ID = "j"
		state.Jobs = append(state.Jobs, j)
		s := new(Sim)
		if err := s.Resume(state, []time.Duration{time.Hour}, nil, new(apart),
			Options{Attribute: attribute}); err != nil {
			t.Fatal(err)
		}
		if !s.JobRunning(0) || s.JobPool(0) != 1 {
			t.Fatalf("running is %v, in pool %d", s.JobRunning(0), s.JobPool(0))
		}
		s.vacate(0)
		s.evict(0)
		if key := s.kinds.list[s.kind(0)].key; key.pool != 1 {
			t.Errorf("with attribute %v the kind is %+v", attribute, key)
		}
	}
}

// TestRunsAfterAPanicBeginAnew: a pending exchange of a policy that
// panicked is forgotten by the next run.
func TestRunsAfterAPanicBeginAnew(t *testing.T) {
	s := new(Sim)
	w := jobsOf(t, tenantJob("a", 0, 100, 4), tenantJob("a", 1, 100, 4))
	c := workload.Uniform(1, 8)
	if err := s.Start(c, w, new(inOrder), Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.RunUntil(context.Background(), 2*time.Second); err != nil {
		t.Fatal(err)
	}
	s.survey([]ID{0, 1})
	if err := s.Start(c, w, new(inOrder), Options{}); err != nil {
		t.Fatal(err)
	}
	if r := &s.reach; r.sited || r.first[0] != -1 {
		t.Errorf("sited is %v, the first on node 0 is %d", r.sited, r.first[0])
	}
}

func TestStartingWhoRunsPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	s := Sim{View: View{records: records{jobs: []job{{gpus: 1, members: 1}}}}}
	s.kind(0)
	s.kinds.stopsWaiting(0)
	s.jobs[0].phase = running
	s.canHelp(nil, []ID{0})
}

// TestResumedRunsHavePoolsAsBefore: a job that asks for memory, so that there are no pools, may have ended before.
func TestResumedRunsHavePoolsAsBefore(t *testing.T) {
	cluster := workload.Uniform(2, 1)
	cluster.Groups[0].Memory = 1 << 30
	none, err := workload.New("none", time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := &workload.State{At: time.Hour, Cluster: cluster}
	for _, memory := range []int64{0, 1} {
		var s Sim
		ended := EndedJob{End: time.Hour, GPUs: 1, Requested: workload.Request{Memory: memory}.Shared()}
		if err := s.Resume(state, nil, none, &restless{}, Options{Past: NewPast([]EndedJob{ended})}); err != nil {
			t.Fatal(err)
		}
		if got, want := s.HasPools(), memory == 0; got != want {
			t.Errorf("after a job that asks for %d bytes: pools %v, want %v", memory, got, want)
		}
	}
}
