package schedulers_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
)

// peerSeconds are CPU seconds that other simulators took for the golden results,
// on one core. Where several runs are known as a range only, it is the least of
// them; Lucid's on philly2w are with idle seconds skipped.
var peerSeconds = []struct {
	name    string
	seconds float64
}{
	{"w1000.lucid.fifo", 29.7},
	{"w1000.lucid.sjf", 15.1},
	{"w1000.lucid.srtf", 14},
	{"w1000.lucid.tiresias.thr18000", 6.1},
	{"w1000.tiresias_sim.fifo.count", .45},
	{"w1000.tiresias_sim.srtf.count", .93},
	{"w1000.tiresias_sim.dlas-gpu.q3_3250_7200", .56},
	{"w1000.titan.tiresias.q2_14400.dt30", 1.26},
	{"w1000.titan.themis.lease300_f0.8.dt30", 1.59},
	{"philly2w.lucid.fifo", 13},
	{"philly2w.lucid.sjf", 13},
	{"philly2w.lucid.srtf", 13},
	{"philly2w.lucid.tiresias.thr18000", 13},
	{"philly2w.tiresias_sim.fifo.count", 25.6},
	{"philly2w.tiresias_sim.srtf.count", 89},
	{"philly2w.tiresias_sim.dlas-gpu.q3_3250_7200", 21},
	{"philly2w.titan.tiresias.q2_14400.dt60", 24},
	{"philly2w.titan.themis.lease300_f0.8.dt60", 44},
}

// BenchmarkPeers makes the golden results anew, with the settings that TestGolden
// compares job by job, and reports how many times faster that is than the simulator
// that made them, in CPU time.
func BenchmarkPeers(b *testing.B) {
	var table strings.Builder
	for _, peer := range peerSeconds {
		b.Run(peer.name, func(b *testing.B) {
			g, err := parseGolden(peer.name)
			if err != nil {
				b.Fatal(err)
			}
			w := readGoldenWorkload(b, filepath.Join(testshared.Path(b, "golden", "simulator"), "workloads"),
				g.workload)
			policy, opts := g.make(b)
			var sim simulator.Sim
			ns := bench(b, func() {
				if err := sim.Start(goldenClusters[g.workload], w, policy, opts); err != nil {
					b.Fatal(err)
				}
				if err := sim.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
			times := peer.seconds * 1e9 / ns
			b.ReportMetric(times, "x-faster")
			fmt.Fprintf(&table, "\n%-46s%10.2f%12.3f%10.0f", peer.name, peer.seconds, ns/1e6, times)
		})
	}
	if table.Len() > 0 {
		fmt.Printf("%-46s%10s%12s%10s%s\n", "CPU time", "peer, s", "ours, ms", "x faster", table.String())
	}
}
