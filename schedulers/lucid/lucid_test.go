package lucid

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// alone are settings without profiler.
func alone(set ...string) []string { return append(set, "profiler_nodes=0") }

func run(t *testing.T, nodes int, set []string, jobs ...workload.Job) []simulator.Outcome {
	t.Helper()
	s, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Parse(s.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	return play(t, nodes, New(config), simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}, jobs)
}

// play runs jobs on nodes of two GPUs.
func play(t *testing.T, nodes int, p simulator.Policy, o simulator.Options, jobs []workload.Job) []simulator.Outcome {
	t.Helper()
	w, err := workload.New("small", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(workload.Uniform(nodes, 2), w, p, o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return sim.Outcomes(nil)
}

func ask(id, model string, submit, seconds float64, gpus int) workload.Job {
	j := tryout.Job(id, submit, seconds, gpus)
	j.Model, j.Key = model, id[:1]
	return j
}

func begins(t *testing.T, out []simulator.Outcome, want ...float64) {
	t.Helper()
	for i, at := range want {
		tryout.Near(t, "begin", out[i].Start, at)
	}
}

func ends(t *testing.T, out []simulator.Outcome, want ...float64) {
	t.Helper()
	for i, at := range want {
		tryout.Near(t, "end", out[i].End, at)
	}
}

// Small language models run at .622 of their speed in pairs, score 1 each.
func TestSharing(t *testing.T) {
	jobs := []workload.Job{ask("a", "LM/5", 0, 1000, 2), ask("b", "LM/5", 10, 500, 2)}
	together := 10 + 500/.622 // b's end, when a has done 510 of 1000
	for _, tt := range []struct {
		set  []string
		ends []float64
	}{
		{nil, []float64{together + 490, together}},
		{[]string{"share_limit=-1"}, []float64{1000, 1500}},
		{[]string{"share_limit=1"}, []float64{1000, 1500}},
		{[]string{"share_load=2"}, []float64{1000, 1500}}, // two were submitted, not more
		{[]string{"share_load=1"}, []float64{together + 490, together}},
		// Nothing is known of how long either runs, so both count as an hour.
		{[]string{"share_factor=0.9"}, []float64{1000, 1500}},
	} {
		ends(t, run(t, 1, alone(tt.set...), jobs...), tt.ends...)
	}
	// Two large batches do not fit a GPU together.
	ends(t, run(t, 1, alone("share_limit=4"), ask("a", "ResNet-50/128", 0, 100, 2),
		ask("b", "ResNet-50/128", 0, 100, 2)), 100, 200)
	// With a place free, sharing is a matter of taste.
	ends(t, run(t, 2, alone(), jobs...), 1000, 510)
	ends(t, run(t, 2, alone("share_when=always"), jobs...), together+490, together)
	// Another width does not share (b goes first: it is half the GPU-time), and a
	// pair takes no third.
	ends(t, run(t, 1, alone(), ask("a", "LM/5", 0, 100, 2), ask("b", "LM/5", 0, 100, 1)), 200, 100)
	begins(t, run(t, 1, alone(), ask("a", "LM/5", 0, 100, 2), ask("b", "LM/5", 0, 100, 2), ask("c", "LM/5", 0, 100, 2)),
		0, 0, 100/.622)
}

// A job that waits beside a partner whose node has no room, or drains, joins it once the node does.
func TestRefusalsLapse(t *testing.T) {
	s, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Parse(s.Default(), alone())
	if err != nil {
		t.Fatal(err)
	}
	needs := func(j workload.Job, gib int64) workload.Job {
		r := j.Request()
		r.Memory = gib << 30
		j.Requested = r.Shared()
		return j
	}
	left := 1 + 200/.622 // d ends, which leaves b its GPUs and the node memory
	for _, c := range []struct {
		gpus  int
		jobs  []workload.Job
		nodes []workload.NodeEvent
		last  float64 // begin of the last job
	}{
		{3, []workload.Job{needs(ask("a", "LM/5", 0, 2000, 1), 1), needs(ask("b", "LM/5", 0, 2000, 2), 4),
			needs(ask("d", "LM/5", 1, 200, 2), 4), needs(ask("c", "LM/5", 10, 300, 1), 4)}, nil, left},
		{2, []workload.Job{ask("a", "LM/5", 0, 1000, 2), ask("b", "LM/5", 10, 500, 2)},
			[]workload.NodeEvent{{At: tryout.Seconds(5), Kind: workload.NodeDrained},
				{At: tryout.Seconds(100), Kind: workload.NodeUp}}, 100},
	} {
		cluster := workload.Uniform(1, c.gpus)
		cluster.Groups[0].Memory = 10 << 30
		w, err := workload.New("small", time.Unix(0, 0), c.jobs)
		if err != nil {
			t.Fatal(err)
		}
		var sim simulator.Sim
		o := simulator.Options{Peer: simulator.Peer{NoRestartCost: true}, Nodes: c.nodes}
		if err := sim.Start(cluster, w, New(config), o); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		tryout.Near(t, "begin", sim.Outcomes(nil)[len(c.jobs)-1].Start, c.last)
	}
}

// Keys x and y are learnt from the first two; later ones of x overtake.
func TestLearning(t *testing.T) {
	jobs := []workload.Job{ask("x1", "", 0, 10, 2), ask("y1", "", 0, 1000, 2), ask("z1", "", 0, 500, 2),
		ask("y2", "", 1020, 1000, 2), ask("x2", "", 1021, 10, 2)}
	begins(t, run(t, 1, alone("share_limit=-1"), jobs...), 0, 10, 1010, 1520, 1510)
	// A job three times as wide counts three times.
	wide := []workload.Job{ask("x1", "", 0, 100, 1), ask("y1", "", 0, 60, 2), ask("z1", "", 0, 10, 2),
		ask("y2", "", 165, 60, 2), ask("x2", "", 165, 100, 1)}
	begins(t, run(t, 1, alone("share_limit=-1"), wide...), 0, 100, 160, 270, 170)
	begins(t, run(t, 1, alone("share_limit=-1", "priority=time"), wide...), 0, 100, 160, 170, 230)
}

// Of two nodes, the second profiles for 200 s.
func TestProfiler(t *testing.T) {
	set := []string{"profiler_nodes=1", "profiler_time=200", "profiler_factor=1", "share_limit=-1"}
	out := run(t, 2, set, ask("a", "", 0, 1000, 1), ask("b", "", 0, 100, 1), ask("c", "", 0, 300, 1),
		ask("d", "", 0, 50, 2))
	// a and b fill the profiler, c comes when b has ended there, d is too wide for
	// it. a goes on beside d's end, c after its 200 s.
	begins(t, out, 0, 0, 100, 0)
	ends(t, out, 1000, 100, 400, 50)
	for i, preemptions := range []int{1, 0, 1, 0} {
		if out[i].Preemptions != preemptions {
			t.Errorf("job %d: %d preemptions, want %d", i, out[i].Preemptions, preemptions)
		}
	}
	// A job as wide as the cluster gets the profiler's node too, and the job that was
	// queued for it goes to the main queue.
	out = run(t, 2, set, ask("a", "", 0, 1000, 2), ask("b", "", 10, 100, 4), ask("c", "", 20, 100, 1),
		ask("d", "", 2000, 50, 1))
	begins(t, out, 0, 1000, 20, 2000)
	ends(t, out, 1000, 1100, 120, 2050)
}

// A fork learns from its past the same as the original, at the same instants.
func TestForkLearns(t *testing.T) {
	var jobs []workload.Job
	for i := range 60 {
		name := string(rune('a'+i%7)) + string(rune('0'+i))
		jobs = append(jobs, ask(name, "", float64(40*i), float64(20+(i%7)*90), 1+i%2))
	}
	s, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.New("small", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range [][]string{alone("share_load=50"),
		{"profiler_nodes=1", "profiler_factor=1", "profiler_time=60"}} {
		config, err := s.Parse(s.Default(), set)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []float64{60, 500, 999, 1800, 2600} {
			var sim, fork simulator.Sim
			if err := sim.Start(workload.Uniform(3, 2), w, New(config), simulator.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := sim.RunUntil(context.Background(), tryout.Seconds(at)); err != nil {
				t.Fatal(err)
			}
			sim.Fork(&fork, New(config))
			for _, x := range []*simulator.Sim{&sim, &fork} {
				if err := x.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			a, b := sim.Outcomes(nil), fork.Outcomes(nil)
			for i := range a {
				if a[i] != b[i] {
					t.Fatalf("%v, forked at %v s: job %d became\n%+v, in the original\n%+v", set, at, i, b[i], a[i])
				}
			}
		}
	}
}

// Jobs that wait when the profiler is switched on go to the main queue. It takes the node
// that empties first, and profiles jobs that are submitted from then on.
func TestProfilerSwitchedOn(t *testing.T) {
	s, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	config := func(set ...string) space.Config {
		c, err := s.Parse(s.Default(), set)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w, err := workload.New("small", time.Unix(0, 0), []workload.Job{ask("a", "", 0, 1000, 2), ask("b", "", 0, 300, 2),
		ask("c", "", 10, 400, 2), ask("d", "", 20, 100, 1), ask("e", "", 200, 100, 1), ask("f", "", 400, 300, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	o := simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}
	if err := sim.Start(workload.Uniform(2, 2), w, New(config("share_limit=-1", "profiler_nodes=0")), o); err != nil {
		t.Fatal(err)
	}
	if err := sim.RunUntil(context.Background(), 100*time.Second); err != nil {
		t.Fatal(err)
	}
	sim.Reconfigure(New(config("share_limit=-1", "profiler_nodes=1", "profiler_time=200", "profiler_factor=2")))
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	// b's node is the profiler's from 300 s on. c, d and e wait for a's node, f is profiled.
	out := sim.Outcomes(nil)
	begins(t, out, 0, 0, 1200, 1000, 1000, 400)
	ends(t, out, 1000, 300, 1600, 1100, 1100, 1200)
}
