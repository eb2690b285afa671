package volcano_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// job is one of a queue: GPUs on each of some pods, from a second on, for seconds.
func job(id, queue string, submit, run, pods, gpus int, priority int64) workload.Job {
	return workload.Job{ID: id, Tenant: queue, Submit: time.Duration(submit) * time.Second,
		Duration: time.Duration(run) * time.Second, GPUs: workload.GPUs(pods * gpus),
		Requested: workload.Request{NodeCount: int32(pods), Priority: priority,
			Requeue: workload.RequeueRestarts}.Shared()}
}

// simulate returns the instants in seconds at which jobs started first, and how often they were stopped.
func simulate(t testing.TB, c workload.Cluster, s volcano.Settings, jobs ...workload.Job) (map[string]float64,
	map[string]int, error) {
	t.Helper()
	w, err := workload.New("test", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(c, w, volcano.NewPolicy(s, volcano.Unknowns{}), simulator.Options{
		Peer: simulator.Peer{NoRestartCost: true}}); err != nil {
		t.Fatal(err)
	}
	err = sim.Run(t.Context())
	starts, stops := map[string]float64{}, map[string]int{}
	for _, o := range sim.Outcomes(nil) {
		starts[sim.JobName(o.ID)], stops[sim.JobName(o.ID)] = o.Start.Seconds(), o.Preemptions
	}
	return starts, stops, err
}

// queues is a cluster of nodes of 8 GPUs with queues of weights.
func queues(nodes int, weights ...float64) workload.Cluster {
	c := workload.Uniform(nodes, 8)
	for i, w := range weights {
		c.VCs = append(c.VCs, workload.VC{Tenant: string(rune('a' + i)), Weight: w})
	}
	return c
}

// TestWideGangs: three gangs of 24 GPUs wait on an empty cluster of 64 for each other, as each queue deserves 21.3, as
// long as jobs arrive; two do not.
func TestWideGangs(t *testing.T) {
	jobs := []workload.Job{job("x", "a", 0, 60, 3, 8, 0), job("y", "b", 0, 60, 3, 8, 0), job("z", "c", 0, 60, 3, 8, 0)}
	late := job("late", "a", 500, 10, 1, 1, 0)
	starts, _, err := simulate(t, queues(8, 1, 1, 1), volcano.Defaults(), append(jobs, late)...)
	if err != nil || starts["late"] > 502 || starts["x"] < 510 || starts["y"] < starts["x"]+60 || starts["z"] < 510 {
		t.Errorf("%v, started at %v", err, starts)
	}
	starts, _, err = simulate(t, queues(8, 1, 1, 1), volcano.Defaults(), jobs[:2]...)
	if err != nil || starts["y"] != 0 {
		t.Errorf("%v, started at %v", err, starts)
	}
}

// TestSchedulePeriod: a site's own period is the time between sessions; one that is not a time has no effect.
func TestSchedulePeriod(t *testing.T) {
	of, err := space.New(volcano.Space(), volcano.Rules())
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.New("test", time.Time{}, []workload.Job{job("a", "a", 1, 60, 1, 8, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]time.Duration{"": time.Second, "x": time.Second, "-5s": time.Second,
		"5s": 5 * time.Second} {
		c := queues(1, 1)
		c.Site.Settings = map[string]string{volcano.SchedulePeriod: text}
		var sim simulator.Sim
		if err := sim.Start(c, w, volcano.New(of.Default()), simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sim.Outcomes(nil)[0].Start; got != want {
			t.Errorf("%q: the job started at %v, want %v", text, got, want)
		}
	}
}

// TestReset: a policy runs again as a new one does.
func TestReset(t *testing.T) {
	w, err := workload.New("test", time.Time{}, []workload.Job{job("a", "a", 0, 60, 1, 8, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	var ends []time.Duration
	for p := volcano.NewPolicy(volcano.Defaults(), volcano.Unknowns{}); len(ends) < 3; ends = append(ends, sim.Now()) {
		if err := sim.Start(queues(1, 1), w, p, simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if ends[1] != ends[0] || ends[2] != ends[0] {
		t.Errorf("runs of one policy end at %v", ends)
	}
}

// TestGate: a job that is let in and finds no place keeps others out, though GPUs are free for them.
func TestGate(t *testing.T) {
	jobs := []workload.Job{job("f0", "a", 0, 100, 1, 4, 0), job("f1", "a", 0, 100, 1, 4, 0),
		job("wide", "a", 2, 10, 1, 8, 0), job("next", "b", 5, 10, 1, 4, 0)}
	s := volcano.Defaults()
	for factor, want := range map[float64]string{1.2: "[0 0 100 100]", 2: "[0 0 100 5]", 0: "[0 0 100 5]"} {
		s.OvercommitFactor = factor
		starts, _, err := simulate(t, queues(2, 1, 1), s, jobs...)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, j := range jobs {
			got = append(got, int(starts[j.ID]))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("factor %g: started at %v, want %s", factor, got, want)
		}
	}
	s.OvercommitFactor, s.SLAWaitingTime = 1.2, 50*time.Second
	if starts, _, err := simulate(t, queues(2, 1, 1), s, jobs...); err != nil || int(starts["next"]) != 55 {
		t.Errorf("let in after 50 s, the next job starts at %v, %v", starts, err)
	}
}

// TestStops: preempt stops the lower priority in a queue, reclaim jobs of a queue beyond its share, as long as it is.
func TestStops(t *testing.T) {
	s := volcano.Defaults()
	s.OvercommitFactor = 0
	s.Actions = []volcano.Action{volcano.Allocate, volcano.Preempt}
	low := []workload.Job{job("l0", "a", 0, 1000, 1, 8, 0), job("l1", "a", 1, 1000, 1, 8, 5)}
	starts, stops, err := simulate(t, queues(2, 1), s, append(low, job("high", "a", 10, 10, 1, 8, 9))...)
	if err != nil || starts["high"] != 11 || stops["l0"] != 1 || stops["l1"] != 0 {
		t.Errorf("preempt: started at %v, stopped %v, %v", starts, stops, err)
	}
	s.Actions = []volcano.Action{volcano.Enqueue, volcano.Allocate, volcano.Preempt}
	if _, stops, err = simulate(t, queues(2, 1), s, append(low, job("high", "a", 10, 10, 1, 8, 9))...); err != nil ||
		stops["l0"] > 0 {
		t.Errorf("preempt for a job that is not let in: stopped %v, %v", stops, err)
	}
	s.Actions[2] = volcano.Reclaim
	jobs := append(low, job("b0", "b", 10, 10, 1, 8, 0), job("b1", "b", 10, 10, 1, 8, 0))
	starts, stops, err = simulate(t, queues(2, 1, 1), s, jobs...)
	if err != nil || starts["b0"] != 11 || starts["b1"] != 21 || stops["l0"] != 1 || stops["l1"] != 0 {
		t.Errorf("reclaim: started at %v, stopped %v, %v", starts, stops, err)
	}
	c := queues(2, 1, 1)
	c.Site.Settings = map[string]string{"a.reclaimable": "false"}
	if _, stops, err = simulate(t, c, s, jobs...); err != nil || stops["l0"]+stops["l1"] > 0 {
		t.Errorf("of a queue that is not reclaimable, stopped %v, %v", stops, err)
	}
}

// TestReclaimNodes: reclaim takes only nodes with jobs of other queues, so that a gang that a free node and one stop
// would do for stops none; scores have no say in it.
func TestReclaimNodes(t *testing.T) {
	s := volcano.Defaults()
	s.Actions = []volcano.Action{volcano.Allocate, volcano.Reclaim}
	c := queues(3, 1, 3)
	x, y := job("x", "a", 0, 100, 1, 8, 0), job("y", "a", 0, 100, 1, 8, 0)
	starts, stops, err := simulate(t, c, s, x, y, job("gang", "b", 10, 5, 2, 8, 0))
	if err != nil || stops["x"]+stops["y"] != 0 || starts["gang"] < 100 {
		t.Errorf("%v: %v, %v", starts, stops, err)
	}
	starts, stops, err = simulate(t, c, s, x, y, job("z", "a", 0, 100, 1, 8, 0), job("gang", "b", 10, 5, 2, 8, 0))
	if err != nil || stops["x"]+stops["y"]+stops["z"] != 2 || starts["gang"] > 15 {
		t.Errorf("%v: %v, %v", starts, stops, err)
	}
}

// TestPipelined: jobs that get room count for their queue, which reclaims no more than it deserves, and have room once.
func TestPipelined(t *testing.T) {
	s := volcano.Defaults()
	s.Actions = []volcano.Action{volcano.Allocate, volcano.Reclaim}
	jobs := []workload.Job{job("a0", "a", 0, 100, 1, 8, 0), job("a1", "a", 0, 100, 1, 8, 0),
		job("a2", "a", 0, 100, 1, 8, 0), job("b0", "b", 10, 100, 1, 8, 0), job("b1", "b", 10, 100, 1, 8, 0)}
	_, stops, err := simulate(t, queues(3, 1, 1), s, jobs...)
	if err != nil || stops["a0"]+stops["a1"]+stops["a2"] != 1 {
		t.Errorf("for the first of two jobs of 8 in a queue that deserves 12, stopped %v, %v", stops, err)
	}
	s.Actions = []volcano.Action{volcano.Allocate, volcano.Preempt, volcano.Reclaim}
	jobs = []workload.Job{job("a0", "a", 0, 100, 1, 8, 0), job("a1", "a", 0, 100, 1, 8, 0),
		job("b0", "b", 0, 100, 1, 8, 0), job("b1", "b", 10, 100, 1, 8, 1)}
	_, stops, err = simulate(t, queues(3, 1, 1), s, jobs...)
	if err != nil || stops["b0"] != 1 || stops["a0"]+stops["a1"] > 0 {
		t.Errorf("preempt and reclaim for one job: stopped %v, %v", stops, err)
	}
}

// TestBounds: with any settings no node has more than its GPUs in use, a queue starts no job beyond its capability, and
// none is stopped without an action that stops.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := queues(rapid.IntRange(2, 4).Draw(t, "nodes"), 1, 3)
		most := rapid.IntRange(8, 32).Draw(t, "capability")
		c.Site.Limits = []workload.Limit{{Scope: workload.Scope{Account: "a"}, Resource: workload.LimitedGPUs,
			Own: int64(most)}}
		s := volcano.Defaults()
		pick := func(list ...volcano.Action) {
			for _, a := range list {
				if rapid.Bool().Draw(t, string(a)) {
					s.Actions = append(s.Actions, a)
				}
			}
		}
		s.Actions = nil
		pick(volcano.Enqueue)
		s.Actions = append(s.Actions, volcano.Allocate)
		pick(volcano.Preempt, volcano.Reclaim)
		s.OvercommitFactor = rapid.SampledFrom([]float64{0, 1, 1.2, 3}).Draw(t, "overcommit")
		s.BinpackGPU, s.MostRequested = rapid.IntRange(0, 2).Draw(t, "binpack"), rapid.IntRange(0, 2).Draw(t, "most")
		var jobs []workload.Job
		for i := range rapid.IntRange(1, 30).Draw(t, "jobs") {
			jobs = append(jobs, job(fmt.Sprint(i), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"),
				rapid.IntRange(0, 100).Draw(t, "submit"), rapid.IntRange(1, 60).Draw(t, "run"),
				rapid.IntRange(1, 2).Draw(t, "pods"), rapid.IntRange(1, 4).Draw(t, "GPUs"),
				int64(rapid.IntRange(0, 2).Draw(t, "priority"))))
		}
		w, err := workload.New("bounds", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		var sim simulator.Sim
		used, held, at := make([]int, c.Nodes()), 0, map[simulator.ID][]workload.NodeGPUs{}
		o := simulator.Options{EventBudget: 5000, Observer: func(e simulator.Event) {
			sign := 0
			switch e.Kind {
			case workload.Started, workload.Resumed:
				at[e.Job], sign = sim.Placement(nil, e.Job), 1
			case workload.Preempted, workload.Finished:
				sign = -1
				if e.Kind == workload.Preempted && !slices.Contains(s.Actions, volcano.Preempt) &&
					!slices.Contains(s.Actions, volcano.Reclaim) {
					t.Fatalf("%s is stopped", sim.JobName(e.Job))
				}
			}
			for _, n := range at[e.Job] {
				if used[n.Node] += sign * n.GPUs; used[n.Node] > 8 {
					t.Fatalf("node %d has %d GPUs in use", n.Node, used[n.Node])
				}
				if sim.JobTenantName(e.Job) == "a" {
					held += sign * n.GPUs
				}
			}
			if held > most {
				t.Fatalf("the queue holds %d GPUs of %d", held, most)
			}
		}}
		if err := sim.Start(c, w, volcano.NewPolicy(s, volcano.Unknowns{Seed: 1}), o); err != nil {
			t.Fatal(err)
		}
		// Queues may stop each other's jobs without end.
		if err := sim.Run(t.Context()); err != nil && !errors.Is(err, simulator.ErrBudget) {
			t.Fatal(err)
		}
	})
}

// BenchmarkVolcano is 100,000 jobs of 12 queues on 100 nodes.
func BenchmarkVolcano(b *testing.B) {
	c := queues(100, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4)
	r := rand.New(rand.NewPCG(1, 1))
	var jobs []workload.Job
	at := 0.
	for i := range 100_000 {
		at += r.ExpFloat64() * 20
		jobs = append(jobs, job(fmt.Sprint(i), string(rune('a'+r.IntN(12))), int(at), 60+int(r.ExpFloat64()*4000), 1,
			[]int{1, 1, 1, 2, 4, 8}[r.IntN(6)], 0))
	}
	for b.Loop() {
		if _, _, err := simulate(b, c, volcano.Defaults(), jobs...); err != nil {
			b.Fatal(err)
		}
	}
}
