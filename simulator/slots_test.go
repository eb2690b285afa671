package simulator_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// asking gives jobs requests, by id.
func asking(t testing.TB, w *workload.Workload, requests map[string]workload.Request) *workload.Workload {
	t.Helper()
	out := append([]workload.Job(nil), w.Jobs()...)
	for i := range out {
		out[i].Requested = requests[out[i].ID].Shared()
	}
	w, err := workload.New("asking", time.Time{}, out)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestLimits: a job ends exactly at its limit if it would run longer, counted over its spells, and a requeue
// that loses its progress begins the count anew.
func TestLimits(t *testing.T) {
	w := jobs(t, job{0, 100 * second, 2}, job{0, 50 * second, 2}, job{10 * second, 100 * second, 2})
	limit := workload.Request{TimeLimit: 60 * second}
	restarts := workload.Request{TimeLimit: 60 * second, Requeue: workload.RequeueRestarts, HoldOff: 20 * second}
	free := simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}
	for _, tt := range []struct {
		name     string
		requests map[string]workload.Request
		at       steps
		end      []time.Duration
		killed   []bool
		restart  time.Duration // of job a
	}{
		{"a limit beyond the run time", map[string]workload.Request{"b": limit}, nil,
			[]time.Duration{100 * second, 50 * second, 150 * second}, []bool{false, false, false}, 0},
		{"a limit at the run time", map[string]workload.Request{"b": {TimeLimit: 50 * second}}, nil,
			[]time.Duration{100 * second, 50 * second, 150 * second}, []bool{false, true, false}, 0},
		{"limits below", map[string]workload.Request{"a": limit, "c": limit}, nil,
			[]time.Duration{60 * second, 50 * second, 110 * second}, []bool{true, false, true}, 0},
		{"waiting does not count", map[string]workload.Request{"a": limit},
			steps{20 * second: both(preempt(0), start(2)), 30 * second: nothing},
			[]time.Duration{90 * second, 50 * second, 120 * second}, []bool{true, false, false}, 0},
		{"progress is lost", map[string]workload.Request{"a": restarts},
			steps{30 * second: preempt(0), 40 * second: start(0)},
			[]time.Duration{110 * second, 50 * second, 150 * second}, []bool{true, false, false}, 30 * second},
		{"a policy that requeues", map[string]workload.Request{"a": limit},
			steps{30 * second: func(_ *simulator.View, p *simulator.Plan) { p.Requeue(0, 5*second) }},
			[]time.Duration{95 * second, 50 * second, 150 * second}, []bool{true, false, false}, 30 * second},
		{"a policy that requeues a job that resumes",
			map[string]workload.Request{"a": {Requeue: workload.RequeueResumes}},
			steps{20 * second: func(_ *simulator.View, p *simulator.Plan) { p.Requeue(0, 5*second) }},
			[]time.Duration{105 * second, 50 * second, 150 * second}, []bool{false, false, false}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i, o := range run(t, oneNode, asking(t, w, tt.requests), &script{at: tt.at}, free) {
				if o.End != tt.end[i] || o.TimedOut != tt.killed[i] {
					t.Errorf("job %d ends at %v, killed %v, want %v and %v", i, o.End, o.TimedOut,
						tt.end[i], tt.killed[i])
				}
				if i == 0 && o.Restart != tt.restart {
					t.Errorf("job a held GPUs for nothing for %v, want %v", o.Restart, tt.restart)
				}
			}
		})
	}
}

// TestCancel: a job that the policy ends counts as cancelled, not as timed out, and its free GPUs go to the next.
func TestCancel(t *testing.T) {
	w := jobs(t, job{0, 100 * second, 2}, job{0, 50 * second, 2}, job{10 * second, 100 * second, 2})
	at := steps{30 * second: func(_ *simulator.View, p *simulator.Plan) { p.Cancel(0) }}
	out := run(t, oneNode, w, &script{at: at}, simulator.Options{Peer: simulator.Peer{NoRestartCost: true}})
	if o := out[0]; o.End != 30*second || o.RunTime != 30*second || !o.Cancelled || o.TimedOut {
		t.Errorf("the job that is cancelled after 30 s: %+v", o)
	}
	if sum := simulator.Describe(out); sum.Cancelled != 1 || sum.TimedOut != 0 {
		t.Errorf("%d jobs are cancelled and %d timed out, want 1 and 0", sum.Cancelled, sum.TimedOut)
	}
}

