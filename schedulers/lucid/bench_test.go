package lucid_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/lucid"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// BenchmarkPhilly replays two weeks of the Philly trace, lightly and heavily
// loaded, with and without profiler and packing.
func BenchmarkPhilly(b *testing.B) {
	w, _, err := trace.Open(b.Context(), testshared.Path(b, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	from := time.Date(2017, 9, 22, 0, 0, 0, 0, time.UTC).Sub(w.Zero())
	w = w.Window(from, from+14*24*time.Hour)
	s, err := space.New(lucid.Space(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{100, 70} {
		for _, set := range [][]string{
			{},
			{"profiler_nodes=0"},
			{"profiler_nodes=0", "share_when=always"},
			{"profiler_nodes=0", "share_limit=-1"},
			{"profiler_nodes=0", "share_limit=4"},
		} {
			config, err := s.Parse(s.Default(), set)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("nodes=%d/%v", nodes, set), func(b *testing.B) {
				var sim simulator.Sim
				policy := lucid.New(config)
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
