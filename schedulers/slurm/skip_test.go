package slurm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// eager asks for a plan every second while jobs wait.
type eager struct {
	*policy
	v *simulator.View
}

func (e *eager) Reset(v *simulator.View, p *simulator.Plan) {
	e.v = v
	e.policy.Reset(v, p)
}

func (e *eager) Plan(p *simulator.Plan) {
	e.policy.Plan(p)
	if e.v.Waiting() > 0 {
		p.WakeAt(e.v.Now() + time.Second)
	}
}

// TestSkippedCyclesChangeNothing: jobs start as they do if each backfill cycle tries the whole queue, which it does
// under preemption even if no QOS preempts, and as they do with a plan every second.
func TestSkippedCyclesChangeNothing(t *testing.T) {
	cases := 60
	if testing.Short() {
		cases = 20
	}
	waited, reserved := 0, 0
	for seed := range cases {
		r := rand.New(rand.NewPCG(uint64(seed), 16))
		s := Defaults()
		s.BFInterval = time.Duration(1+r.IntN(60)) * time.Second
		s.BFResolution = time.Duration(1+r.IntN(90)) * time.Second
		s.SchedInterval = time.Duration(10+r.IntN(60)) * time.Second
		s.PriorityCalcPeriod = time.Minute
		s.PriorityWeightAge, s.PriorityMaxAge = int64(r.IntN(2)*1000), time.Duration(1+r.IntN(20))*time.Minute
		s.PriorityWeightFairshare, s.PriorityWeightJobSize = int64(r.IntN(2)*5000), int64(r.IntN(2)*3000)
		s.PriorityFavorSmall = r.IntN(2) == 0
		if r.IntN(3) == 0 {
			s.BFMinAgeReserve = time.Duration(1+r.IntN(300)) * time.Second
		}
		if r.IntN(3) == 0 {
			s.BFMaxJobUser = 1 + r.IntN(5)
		}
		if r.IntN(3) == 0 {
			s.BFJobPartCountResv = 1 + r.IntN(5)
		}
		s.BFMaxJobTest = 10 + r.IntN(50)
		w, err := workload.New("t", time.Time{}, crowd(r, 90))
		if err != nil {
			t.Fatal(err)
		}
		run := func(p simulator.Policy) []simulator.Outcome {
			var sim simulator.Sim
			if err := sim.Start(workload.Uniform(6, 4), w, p, simulator.Options{Epilog: time.Second}); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			return sim.Outcomes(nil)
		}
		want := run(NewPolicy(s))
		for _, o := range want {
			if o.Wait > 0 {
				waited++
			}
			if o.Wait > s.BFInterval {
				reserved++
			}
		}
		whole := s
		whole.PreemptQOS = true
		if d := cmp.Diff(want, run(NewPolicy(whole))); d != "" {
			t.Fatalf("seed %d: the whole queue is tried and it differs: %s", seed, d)
		}
		if d := cmp.Diff(want, run(&eager{policy: &policy{settings: s}})); d != "" {
			t.Fatalf("seed %d: with a plan every second it differs: %s", seed, d)
		}
	}
	if waited < 30*cases || reserved < 20*cases {
		t.Errorf("%d jobs waited, %d of them beyond a backfill cycle: nothing is shown", waited, reserved)
	}
}

// crowd draws jobs for more than 24 GPUs, most of them narrow and short.
func crowd(r *rand.Rand, n int) []workload.Job {
	var out []workload.Job
	at := time.Duration(0)
	for i := range n {
		at += time.Duration(r.IntN(40)) * time.Second
		nodes, each := 1, 1+r.IntN(4)
		if r.IntN(4) == 0 {
			nodes, each = 2+r.IntN(4), 4
		}
		run := time.Duration(1+r.IntN(600)) * time.Second
		limit := (run + time.Duration(r.IntN(900))*time.Second).Truncate(time.Minute) + time.Minute
		asks := workload.Request{NodeCount: int32(nodes), TimeLimit: limit, Account: string(rune('p' + r.IntN(2)))}
		out = append(out, workload.Job{ID: fmt.Sprint(i), User: string(rune('a' + r.IntN(4))), Submit: at,
			Duration: run, GPUs: workload.GPUs(nodes * each), Requested: asks.Shared()})
	}
	return out
}