// lenient is a script under which jobs may run beyond their limits.
type lenient struct {
	script
	over, limitAt time.Duration
}

func (p *lenient) Overtime() time.Duration { return p.over }

func (p *lenient) Plan(plan *simulator.Plan) {
	p.script.Plan(plan)
	if at, ok := p.s.JobLimitAt(0); ok {
		p.limitAt = at
	}
}

// TestOvertime: a job ends at its limit and the policy's overtime, which a requeue that loses its progress begins
// anew; the policy sees the limit itself.
func TestOvertime(t *testing.T) {
	w := jobs(t, job{0, 100 * second, 2}, job{0, 70 * second, 2})
	limit := workload.Request{TimeLimit: 60 * second, Requeue: workload.RequeueRestarts}
	requests := map[string]workload.Request{"a": limit, "b": limit}
	for _, tt := range []struct {
		over           time.Duration
		at             steps
		end, limitAt   time.Duration // of job a
		killed, killsB bool
	}{
		{0, nil, 60 * second, 60 * second, true, true},
		{20 * second, nil, 80 * second, 60 * second, true, false},
		{50 * second, nil, 100 * second, 60 * second, false, false},
		{20 * second, steps{30 * second: preempt(0), 40 * second: start(0)}, 120 * second, 100 * second, true, false},
	} {
		p := &lenient{script: script{at: tt.at}, over: tt.over}
		out := run(t, oneNode, asking(t, w, requests), p, simulator.Options{})
		if a, b := out[0], out[1]; a.End != tt.end || a.TimedOut != tt.killed || b.TimedOut != tt.killsB ||
			p.limitAt != tt.limitAt {
			t.Errorf("%v: job a ends at %v, killed %v, b %v, a's limit is at %v; want %+v", tt.over, a.End, a.TimedOut,
				b.TimedOut, p.limitAt, tt)
		}
	}

	// One that was observed ten seconds beyond its limit has ten left.
	observed := workload.Job{ID: "a", GPUs: workload.GPUs(2), Requested: limit.Shared()}
	state := &workload.State{At: 75 * second, Cluster: oneNode, Jobs: []workload.ActiveJob{{Job: observed,
		Running: true, Since: 5 * second, RunTime: 70 * second, Starts: 1}}}
	var sim simulator.Sim
	if err := sim.Resume(state, []time.Duration{time.Hour}, nil, &lenient{over: 20 * second},
		simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	limitAt, _ := sim.JobLimitAt(0)
	if err := sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := sim.Outcomes(nil)[0]; a.End != 85*second || !a.TimedOut || limitAt != 65*second {
		t.Errorf("after 70 s it ends at %v, killed %v, its limit is at %v", a.End, a.TimedOut, limitAt)
	}
}

func nothing(*simulator.View, *simulator.Plan) {}

// TestEpilog: GPUs stay taken for a time after a job's end, and Freed reports when they are free.
func TestEpilog(t *testing.T) {
	w := jobs(t, job{0, 10 * second, 4}, job{0, 10 * second, 4})
	p := &freed{}
	out := run(t, oneNode, w, p, simulator.Options{Epilog: 2 * second})
	if out[0].End != 10*second || out[1].Start != 12*second || out[1].End != 22*second {
		t.Errorf("ends at %v, starts at %v, ends at %v, want 10s, 12s, 22s", out[0].End, out[1].Start, out[1].End)
	}
	if want := []time.Duration{12 * second}; !cmp.Equal(p.free, want) {
		t.Errorf("GPUs are free at %v, want %v", p.free, want)
	}
}

type freed struct {
	script
	free []time.Duration
}

func (p *freed) Freed(simulator.ID) { p.free = append(p.free, p.s.Now()) }

// TestStartAt: a job starts on the nodes named, or not at all.
func TestStartAt(t *testing.T) {
	w := asking(t, jobs(t, job{0, 10 * second, 2}, job{0, 10 * second, 6}),
		map[string]workload.Request{"b": {NodeCount: 2}})
	var got []any
	p := &script{manual: true, at: steps{0: func(v *simulator.View, p *simulator.Plan) {
		got = append(got, p.StartAt(0, []workload.NodeGPUs{{Node: 1, GPUs: 2}}),
			v.FreeNodes(nil, 1, 3)[0], v.NodeHolds(1, 1), v.NodeGroup(3), v.NodeTotal(), v.NodeOpen(1), v.NodeFree(1),
			p.StartAt(1, []workload.NodeGPUs{{Node: 1, GPUs: 3}, {Node: 2, GPUs: 3}}),
			p.StartAt(1, []workload.NodeGPUs{{Node: 2, GPUs: 3}, {Node: 2, GPUs: 3}}),
			p.StartAt(1, []workload.NodeGPUs{{Node: 2, GPUs: 3}, {Node: 3, GPUs: 3}}),
			v.Placement(nil, 1))
	}}}
	run(t, workload.Uniform(4, 4), w, p, simulator.Options{})
	want := []any{true, uint64(0b1101), 4, 0, 4, true, 2, false, false, true,
		[]workload.NodeGPUs{{Node: 2, GPUs: 3}, {Node: 3, GPUs: 3}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestShapes: gangs with a node count have an equal share of that number of nodes, under any placement, and
// FreeNodes have room.
func TestShapes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := workload.Cluster{Groups: []workload.NodeGroup{
			{Nodes: rapid.IntRange(1, 70).Draw(r, "nodes"), GPUsPerNode: 4},
			{Nodes: rapid.IntRange(1, 70).Draw(r, "larger nodes"), GPUsPerNode: 8, CPUs: 16}}}
		var list []workload.Job
		for i := range rapid.IntRange(1, 30).Draw(r, "jobs") {
			nodes := rapid.IntRange(1, 6).Draw(r, "node count")
			list = append(list, workload.Job{ID: string(rune('A' + i)), Duration: time.Hour,
				GPUs: workload.GPUs(nodes * rapid.IntRange(1, 8).Draw(r, "GPUs each")),
				Requested: workload.Request{NodeCount: int32(nodes), TimeLimit: time.Minute,
					MilliCPUs: 1000 * rapid.Int64Range(0, 64).Draw(r, "CPUs")}.Shared()})
		}
		list = append(list, workload.Job{ID: "fits", Duration: time.Hour, GPUs: workload.GPUs(1)})
		fitting := list[:0]
		for i := range list {
			if c.Fits(&list[i]) {
				fitting = append(fitting, list[i])
			}
		}
		w, err := workload.New("shapes", time.Time{}, fitting)
		if err != nil {
			r.Fatal(err)
		}
		var sim simulator.Sim
		var opts simulator.Options
		opts.Placement = simulator.Placement(rapid.SampledFrom([]int{0, 1, 3}).Draw(r, "placement"))
		opts.Observer = func(e simulator.Event) {
			if e.Kind != workload.Started {
				return
			}
			spec, at := sim.Spec(e.Job), sim.Placement(nil, e.Job)
			nodes, each := spec.Shape(8)
			if n := int(spec.Request().NodeCount); n > 0 && (len(at) != n || nodes != n) {
				r.Fatalf("job %s runs on %v, want %d nodes", spec.ID, at, n)
			}
			for _, n := range at {
				if n.GPUs != each {
					r.Fatalf("job %s runs on %v, want %d GPUs on each", spec.ID, at, each)
				}
			}
		}
		p := &script{}
		if err := sim.Start(c, w, p, opts); err != nil {
			r.Fatal(err)
		}
		if err := sim.RunUntil(t.Context(), 0); err != nil {
			r.Fatal(err)
		}
		for id := range sim.Submitted() {
			if sim.JobRunning(id) {
				continue
			}
			nodes, each := sim.Spec(id).Shape(8)
			in := [2]int{} // nodes with room, by group
			for n, bits := 0, sim.FreeNodes(nil, id, each); n < c.Nodes(); n++ {
				if bits[n/64]&(1<<(n%64)) != 0 {
					in[c.GroupOf(n)]++
					if sim.NodeFree(n) < each {
						r.Fatalf("node %d has %d GPUs free, want %d", n, sim.NodeFree(n), each)
					}
				}
			}
			if max(in[0], in[1]) >= nodes {
				r.Fatalf("job %s waits though %v nodes have room for %d GPUs, want %d", sim.JobName(id),
					in, each, nodes)
			}
		}
		if err := sim.Run(t.Context()); err != nil {
			r.Fatal(err)
		}
		for _, o := range sim.Outcomes(nil) {
			if shaped := sim.Spec(o.ID).Request().NodeCount > 0; o.TimedOut != shaped || o.Spread {
				r.Fatalf("job %s: killed %v, spread %v", sim.JobName(o.ID), o.TimedOut, o.Spread)
			}
		}
	})
}
