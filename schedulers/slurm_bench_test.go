package schedulers_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// limited gives jobs users, and time limits as users ask for them: two and a half times the run time or more, in
// steps of half an hour, up to a week.
func limited(tb testing.TB, w *workload.Workload) *workload.Workload {
	tb.Helper()
	jobs := slices.Clone(w.Jobs())
	r := rand.New(rand.NewPCG(1, 2))
	for i := range jobs {
		limit := time.Duration(float64(jobs[i].Duration) * (1 + r.ExpFloat64()*1.5)).Truncate(30 * time.Minute)
		q := jobs[i].Request()
		q.TimeLimit = max(jobs[i].Duration+time.Minute, min(limit+30*time.Minute, 7*24*time.Hour))
		jobs[i].Requested = q.Shared()
		if jobs[i].User == "" {
			jobs[i].User = string(rune('a' + r.IntN(26)))
		}
	}
	out, err := workload.New(w.Name(), w.Zero(), jobs)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// BenchmarkSlurmRound is a tuning round: 40 configurations, 4 hours of 4 futures from a state with 1,000 jobs.
func BenchmarkSlurmRound(b *testing.B) {
	w, _, err := trace.Open(b.Context(), testshared.Path(b, "golden", "simulator", "workloads", "philly2w.csv.gz"),
		trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	x := observe(b, limited(b, w), workload.Uniform(24, 8), 1000)
	s, err := schedulers.Find("slurm")
	if err != nil {
		b.Fatal(err)
	}
	arrivals := x.arrivals(4)
	bench(b, func() {
		var sim simulator.Sim
		r := rand.New(rand.NewPCG(1, 3))
		for range 40 {
			at := make([]float64, s.Space.Dims())
			for i := range at {
				at[i] = r.Float64()
			}
			policy := s.New(s.Space.Decode(at))
			for range 4 {
				if err := sim.Resume(x.state, x.left, arrivals, policy, simulator.Options{}); err != nil {
					b.Fatal(err)
				}
				if err := sim.RunUntil(context.Background(), x.state.At+4*time.Hour); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.ReportMetric(x.running(), "running")
	b.ReportMetric(float64(arrivals.Len()), "arrivals")
}

// BenchmarkSlurmWeek is a week of 100,000 jobs at a load of 0.8, with thousands of jobs waiting at its peaks.
func BenchmarkSlurmWeek(b *testing.B) {
	c := workload.Uniform(128, 8)
	w, err := synth.Generate(b.Context(), synth.Options{Days: 7, Jobs: 100_000, Seed: 1, Cluster: c})
	if err != nil {
		b.Fatal(err)
	}
	// Run times are scaled to the load, which keeps the widths and the arrivals.
	jobs, work := slices.Clone(w.Jobs()), 0.0
	for _, j := range jobs {
		work += j.Duration.Hours() * float64(j.GPUs.Whole())
	}
	for i := range jobs {
		scaled := time.Duration(float64(jobs[i].Duration) * .8 * 24 * 7 * float64(c.TotalGPUs()) / work)
		jobs[i].Duration = max(time.Second, scaled.Round(time.Second))
	}
	if w, err = workload.New(w.Name(), w.Zero(), jobs); err != nil {
		b.Fatal(err)
	}
	w = limited(b, w)
	s, err := schedulers.Find("slurm")
	if err != nil {
		b.Fatal(err)
	}
	for i, name := range []string{"default", s.Presets[0].Name, s.Presets[2].Name, s.Presets[4].Name} {
		b.Run(name, func(b *testing.B) {
			set := s.Space.Default()
			if i > 0 {
				set = s.Presets[2*(i-1)].Config
			}
			most := 0
			bench(b, func() {
				var sim simulator.Sim
				if err := sim.Start(c, w, s.New(set), simulator.Options{Observer: func(simulator.Event) {
					most = max(most, sim.Waiting())
				}}); err != nil {
					b.Fatal(err)
				}
				if err := sim.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
			b.ReportMetric(float64(most), "most-pending")
		})
	}
}
