package schedulers_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestKueueQuotas: at no instant does a queue hold more than its quota and its limit of borrowing, nor its cohort more
// than there is, nor others more of a queue than it lends; and no job is evicted where preemption is off.
func TestKueueQuotas(t *testing.T) {
	s, err := schedulers.Find("kueue")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := trial{scheduler: s, config: drawConfig(t, s.Space),
			cluster: workload.Uniform(uniform(2, 4).Draw(t, "nodes"), 8)}
		left := c.cluster.TotalGPUs()
		for _, tenant := range []string{"a", "b", "c"} {
			v := workload.VC{Tenant: tenant, GPUs: uniform(0, left).Draw(t, "quota"), Cohort: "all"}
			left -= v.GPUs
			c.cluster.VCs = append(c.cluster.VCs, v)
		}
		c.cluster.VCs = append(c.cluster.VCs, workload.VC{Tenant: "d", GPUs: left}) // alone
		c.cluster.Site.Settings = map[string]string{kueue.FairSharing: fmt.Sprint(rapid.Bool().Draw(t, "fair"))}
		jobs := slices.Clone(drawWorkload(t, c.cluster).Jobs())
		queues := kueue.Queues(c.cluster, c.config)
		for i := range jobs { // of which each queue may hold any
			q := queues[uniform(0, 3).Draw(t, "queue")]
			most := q.Nominal
			if q.BorrowingLimit.Set {
				most += q.BorrowingLimit.GPUs
			}
			if most == 0 {
				q, most = queues[0], c.cluster.TotalGPUs()
			}
			jobs[i].Tenant = q.Name
			jobs[i].GPUs = workload.GPUs(min(jobs[i].GPUs.Whole(), max(1, min(most, q.Nominal))))
			jobs[i].Requested = workload.Request{Priority: int64(uniform(0, 2).Draw(t, "priority"))}.Shared()
		}
		if c.w, err = workload.New("queues", time.Time{}, jobs); err != nil {
			t.Fatal(err)
		}
		evicted := 0
		c.watch = func(e simulator.Event) {
			if e.Kind == workload.Preempted {
				evicted++
			}
		}
		r, err := c.run(new(simulator.Sim))
		if err != nil {
			t.Skip("the run failed")
		}
		off := !slices.ContainsFunc(queues, func(q kueue.Queue) bool {
			return q.Within != kueue.Never || q.Reclaim != kueue.Never
		})
		if off && evicted > 0 {
			t.Fatalf("%d evictions without preemption", evicted)
		}
		held := map[string]int{}
		alone := false // a job that its queue may never hold
		r.replay(func(at time.Duration) {
			if alone = alone && len(held) > 0; alone {
				return
			}
			lent, used := 0, 0
			for _, q := range queues {
				if q.Cohort == "" {
					if held[q.Name] > q.Nominal {
						t.Fatalf("at %v: %s holds %d GPUs of %d", at, q.Name, held[q.Name], q.Nominal)
					}
					continue
				}
				own := 0
				if q.LendingLimit.Set {
					own = q.Nominal - q.LendingLimit.GPUs
				}
				lent += q.Nominal - own
				used += max(0, held[q.Name]-own)
				if q.BorrowingLimit.Set && held[q.Name] > q.Nominal+q.BorrowingLimit.GPUs {
					t.Fatalf("at %v: %s holds %d GPUs of %d, and borrows at most %d", at, q.Name, held[q.Name],
						q.Nominal, q.BorrowingLimit.GPUs)
				}
			}
			if used > lent {
				t.Fatalf("at %v: %v holds %d GPUs of the cohort's %d", at, held, used, lent)
			}
		}, func(s spell, sign int) {
			name := c.job(s.job).Tenant
			held[name] += sign * s.held
			for _, q := range queues {
				alone = alone || q.Name == name && s.held > q.Nominal
			}
			if held[name] == 0 {
				delete(held, name)
			}
		})
	})
}

