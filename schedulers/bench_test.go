package schedulers_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// Benchmarks reuse one simulation and one policy, as a tuning round does, so
// allocations are as of the second run.

// contender is a scheduler with a configuration to measure.
type contender struct {
	name   string
	s      *schedulers.Scheduler
	config space.Config
}

// contenders are all schedulers with their defaults and, where there is one,
// with the preset recommended.
func contenders() []contender {
	var out []contender
	for _, s := range schedulers.All {
		out = append(out, contender{s.Name, s, s.Space.Default()})
		if len(s.Presets) > 0 {
			out = append(out, contender{s.Name + "-preset", s, s.Presets[0].Config})
		}
	}
	return out
}

// benchRun simulates a workload from an empty cluster again and again and returns
// the CPU time per job in ns.
func benchRun(b *testing.B, x contender, c workload.Cluster, w *workload.Workload) float64 {
	b.Helper()
	var sim simulator.Sim
	policy := x.s.New(x.config)
	ns := bench(b, func() {
		if err := sim.Start(c, w, policy, simulator.Options{}); err != nil {
			b.Fatal(err)
		}
		if err := sim.Run(context.Background()); err != nil {
			b.Fatal(err)
		}
	}) / float64(w.Len())
	b.ReportMetric(float64(w.Len()), "jobs")
	b.ReportMetric(float64(sim.Events())/float64(w.Len()), "events/job")
	b.ReportMetric(ns, "cpu-ns/job")
	return ns
}

// bench does something again and again, after a first time that gets the memory,
// and returns the CPU time in ns.
func bench(b *testing.B, do func()) float64 {
	b.Helper()
	do()
	b.ReportAllocs()
	before, n := cputime.Process(), 0
	for b.Loop() {
		do()
		n++
	}
	ns := float64(cputime.Process()-before) / float64(n)
	b.ReportMetric(ns/1e6, "cpu-ms/op")
	return ns
}

// BenchmarkPhilly is two weeks of the Philly trace, on the paper's cluster and on
// one that is contended.
func BenchmarkPhilly(b *testing.B) {
	w, _, err := trace.Open(b.Context(), testshared.Path(b, "golden", "simulator", "workloads", "philly2w.csv.gz"),
		trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{100, 70} {
		for _, x := range contenders() {
			b.Run(fmt.Sprintf("%d-nodes/%s", nodes, x.name), func(b *testing.B) {
				benchRun(b, x, workload.Uniform(nodes, 8), w)
			})
		}
	}
}

// overloaded draws jobs and a cluster on which they are a load of 1.1.
func overloaded(b *testing.B, jobs int) (*workload.Workload, workload.Cluster) {
	b.Helper()
	days := max(1, jobs/1000)
	w, err := synth.Generate(b.Context(), synth.Options{Days: days, Jobs: jobs, Seed: 1, Cluster: workload.Uniform(20,
		8)})
	if err != nil {
		b.Fatal(err)
	}
	work := 0.0
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		work += j.Duration.Hours() * float64(j.GPUs.Whole())
	}
	nodes := math.Round(work / (1.1 * 24 * float64(days)) / 8)
	return w, workload.Uniform(max(20, int(nodes)), 8)
}

var benchSizes = []struct {
	name string
	jobs int
}{{"1k", 1000}, {"10k", 10_000}}

// BenchmarkSynthetic is overloaded clusters; BenchmarkGrowth has larger ones.
func BenchmarkSynthetic(b *testing.B) {
	for _, size := range benchSizes {
		w, c := overloaded(b, size.jobs)
		for _, x := range contenders() {
			b.Run(size.name+"/"+x.name, func(b *testing.B) { benchRun(b, x, c, w) })
		}
	}
}

// scene is an observation of a live cluster under Tiresias, how long its jobs
// still run, and the workload of which it has seen the begin.
type scene struct {
	state *workload.State
	left  []time.Duration
	w     *workload.Workload
}

