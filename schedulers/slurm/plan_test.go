package slurm

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// watched is the policy with its backfill cycles in the hands of a test.
type watched struct {
	*policy
	main   func(started int)    // after what the main scheduler did
	before func()               // a backfill cycle
	after  func(started []busy) // it
}

func (w *watched) Plan(plan *simulator.Plan) {
	interval, began := w.backfill, w.planned
	w.backfill = newClock(0, 0)
	waiting := len(w.queue)
	w.policy.Plan(plan)
	w.backfill = interval
	if now := w.v.Now(); now == began {
		return
	}
	if w.main != nil {
		w.main(waiting - len(w.queue))
	}
	if w.v.Waiting() == 0 {
		return
	}
	if w.due(w.backfill) {
		if w.before != nil {
			w.before()
		}
		running := map[simulator.ID]bool{}
		for _, b := range w.future.running {
			running[b.id] = true
		}
		w.fill()
		if w.after != nil {
			var started []busy
			for _, b := range w.future.running {
				if !running[b.id] {
					started = append(started, b)
				}
			}
			w.after(started)
		}
	}
	w.wake()
}

// site4 is a cluster of two kinds of nodes in two partitions that share one of them.
func site4() workload.Cluster {
	return workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 5, GPUsPerNode: 4, Partition: "a"},
		{Nodes: 3, GPUsPerNode: 8, Partition: "a,b"}},
		Site: workload.Site{
			Partitions: []workload.Partition{{Name: "a", PriorityTier: 1, JobFactor: 1, DefaultMinutes: 7},
				{Name: "b", PriorityTier: 2, JobFactor: 3}},
			QOS: []workload.QOS{{Name: "low", Priority: 3}, {Name: "high", Priority: 12, Preempt: []string{"low"}}}}}
}

// mixed draws jobs for site4: of partitions, QOS, users and accounts.
func mixed(r *rand.Rand, n int) []workload.Job {
	out := crowd(r, n)
	for i := range out {
		asks := out[i].Request()
		asks.Partition, asks.QOS = []string{"a", "b"}[r.IntN(2)], []string{"low", "high"}[r.IntN(2)]
		asks.Nice, asks.Requeue = int32(r.IntN(3)*50-50), workload.RequeueRestarts
		if asks.NodeCount > 3 {
			asks.NodeCount, out[i].GPUs = 3, workload.GPUs(12)
		}
		out[i].Requested = asks.Shared()
	}
	return out
}