// TestKueueByHand: rules of Kueue on eight GPUs, of which a and b have four each.
func TestKueueByHand(t *testing.T) {
	job := func(tenant string, at, run time.Duration, gpus, priority int) workload.Job {
		return workload.Job{Tenant: tenant, Submit: at, Duration: run, GPUs: workload.GPUs(gpus),
			Requested: workload.Request{Priority: int64(priority)}.Shared()}
	}
	borrow := []workload.VC{{Tenant: "a", GPUs: 4, Cohort: "c"}, {Tenant: "b", GPUs: 4, Cohort: "c"}}
	for name, tt := range map[string]struct {
		set    []string
		vcs    []workload.VC
		jobs   []workload.Job
		starts []time.Duration // seconds, of the first stay
		ends   []time.Duration
	}{
		"a job that does not fit is considered again a second after a release": {nil, borrow,
			[]workload.Job{job("a", 0, 100, 8, 0), job("a", 1, 10, 8, 0)},
			[]time.Duration{0, 101}, []time.Duration{100, 111}},
		"a new job of another size overtakes it": {nil, borrow,
			[]workload.Job{job("a", 0, 100, 6, 0), job("a", 1, 10, 8, 0), job("b", 2, 10, 2, 0)},
			[]time.Duration{0, 101, 2}, []time.Duration{100, 111, 12}},
		"but not behind the head of a StrictFIFO queue": {[]string{"queueingStrategy=StrictFIFO"}, borrow,
			[]workload.Job{job("a", 0, 100, 6, 0), job("a", 1, 10, 8, 0), job("a", 2, 10, 2, 0)},
			[]time.Duration{0, 100, 110}, []time.Duration{100, 110, 120}},
		"a queue borrows up to its limit": {[]string{"borrowingLimit=.25"}, borrow,
			[]workload.Job{job("a", 0, 100, 4, 0), job("a", 1, 100, 2, 0), job("a", 2, 100, 1, 0)},
			[]time.Duration{0, 1, 101}, []time.Duration{100, 101, 201}},
		"others lend up to theirs": {[]string{"lendingLimit=.25"}, borrow,
			[]workload.Job{job("a", 0, 100, 4, 0), job("a", 1, 100, 2, 0), job("a", 2, 100, 1, 0)},
			[]time.Duration{0, 101, 2}, []time.Duration{100, 201, 102}},
		"an owner evicts the borrower that came last": {[]string{"preemption.reclaimWithinCohort=Any"}, borrow,
			[]workload.Job{job("a", 0, 100, 4, 0), job("a", 1, 100, 2, 0), job("a", 2, 100, 2, 0),
				job("b", 10, 100, 2, 0)},
			[]time.Duration{0, 1, 2, 10}, []time.Duration{100, 101, 201, 110}},
		"no more than need go": {[]string{"preemption.withinClusterQueue=LowerPriority"}, borrow,
			[]workload.Job{job("a", 0, 100, 1, 0), job("a", 1, 100, 3, 0), job("a", 2, 100, 4, 1),
				job("a", 9, 10, 3, 5)},
			[]time.Duration{0, 1, 2, 9}, []time.Duration{100, 120, 102, 19}},
		"not more urgent ones": {[]string{"preemption.reclaimWithinCohort=LowerPriority"}, borrow,
			[]workload.Job{job("a", 0, 100, 8, 3), job("b", 1, 10, 2, 2), job("b", 2, 10, 2, 4)},
			[]time.Duration{0, 3, 2}, []time.Duration{113, 13, 12}},
		"a head within its quota keeps it from borrowers": {nil, borrow,
			[]workload.Job{job("a", 0, 50, 6, 0), job("b", 0, 90, 2, 0), job("a", 1, 10, 2, 0), job("b", 1, 10, 2, 9)},
			[]time.Duration{0, 0, 51, 51}, []time.Duration{50, 90, 61, 61}},
		"a job that its queue may never hold starts when nothing runs or arrives any more": {nil,
			[]workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 4}},
			[]workload.Job{job("a", 0, 10, 6, 0), job("a", 0, 10, 4, 0), job("b", 50, 50, 4, 0)},
			[]time.Duration{101, 0, 50}, []time.Duration{111, 10, 100}},
	} {
		out := small(t, "kueue", tt.set, 8, tt.vcs, simulator.Options{}, slices.Clone(tt.jobs)...)
		var starts, ends []time.Duration
		for _, o := range out {
			starts, ends = append(starts, o.Start/time.Second), append(ends, o.End/time.Second)
		}
		if !slices.Equal(starts, tt.starts) || !slices.Equal(ends, tt.ends) {
			t.Errorf("%s: start at %d and end at %d, want %d and %d", name, starts, ends, tt.starts, tt.ends)
		}
	}
}