// observe runs a live cluster until the given number of jobs is active.
func observe(b *testing.B, w *workload.Workload, c workload.Cluster, active int) scene {
	b.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		b.Fatal(err)
	}
	live := new(simulator.Sim)
	ledger := workload.NewLedger(c)
	sent := 0
	o := simulator.Options{Observer: func(e simulator.Event) {
		sent++
		out := workload.Event{ID: fmt.Sprintf("%08d", sent), Kind: e.Kind, Time: e.Time,
			LevelAttained: e.Seen.LevelAttained, HasLevel: e.Seen.HasLevel}
		out.Job = *live.Spec(e.Job)
		if e.Kind == workload.Started || e.Kind == workload.Resumed {
			out.Placement = workload.Shares(live.Placement(nil, e.Job))
		}
		if err := out.Validate(); err != nil {
			b.Fatal(err)
		}
		ledger.Apply(out)
	}}
	if err := live.Start(c, w, s.New(s.Presets[0].Config), o); err != nil {
		b.Fatal(err)
	}
	for live.Active() < active {
		if live.Done() {
			b.Fatalf("there were never %d jobs active", active)
		}
		if err := live.RunUntil(context.Background(), live.Now()+time.Minute); err != nil {
			b.Fatal(err)
		}
	}
	state := ledger.State(live.Now())
	out := scene{state: &state, w: w}
	for id := range live.Submitted() {
		if live.JobActive(id) {
			out.left = append(out.left, live.JobLeft(id))
		}
	}
	return out
}

func (x *scene) arrivals(hours int) *workload.Workload {
	return x.w.Window(x.state.At+1, x.state.At+time.Duration(hours)*time.Hour)
}

// running is how many of the jobs run.
func (x *scene) running() float64 {
	n := 0.0
	for i := range x.state.Jobs {
		if x.state.Jobs[i].Running {
			n++
		}
	}
	return n
}

// busy is a thousand active jobs on an overloaded cluster, most of them waiting.
func busy(b *testing.B) scene {
	b.Helper()
	w, c := overloaded(b, 30_000)
	c = workload.Uniform(c.Nodes()*3/4, c.GPUsPerNode())
	return observe(b, w, c, 1000)
}

// wide is five thousand active jobs on ten thousand nodes.
func wide(b *testing.B) scene {
	b.Helper()
	c := workload.Uniform(10_000, 8)
	w, err := synth.Generate(b.Context(), synth.Options{Days: 2, Jobs: 120_000, Seed: 1, Cluster: c})
	if err != nil {
		b.Fatal(err)
	}
	return observe(b, w, c, 5000)
}

// philly is the Philly trace at the instant with the given number of active jobs.
func philly(b *testing.B, nodes, active int) scene {
	b.Helper()
	w, _, err := trace.Open(b.Context(), testshared.Path(b, "golden", "simulator", "workloads", "philly2w.csv.gz"),
		trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return observe(b, w, workload.Uniform(nodes, 8), active)
}

// BenchmarkResume is one evaluation of a tuning round: hours of arrivals from a
// busy state, until the last job has ended.
func BenchmarkResume(b *testing.B) {
	for _, at := range []struct {
		name string
		make func(*testing.B) scene
	}{
		{"synthetic", busy},
		{"philly-750", func(b *testing.B) scene { return philly(b, 40, 740) }},
		{"philly-1000", func(b *testing.B) scene { return philly(b, 24, 1000) }},
	} {
		b.Run(at.name, func(b *testing.B) {
			x := at.make(b)
			for _, hours := range []int{1, 4} {
				arrivals := x.arrivals(hours)
				for _, y := range contenders() {
					b.Run(fmt.Sprintf("%dh/%s", hours, y.name), func(b *testing.B) {
						var sim simulator.Sim
						policy := y.s.New(y.config)
						bench(b, func() {
							if err := sim.Resume(x.state, x.left, arrivals, policy, simulator.Options{}); err != nil {
								b.Fatal(err)
							}
							if err := sim.Run(context.Background()); err != nil {
								b.Fatal(err)
							}
						})
						b.ReportMetric(x.running(), "running")
						b.ReportMetric(float64(len(x.left))-x.running(), "waiting")
						b.ReportMetric(float64(arrivals.Len()), "arrivals")
						b.ReportMetric(float64(sim.Events()), "events")
					})
				}
			}
		})
	}
}

// BenchmarkFork copies a simulation that was resumed from a busy state and gives
// it another configuration.
func BenchmarkFork(b *testing.B) {
	for _, at := range []struct {
		name string
		make func(*testing.B) scene
	}{{"1000-active", busy}, {"5000-active-on-10000-nodes", wide}} {
		b.Run(at.name, func(b *testing.B) {
			x := at.make(b)
			for _, y := range contenders() {
				b.Run(y.name, func(b *testing.B) {
					var source, fork simulator.Sim
					if err := source.Resume(x.state, x.left, x.arrivals(1), y.s.New(y.s.Space.Default()),
						simulator.Options{}); err != nil {
						b.Fatal(err)
					}
					policy := y.s.New(y.config)
					bench(b, func() { source.Fork(&fork, policy) })
					b.ReportMetric(float64(source.Active()), "active")
				})
			}
		})
	}
}