// simulate runs jobs on site4.
func simulate(t *testing.T, jobs []workload.Job, p simulator.Policy) []simulator.Outcome {
	t.Helper()
	w, err := workload.New("t", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(site4(), w, p, simulator.Options{Epilog: time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sim.Outcomes(nil)
}

// drawn draws settings without preemption.
func drawn(r *rand.Rand) Settings {
	s := Defaults()
	s.BFInterval = time.Duration(1+r.IntN(60)) * time.Second
	s.BFResolution = time.Duration(1+r.IntN(90)) * time.Second
	s.BFWindow = time.Duration(10+r.IntN(60)) * time.Minute
	s.SchedInterval = time.Duration(10+r.IntN(60)) * time.Second
	s.PriorityCalcPeriod = time.Minute
	s.PriorityWeightAge, s.PriorityMaxAge = int64(r.IntN(2)*1000), time.Duration(1+r.IntN(20))*time.Minute
	s.PriorityWeightJobSize, s.PriorityFavorSmall = int64(r.IntN(2)*3000), r.IntN(2) == 0
	s.PriorityWeightQOS, s.PriorityWeightPartition = int64(r.IntN(2)*700), int64(r.IntN(2)*400)
	s.PriorityWeightGPU, s.PriorityWeightNode = int64(r.IntN(3)-1)*2000, int64(r.IntN(2)*100)
	return s
}

// TestPriorityOrder: at each backfill cycle jobs wait in order of tier, priority, submission and id, and the priority
// of each is the sum of its factors as of the last calculation.
func TestPriorityOrder(t *testing.T) {
	checked := 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 21))
		s := drawn(r)
		jobs := mixed(r, 60)
		w := &watched{policy: NewPolicy(s).(*policy)}
		w.before = func() {
			w.sort()
			for i, e := range w.queue {
				q := jobs[e.id].Request()
				tier, factor, nodes, gpus := int64(1), 1./3, 8., 44. // of a
				if q.Partition == "b" {
					tier, factor, nodes, gpus = 2, 1, 3, 24
				}
				age := max(0, min(1, (w.ticked-jobs[e.id].Submit).Seconds()/s.PriorityMaxAge.Seconds()))
				own := float64(q.NodeCount)
				size := (own/8 + own/8) / 2 // without CPUs a job has one on each of its nodes, and so has the cluster
				if s.PriorityFavorSmall {
					size = 1 - size
				}
				want := float64(s.PriorityWeightAge)*age + float64(s.PriorityWeightJobSize)*size +
					float64(s.PriorityWeightPartition)*factor +
					float64(s.PriorityWeightQOS)*map[string]float64{"low": .25, "high": 1}[q.QOS] +
					float64(s.PriorityWeightGPU)*float64(jobs[e.id].GPUs)/1000/gpus +
					float64(s.PriorityWeightNode)*own/nodes
				want = max(1, want-float64(q.Nice))
				if math.Abs(float64(e.priority)-want) > 1.001 || e.tier != tier {
					t.Fatalf("seed %d: job %d of %+v waits at tier %d with priority %d, want %d and %.1f", seed, e.id,
						q, e.tier, e.priority, tier, want)
				}
				if i == 0 {
					continue
				}
				o := w.queue[i-1]
				if cmp.Or(cmp.Compare(e.tier, o.tier), cmp.Compare(e.priority, o.priority),
					cmp.Compare(jobs[o.id].Submit, jobs[e.id].Submit), cmp.Compare(o.id, e.id)) >= 0 {
					t.Fatalf("seed %d: %+v waits before %+v", seed, o, e)
				}
				checked++
			}
		}
		simulate(t, jobs, w)
	}
	if checked < 2000 {
		t.Errorf("%d pairs of jobs waited", checked)
	}
}

// reservation is of whole nodes for a stretch of time.
type reservation struct {
	nodes    []int32
	from, to time.Duration
}

// TestReservations: in each cycle a job gets nodes that it fits on, that have the GPUs by then as the limits of running
// jobs say, and that no job before it has reserved.
func TestReservations(t *testing.T) {
	now, ahead := 0, 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 22))
		s := drawn(r)
		w := &watched{policy: NewPolicy(s).(*policy)}
		w.before = func() {
			w.sort()
			w.table.reset(w.v.Now(), s.BFWindow, s.BFResolution, w.all)
			window := (w.v.Now() + s.BFWindow).Truncate(s.BFResolution) // reservations behind it are not kept
			var list []reservation
			for _, e := range slices.Clone(w.considered(w.queue)) {
				x := &w.jobs[e.id]
				at, shape := w.earliest(e.id, x, true)
				if shape == nil {
					continue
				}
				nodes := slices.Clone(w.chosen)
				slices.Sort(nodes)
				if len(slices.Compact(nodes)) != int(shape.nodes) || at < w.v.Now() || at > w.v.Now()+s.BFWindow {
					t.Fatalf("seed %d: job %d gets %v at %v, and needs %d nodes", seed, e.id, w.chosen, at, shape.nodes)
				}
				for _, n := range nodes {
					free := w.future.free[n]
					for _, b := range w.future.running {
						for _, a := range b.at {
							if a.Node == int(n) && b.ends <= at {
								free += int32(a.GPUs)
							}
						}
					}
					if !shape.fits.has(int(n)) || free < shape.each {
						t.Fatalf("seed %d: job %d gets node %d at %v with %d GPUs, and needs %d", seed, e.id, n, at,
							free, shape.each)
					}
					for _, o := range list {
						if slices.Contains(o.nodes, n) && at < window && o.from < min(at+x.limit, window) && o.to > at {
							t.Fatalf("seed %d: job %d gets node %d from %v to %v, reserved: %+v", seed, e.id, n,
								at, at+x.limit, o)
						}
					}
				}
				if at == w.v.Now() {
					now++
				} else {
					ahead++
				}
				taken := make(nodeSet, len(w.all))
				for _, n := range nodes {
					taken.add(int(n))
				}
				w.table.reserve(taken, at, at+x.limit)
				from := at.Truncate(s.BFResolution)
				to := max((at + x.limit).Truncate(s.BFResolution), from+s.BFResolution)
				list = append(list, reservation{nodes, from, to})
			}
		}
		simulate(t, mixed(r, 60), w)
	}
	if now < 200 || ahead < 2000 {
		t.Errorf("%d jobs could start at once and %d later", now, ahead)
	}
}