// TestKueueFairSharing: of two queues that borrow, each gets one job a cycle, and the last GPU goes to the lesser share
// for its weight; with preemption the head of the lesser share evicts a borrower.
func TestKueueFairSharing(t *testing.T) {
	s, err := schedulers.Find("kueue")
	if err != nil {
		t.Fatal(err)
	}
	c := workload.Uniform(1, 8)
	c.VCs = []workload.VC{{Tenant: "a", Cohort: "c"}, {Tenant: "b", Cohort: "c"}, {Tenant: "own", GPUs: 8, Cohort: "c"}}
	held := func(gpus int, reclaim string, weights map[string]string, jobs ...workload.Job) map[string]int {
		c.VCs[2].GPUs = gpus
		c.Site.Settings = map[string]string{kueue.FairSharing: "true"}
		for queue, weight := range weights {
			c.Site.Settings[kueue.Key(queue, kueue.Weight)] = weight
		}
		config, err := s.Space.Parse(s.Space.Default(), []string{"preemption.reclaimWithinCohort=" + reclaim})
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			jobs[i].ID, jobs[i].Duration, jobs[i].GPUs = fmt.Sprint(i), time.Hour, workload.GPUs(1)
		}
		w, err := workload.New("fair", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		var sim simulator.Sim
		if err := sim.Start(c, w, s.New(config), simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.RunUntil(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for id := range sim.Submitted() {
			out[sim.JobTenantName(id)] += sim.JobHeld(id)
		}
		return out
	}
	var both, late []workload.Job
	for i := range 16 {
		both = append(both, workload.Job{Tenant: string(rune('a' + i/8))})
		late = append(late, workload.Job{Tenant: string(rune('a' + i/8)), Submit: time.Duration(i/8) * time.Second})
	}
	for _, tt := range []struct {
		gpus    int
		reclaim string
		weights map[string]string
		jobs    []workload.Job
		a       int
	}{{7, "Never", map[string]string{"a": "3"}, both, 4}, {7, "Never", map[string]string{"b": "3"}, both, 3},
		{7, "Never", map[string]string{"a": "0"}, both, 3}, {8, "Never", nil, late, 8}, {8, "Any", nil, late, 4},
		{8, "Any", map[string]string{"b": "3"}, late, 2}} {
		got := held(tt.gpus, tt.reclaim, tt.weights, slices.Clone(tt.jobs)...)
		if got["a"] != tt.a || got["b"] != tt.gpus-tt.a {
			t.Errorf("%s, weights %v: %v, want %d of a", tt.reclaim, tt.weights, got, tt.a)
		}
	}
}

// BenchmarkKueue is 100,000 jobs of twelve queues with priorities.
func BenchmarkKueue(b *testing.B) {
	s, err := schedulers.Find("kueue")
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 33))
	c := workload.Uniform(100, 8)
	for i := range 12 {
		c.VCs = append(c.VCs, workload.VC{Tenant: fmt.Sprint("queue-", i), GPUs: 66, Cohort: "all"})
	}
	var jobs []workload.Job
	at := time.Duration(0)
	for i := range 100_000 {
		at += time.Duration(r.ExpFloat64() * 14 * float64(time.Second))
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(r.Uint64(), "-", i), Tenant: fmt.Sprint("queue-", r.IntN(12)),
			Submit: at, Duration: time.Duration(1+r.ExpFloat64()*3600) * time.Second,
			GPUs:      workload.GPUs([]int{1, 1, 1, 2, 4, 8, 8, 16}[r.IntN(8)]),
			Requested: workload.Request{Priority: int64(r.IntN(4) / 3 * 10)}.Shared()})
	}
	w, err := workload.New("kueue", time.Time{}, jobs)
	if err != nil {
		b.Fatal(err)
	}
	for name, set := range map[string][]string{"default": nil, "strict": {"queueingStrategy=StrictFIFO"},
		"preempt": {"preemption.withinClusterQueue=LowerPriority", "preemption.reclaimWithinCohort=LowerPriority"}} {
		config, err := s.Space.Parse(s.Space.Default(), set)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) { benchRun(b, contender{name, s, config}, c, w) })
	}
}
