package schedulers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestStrictQuotasHold: at no instant do tenants hold more than their quotas and
// the unassigned rest. GPUs that two jobs share are held by both.
func TestStrictQuotasHold(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, _ *simulator.Sim) {
		if c.opts.Quota != simulator.QuotaStrict {
			return
		}
		r, err := c.run(new(simulator.Sim))
		if err != nil {
			t.Skip("the run failed")
		}
		held := map[string]int{}
		r.replay(func(at time.Duration) {
			shared, beyond := c.cluster.TotalGPUs(), 0
			quota := map[string]int{}
			for _, v := range c.cluster.VCs {
				shared -= v.GPUs
				quota[v.Tenant] = v.GPUs
			}
			for tenant, n := range held {
				beyond += max(0, n-quota[tenant])
			}
			if beyond > shared {
				t.Fatalf("at %v: %v GPUs are held with quotas %v: %d are in none", at, held, quota, shared)
			}
		}, func(s spell, sign int) { held[c.job(s.job).Tenant] += sign * s.held })
	})
}

// small runs a few jobs of seconds on one node.
func small(t *testing.T, scheduler string, set []string, gpus int, vcs []workload.VC, o simulator.Options,
	jobs ...workload.Job) []simulator.Outcome {
	t.Helper()
	s, err := schedulers.Find(scheduler)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Space.Parse(s.Space.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		jobs[i].ID, jobs[i].Submit, jobs[i].Duration = fmt.Sprint(i), jobs[i].Submit*time.Second,
			jobs[i].Duration*time.Second
	}
	w, err := workload.New("small", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: gpus}}, VCs: vcs}, w,
		s.New(config), o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return sim.Outcomes(nil)
}

// TestPriorityWithinAQuota: a tenant that holds all its quota has its urgent job
// stop its own other one, while the other tenant's GPUs are idle or busy; and
// no job waits behind another tenant's full quota.
func TestPriorityWithinAQuota(t *testing.T) {
	vcs := []workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 4}}
	o := simulator.Options{Quota: simulator.QuotaStrict, Peer: simulator.Peer{NoRestartCost: true}}
	for scheduler, set := range map[string][]string{"tiresias": {"queues=2", "queue_thresholds=400"}, "srtf": nil} {
		out := small(t, scheduler, set, 8, vcs, o,
			workload.Job{Tenant: "a", Duration: 1000, GPUs: workload.GPUs(4)},
			// sinks when it ends: 400 GPU-seconds
			workload.Job{Tenant: "a", Submit: 200, Duration: 100, GPUs: workload.GPUs(4)},
			workload.Job{Tenant: "b", Submit: 250, Duration: 100, GPUs: workload.GPUs(4)})
		if out[1].Wait != 0 || out[0].Preemptions != 1 || out[0].End != 1100*time.Second || out[2].Wait != 0 {
			t.Errorf("%s: %+v", scheduler, out)
		}
	}
	for _, backfill := range []string{"backfill=false", "backfill=true"} {
		for _, scheduler := range []string{"fifo", "sjf"} {
			out := small(t, scheduler, []string{backfill}, 8, vcs, o,
				workload.Job{Tenant: "a", Duration: 1000, GPUs: workload.GPUs(4)},
				workload.Job{Tenant: "a", Submit: 1, Duration: 1, GPUs: workload.GPUs(4)},
				workload.Job{Tenant: "b", Submit: 2, Duration: 100, GPUs: workload.GPUs(4)})
			if out[2].Wait != 0 || out[1].Start != 1000*time.Second {
				t.Errorf("%s %s: %+v", scheduler, backfill, out)
			}
		}
	}
}

// noPreemptions are the policies that stop no job, and noTurns the ones that stop
// none for a shorter one of the same tenant.
var (
	noPreemptions = []string{"fifo", "optimus", "pollux", "sjf", "slurm", "volcano"}
	noTurns       = []string{"fifo", "kueue", "lucid", "pooling", "sjf", "slurm"}
)

// TestProtectedJobsRunOn: under every policy no job is stopped more often than it
// may, nor before it has run for the minimum; and every job ends.
func TestProtectedJobsRunOn(t *testing.T) {
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			stopped := 0
			rapid.Check(t, func(t *rapid.T) {
				c := drawTrial(t, s)
				p := simulator.Protection{MaxPreemptions: uniform(0, 3).Draw(t, "max preemptions"),
					MinRun: time.Duration(uniform(0, 3).Draw(t, "min run")) * 37 * time.Minute}
				c.opts.Protect = p
				began := map[simulator.ID]time.Duration{}
				c.watch = func(e simulator.Event) {
					switch e.Kind {
					case workload.Started, workload.Resumed:
						began[e.Job] = e.Time
					case workload.Preempted:
						stopped++
						if ran := e.Time - began[e.Job]; ran < p.MinRun {
							t.Fatalf("%s was stopped after %v, before %v", c.job(e.Job).ID, ran, p.MinRun)
						}
					}
				}
				r, err := c.run(new(simulator.Sim))
				if err != nil {
					if p.MaxPreemptions > 0 || p.MinRun > 0 {
						t.Fatal(err)
					}
					return // a starve limit may livelock an unprotected run
				}
				if len(r.outcomes) != c.w.Len() {
					t.Fatalf("%d of %d jobs ended", len(r.outcomes), c.w.Len())
				}
				for _, o := range r.outcomes {
					if p.MaxPreemptions > 0 && o.Preemptions > p.MaxPreemptions {
						t.Fatalf("%s was stopped %d times, more than %d",
							c.job(o.ID).ID, o.Preemptions, p.MaxPreemptions)
					}
				}
			})
			none := slices.Contains(noPreemptions, s.Name)
			if stopped > 0 && none || stopped == 0 && !none && !testing.Short() { // a few trials may stop none
				t.Errorf("%d jobs were stopped in all; noPreemptions names those that stop none", stopped)
			}
		})
	}
}

