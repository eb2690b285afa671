package themis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/themis"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// BenchmarkPhilly replays two weeks of the Philly trace, lightly and heavily
// loaded.
func BenchmarkPhilly(b *testing.B) {
	w, _, err := trace.Open(b.Context(), testshared.Path(b, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	from := time.Date(2017, 9, 22, 0, 0, 0, 0, time.UTC).Sub(w.Zero())
	w = w.Window(from, from+14*24*time.Hour)
	s, err := space.New(themis.Space(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{100, 70} {
		for _, set := range [][]string{
			nil,
			{"lease_term=60"},
			{"lease_term=300"},
			{"lease_term=7200"},
			{"lease_priority=service", "lease_term=7200"},
			{"fraction=0"},
			{"fraction=0.4"},
			{"consolidation_threshold=.3"},
		} {
			config, err := s.Parse(s.Default(), set)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("nodes=%d/%v", nodes, set), func(b *testing.B) {
				var sim simulator.Sim
				policy := themis.New(config)
				b.ReportAllocs()
				for b.Loop() {
					if err := sim.Start(workload.Uniform(nodes, 8), w, policy, simulator.Options{}); err != nil {
						b.Fatal(err)
					}
					if err := sim.Run(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				sum := sim.Summarize()
				b.ReportMetric(sum.AvgJCT, "JCT-s")
				b.ReportMetric(sum.FTFLe1, "share-rho<=1")
				b.ReportMetric(sum.P95Rho, "p95-rho")
				b.ReportMetric(sum.MaxRho, "max-rho")
				b.ReportMetric(float64(sum.Events)/float64(sum.Jobs), "events/job")
			})
		}
	}
}