// TestBackfillDelaysNoReservation: a job that a cycle starts on nodes that the first job of the queue needs is over, by
// its limit, before that one can start.
func TestBackfillDelaysNoReservation(t *testing.T) {
	blocked, filled := 0, 0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 23))
		s := drawn(r)
		w := &watched{policy: NewPolicy(s).(*policy)}
		var first reservation
		w.before = func() {
			first = reservation{}
			w.sort()
			w.table.reset(w.v.Now(), s.BFWindow, s.BFResolution, w.all)
			if tries := w.considered(w.queue); len(tries) > 0 {
				at, shape := w.earliest(tries[0].id, &w.jobs[tries[0].id], true)
				window := (w.v.Now() + s.BFWindow).Truncate(s.BFResolution) // reservations behind it are not kept
				if shape != nil && at > w.v.Now() && at < window {
					first = reservation{nodes: slices.Clone(w.chosen), from: at.Truncate(s.BFResolution)}
					blocked++
				}
			}
		}
		w.after = func(started []busy) {
			for _, b := range started {
				if first.nodes == nil {
					break
				}
				filled++
				for _, a := range b.at {
					end := w.v.Now() + w.jobs[b.id].limit
					if slices.Contains(first.nodes, int32(a.Node)) && end >= first.from {
						t.Fatalf("seed %d: at %v job %d starts on node %d until %v, which is reserved from %v on", seed,
							w.v.Now(), b.id, a.Node, end, first.from)
					}
				}
			}
		}
		simulate(t, mixed(r, 80), w)
	}
	if blocked < 200 || filled < 100 {
		t.Errorf("the first job waited in %d cycles, which started %d others", blocked, filled)
	}
}

// TestCyclesKeepTheirLimits: a backfill cycle considers no more jobs of a user, an account, a partition, a user in a
// partition and in all, and starts no more, than the settings say; a main cycle likewise.
func TestCyclesKeepTheirLimits(t *testing.T) {
	bound := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 24))
		s := drawn(r)
		some := func(most int) int { return r.IntN(2) * (1 + r.IntN(most)) }
		s.BFMaxJobTest, s.BFMaxJobStart = 3+r.IntN(20), some(3)
		s.BFMaxJobUser, s.BFMaxJobAssoc, s.BFMaxJobPart, s.BFMaxJobUserPart = some(3), some(2), some(6), some(2)
		s.SchedMaxJobStart, s.BFMinAgeReserve = some(2), time.Duration(some(2))*time.Minute
		jobs := mixed(r, 60)
		w := &watched{policy: NewPolicy(s).(*policy)}
		w.main = func(started int) {
			if s.SchedMaxJobStart > 0 && started > s.SchedMaxJobStart {
				t.Fatalf("seed %d: a main cycle starts %d jobs, at most %d", seed, started, s.SchedMaxJobStart)
			}
		}
		w.before = func() {
			w.sort()
			var want []simulator.ID
			tried := map[string]int{}
			for _, e := range w.queue {
				q, user := jobs[e.id].Request(), jobs[e.id].User
				beyond := false
				for _, c := range []struct {
					key  string
					most int
				}{{"partition " + q.Partition, s.BFMaxJobPart},
					{"both " + user + " " + q.Partition, s.BFMaxJobUserPart},
					{"user " + user, s.BFMaxJobUser}, {"association " + user + " " + q.Account, s.BFMaxJobAssoc}} {
					if !beyond && c.most > 0 { // the first that is passed is the last that counts
						tried[c.key]++
						beyond = tried[c.key] > c.most
					}
				}
				if !beyond && len(want) < s.BFMaxJobTest {
					want = append(want, e.id)
				}
				if len(want) == s.BFMaxJobTest {
					break
				}
			}
			var got []simulator.ID
			for _, e := range w.considered(w.queue) {
				got = append(got, e.id)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: a cycle considers %v, want %v of %+v", seed, got, want, w.queue)
			}
			if len(got) < len(w.queue) {
				bound++
			}
		}
		w.after = func(started []busy) {
			if s.BFMaxJobStart > 0 && len(started) > s.BFMaxJobStart {
				t.Fatalf("seed %d: a cycle starts %d jobs, at most %d", seed, len(started), s.BFMaxJobStart)
			}
		}
		simulate(t, jobs, w)
	}
	if bound < 300 {
		t.Errorf("%d cycles reached a limit", bound)
	}
}

