package tiresias_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/tiresias"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// BenchmarkPhilly replays two weeks of the Philly trace, lightly and heavily
// loaded, under every priority.
func BenchmarkPhilly(b *testing.B) {
	w, _, err := trace.Open(b.Context(), testshared.Path(b, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	from := time.Date(2017, 9, 22, 0, 0, 0, 0, time.UTC).Sub(w.Zero())
	w = w.Window(from, from+14*24*time.Hour)
	s, err := space.New(tiresias.Space(), tiresias.Rules())
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{100, 70} {
		for _, set := range [][]string{
			{"priority=service"},
			{"priority=time"},
			{"priority=gittins"},
			{"priority=gittins", "order=submit"},
			{"queues=5", "queue_thresholds=7200,43200,259200,1555200", "order=submit", "pack_limit=.3"},
			{"priority=gittins", "queues=5", "queue_thresholds=7200,43200,259200,1555200", "order=submit",
				"pack_limit=.3"},
		} {
			config, err := s.Parse(s.Default(), set)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("nodes=%d/%v", nodes, set), func(b *testing.B) {
				var sim simulator.Sim
				policy := tiresias.New(config)
				b.ReportAllocs()
				for b.Loop() {
					if err := sim.Start(workload.Uniform(nodes, 8), w, policy, simulator.Options{}); err != nil {
						b.Fatal(err)
					}
					if err := sim.Run(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(sim.Summarize().AvgJCT, "JCT-s")
			})
		}
	}
}
