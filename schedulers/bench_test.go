package schedulers_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Benchmarks reuse one simulation and one policy, as a tuning round does, so
// allocations are those of a run after the first.

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

// benchRun plays a workload from an empty cluster again and again.
func benchRun(b *testing.B, x contender, c workload.Cluster, w *workload.Workload) {
	b.Helper()
	var sim simulator.Sim
	policy := x.s.New(x.config)
	play := func() {
		if err := sim.Start(c, w, policy, simulator.Options{}); err != nil {
			b.Fatal(err)
		}
		if err := sim.Run(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	play()
	b.ReportAllocs()
	for b.Loop() {
		play()
	}
	b.ReportMetric(float64(w.Len()), "jobs")
	b.ReportMetric(float64(sim.Events())/float64(w.Len()), "events/job")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(w.Len()), "ns/job")
}

// BenchmarkPhilly is two weeks of the Philly trace, on the paper's cluster and on
// one that is contended.
func BenchmarkPhilly(b *testing.B) {
	w, _, err := workload.Open(testshared.Path(b, "golden", "simulator", "workloads", "philly2w.csv.gz"), workload.ReadOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{100, 70} {
		for _, x := range contenders() {
			b.Run(fmt.Sprintf("%d-nodes/%s", nodes, x.name), func(b *testing.B) {
				benchRun(b, x, workload.Cluster{Nodes: nodes, GPUsPerNode: 8}, w)
			})
		}
	}
}

// overloaded draws so many jobs and a cluster on which they are a load of 1.1.
func overloaded(b *testing.B, jobs int) (*workload.Workload, workload.Cluster) {
	b.Helper()
	days := max(1, jobs/1000)
	w, err := workload.Synthesize(workload.SynthOptions{Days: days, Jobs: jobs, Seed: 1, Cluster: workload.Cluster{Nodes: 20, GPUsPerNode: 8}})
	if err != nil {
		b.Fatal(err)
	}
	work := 0.0
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		work += j.Duration.Hours() * float64(j.GPUs.Whole())
	}
	nodes := math.Round(work / (1.1 * 24 * float64(days)) / 8)
	return w, workload.Cluster{Nodes: max(20, int(nodes)), GPUsPerNode: 8}
}

var benchSizes = []struct {
	name string
	jobs int
}{{"1k", 1000}, {"10k", 10_000}, {"100k", 100_000}}

func BenchmarkSynthetic(b *testing.B) {
	for _, size := range benchSizes {
		w, c := overloaded(b, size.jobs)
		for _, x := range contenders() {
			b.Run(size.name+"/"+x.name, func(b *testing.B) { benchRun(b, x, c, w) })
		}
	}
}

// busy is a live cluster under Tiresias with about a thousand active jobs, what
// is observed of it, and the arrivals of the next hour.
func busy(b *testing.B) (*simulator.Sim, *workload.State, []time.Duration, *workload.Workload) {
	b.Helper()
	w, c := overloaded(b, 30_000)
	c.Nodes = c.Nodes * 3 / 4
	s, err := schedulers.Find("tiresias")
	if err != nil {
		b.Fatal(err)
	}
	live := new(simulator.Sim)
	ledger := workload.NewLedger(c)
	sent := 0
	o := simulator.Options{Observer: func(e simulator.Event) {
		sent++
		out := workload.Event{ID: fmt.Sprintf("%08d", sent), Kind: e.Kind, Time: e.Time, LevelAttained: e.Seen.LevelAttained, HasLevel: e.Seen.HasLevel}
		out.Job = *live.Spec(e.Job)
		if e.Kind == workload.Started || e.Kind == workload.Resumed {
			out.Placement = workload.Shares(live.Placement(nil, e.Job))
		}
		if _, err := ledger.Apply(out); err != nil {
			b.Fatal(err)
		}
	}}
	if err := live.Start(c, w, s.New(s.Presets[0].Config), o); err != nil {
		b.Fatal(err)
	}
	for live.Active() < 1000 {
		if live.Done() {
			b.Fatal("the backlog never reached a thousand jobs")
		}
		if err := live.RunUntil(context.Background(), live.Now()+time.Minute); err != nil {
			b.Fatal(err)
		}
	}
	state := ledger.State(live.Now())
	var left []time.Duration
	for id := range live.Submitted() {
		if live.JobActive(id) {
			left = append(left, live.JobLeft(id))
		}
	}
	return live, &state, left, w.Window(state.At+1, state.At+time.Hour)
}

// BenchmarkResume is one evaluation of a tuning round: an hour of arrivals from
// a busy state, until the last job has ended.
func BenchmarkResume(b *testing.B) {
	_, state, left, arrivals := busy(b)
	for _, x := range contenders() {
		b.Run(x.name, func(b *testing.B) {
			var sim simulator.Sim
			policy := x.s.New(x.config)
			play := func() {
				if err := sim.Resume(state, left, arrivals, policy, simulator.Options{}); err != nil {
					b.Fatal(err)
				}
				if err := sim.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			play()
			b.ReportAllocs()
			for b.Loop() {
				play()
			}
			b.ReportMetric(float64(len(state.Jobs)), "active")
			b.ReportMetric(float64(arrivals.Len()), "arrivals")
		})
	}
}

// BenchmarkFork copies a busy simulation and gives it another configuration.
func BenchmarkFork(b *testing.B) {
	live, _, _, _ := busy(b)
	for _, x := range contenders() {
		b.Run(x.name, func(b *testing.B) {
			var fork simulator.Sim
			policy := x.s.New(x.config)
			b.ReportAllocs()
			for b.Loop() {
				live.Fork(&fork, policy)
			}
			b.ReportMetric(float64(live.Active()), "active")
		})
	}
}