// TestMainStopsAtTheFirst: without backfill and weights the jobs of a partition start in order of submission, past
// none that does not fit; with a queue depth of 1 too, as it looks at the first.
func TestMainStopsAtTheFirst(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 25))
		s := Defaults()
		s.BFInterval, s.DefaultQueueDepth = 0, []int{1, 100}[r.IntN(2)]
		jobs := mixed(r, 60)
		for i := range jobs {
			q := jobs[i].Request()
			q.Nice = 0
			jobs[i].Requested = q.Shared()
		}
		out := simulate(t, jobs, NewPolicy(s))
		last := map[string]time.Duration{}
		for i, o := range out {
			part := jobs[i].Request().Partition
			if o.Start < last[part] {
				t.Fatalf("seed %d: job %d of %s starts at %v, past one that starts at %v", seed, i, part, o.Start,
					last[part])
			}
			last[part] = o.Start
		}
	}
}

// TestYoungJobsBlockNone: below BFMinAgeReserve a job gets no reservation and the main scheduler goes past it, so that
// with an age that is never reached whatever fits starts in the next cycle.
func TestYoungJobsBlockNone(t *testing.T) {
	jobs := []workload.Job{}
	for i, gpus := range []int{24, 8, 24, 8} { // of partition b: 24 GPUs
		nodes := int32(gpus / 8)
		q := workload.Request{Partition: "b", NodeCount: nodes, TimeLimit: time.Hour}
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i) * time.Second,
			Duration: 10 * time.Minute, GPUs: workload.GPUs(gpus), Requested: q.Shared()})
	}
	jobs[0].GPUs, jobs[0].Requested = workload.GPUs(16), workload.Request{Partition: "b", NodeCount: 2,
		TimeLimit: 2 * time.Hour}.Shared()
	for age, want := range map[time.Duration]bool{0: false, 1000 * time.Hour: true} {
		s := Defaults()
		s.BFMinAgeReserve = age
		s.BFJobPartCountResv = 0
		out := simulate(t, jobs, NewPolicy(s))
		if passes := out[3].Start < out[2].Start; passes != want {
			t.Errorf("age %v: %v passes the job of 24 GPUs, which starts at %v", age, out[3].Start, out[2].Start)
		}
	}
}

// TestPreemption: only jobs of a QOS in the list of another are preempted, they restart no earlier than the delay, and
// a job of the preempting QOS waits for none that it may preempt.
func TestPreemption(t *testing.T) {
	preempted := 0
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 26))
		s := drawn(r)
		s.PreemptQOS, s.PreemptYoungestFirst = true, r.IntN(2) == 0
		jobs := mixed(r, 50)
		for i, o := range simulate(t, jobs, NewPolicy(s)) {
			if o.Preemptions == 0 {
				continue
			}
			preempted += o.Preemptions
			if qos := jobs[i].Request().QOS; qos != "low" {
				t.Errorf("seed %d: job %d of QOS %s is preempted", seed, i, qos)
			}
			least := o.Start + time.Duration(o.Preemptions)*s.RequeueDelay + jobs[i].Duration
			if o.End < least && !o.TimedOut && !o.Cancelled {
				t.Errorf("seed %d: job %d is preempted %d times and ends %v after its start", seed, i, o.Preemptions,
					o.End-o.Start)
			}
		}
	}
	if preempted < 50 {
		t.Errorf("%d jobs are preempted", preempted)
	}
}