// TestProtectionByHand: the second job would stop the first at once, and the
// third the second.
func TestProtectionByHand(t *testing.T) {
	for _, x := range []struct {
		protect simulator.Protection
		starts  []time.Duration // in seconds
	}{
		{simulator.Protection{}, []time.Duration{0, 100, 200}},
		// at 300 the third is the shortest
		{simulator.Protection{MinRun: 300 * time.Second}, []time.Duration{0, 800, 300}},
		{simulator.Protection{MaxPreemptions: 1}, []time.Duration{0, 100, 200}},
	} {
		out := small(t, "srtf", nil, 4, nil,
			simulator.Options{Peer: simulator.Peer{NoRestartCost: true}, Protect: x.protect},
			workload.Job{Duration: 2000, GPUs: workload.GPUs(4)},
			workload.Job{Submit: 100, Duration: 1000, GPUs: workload.GPUs(4)},
			workload.Job{Submit: 200, Duration: 500, GPUs: workload.GPUs(4)})
		var got []time.Duration
		for _, o := range out {
			got = append(got, o.Start/time.Second)
		}
		if !slices.Equal(got, x.starts) {
			t.Errorf("%+v: jobs start at %v, want %v", x.protect, got, x.starts)
		}
	}
	// A job that was stopped as often as it may is not stopped a third time: the
	// fourth waits for the first, whose 700 s are left at 1200.
	long := []workload.Job{
		{Duration: 1000, GPUs: workload.GPUs(4)},
		{Submit: 100, Duration: 100, GPUs: workload.GPUs(4)},
		{Submit: 300, Duration: 100, GPUs: workload.GPUs(4)},
		{Submit: 500, Duration: 100, GPUs: workload.GPUs(4)},
	}
	for most, want := range map[int]time.Duration{0: 500, 3: 500, 2: 1200} {
		out := small(t, "srtf", nil, 4, nil, simulator.Options{Peer: simulator.Peer{NoRestartCost: true},
			Protect: simulator.Protection{MaxPreemptions: most}}, slices.Clone(long)...)
		if got := out[3].Start / time.Second; got != want {
			t.Errorf("at most %d times: the fourth job starts at %d s, want %d", most, got, want)
		}
	}
}

// TestTenantsTakeTurns: under strict quotas a tenant's short job takes the place
// of its long one in time, as if there were no other tenant, under every policy
// but noTurns; whatever the other tenant has waiting.
func TestTenantsTakeTurns(t *testing.T) {
	testshared.Full(t)
	vcs := []workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 4}}
	o := simulator.Options{Quota: simulator.QuotaStrict, Peer: simulator.Peer{NoRestartCost: true},
		Estimate: func(j *workload.Job) time.Duration {
			return j.Duration
		}}
	const hours = 3600
	own := []workload.Job{
		{Tenant: "b", Duration: 20 * hours, GPUs: workload.GPUs(4)},
		{Tenant: "b", Submit: 100, Duration: hours, GPUs: workload.GPUs(4)},
	}
	var crowd []workload.Job
	for i := range 60 {
		crowd = append(crowd, workload.Job{Tenant: "a",
			Submit: time.Duration(i), Duration: 20 * hours, GPUs: workload.GPUs(4)})
	}
	for _, s := range schedulers.All {
		if s.Name == "volcano" { // as many jobs of the first queue are let in as there is room, whatever their share
			continue
		}
		limit := time.Hour
		if slices.Contains(noTurns, s.Name) {
			limit = 20*time.Hour + time.Second // a batch of releases
		}
		alone := small(t, s.Name, nil, 8, vcs, o, slices.Clone(own)...)
		beside := small(t, s.Name, nil, 8, vcs, o, slices.Concat(own[:1], crowd, own[1:])...)
		if want, got := alone[1].Start, beside[61].Start; want > limit || got > max(want, limit) {
			t.Errorf("%s: the second job starts at %v, alone at %v, want %v at most", s.Name, got, want, limit)
		}
	}
}
