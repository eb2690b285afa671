package replay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// BenchmarkRound is one tuning round on one core, from a State at the busiest
// hour of the scenario philly-quick: so many configurations on four futures of
// four hours each.
func BenchmarkRound(b *testing.B) {
	path := testshared.Path(b, "traces/philly/jobs.csv.gz")
	w, _, err := trace.Open(path, trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	from, to := instant(b, w, "2017-10-09T00:00:00Z"), instant(b, w, "2017-10-12T00:00:00Z")
	for _, name := range []string{"tiresias", "themis", "lucid"} {
		b.Run(name, func(b *testing.B) {
			s, err := schedulers.Find(name)
			if err != nil {
				b.Fatal(err)
			}
			e, err := prepare(Options{Trace: w, From: from, To: to, Cluster: workload.Cluster{Nodes: 40, GPUsPerNode: 8}, Scheduler: s, Workers: 1, Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			x, incumbent := busiest(b, e)
			for _, budget := range []int{10, 40, 160} {
				b.Run(fmt.Sprintf("configurations=%d", budget), func(b *testing.B) {
					round := func() {
						r := e.round(x, incumbent.incumbent, 1)
						r.Budget, r.Cache = budget, nil
						if _, err := r.Run(context.Background()); err != nil {
							b.Fatal(err)
						}
					}
					round() // gets the memory
					b.ReportAllocs()
					began, rounds := processTime(), 0
					for b.Loop() {
						round()
						rounds++
					}
					b.ReportMetric(float64(processTime()-began)/float64(rounds)/1e6, "cpu-ms/op")
					b.ReportMetric(float64(len(incumbent.state.Jobs)), "active")
				})
			}
		})
	}
}

func instant(b *testing.B, w *workload.Workload, text string) time.Duration {
	b.Helper()
	at, err := trace.ParseInstant(w, text)
	if err != nil {
		b.Fatal(err)
	}
	return at
}

// busiest is the scenarios of the hour at which most jobs wait under the
// default.
func busiest(b *testing.B, e *evaluation) ([]round.Scenario, *moment) {
	b.Helper()
	first := e.o.Scheduler.Space.Default()
	look, err := e.startLive(first, false)
	if err != nil {
		b.Fatal(err)
	}
	at, most := e.o.From, -1
	for t := e.o.From; t < e.o.To; t += e.o.Interval {
		if err := look.runUntil(context.Background(), t); err != nil {
			b.Fatal(err)
		}
		if n := look.Sim.Waiting(); n > most {
			at, most = t, n
		}
	}
	live, err := e.startLive(first, true)
	if err != nil {
		b.Fatal(err)
	}
	if err := live.runUntil(context.Background(), at); err != nil {
		b.Fatal(err)
	}
	m := &moment{at: at, ledger: live.ledger, state: live.ledger.State(at), incumbent: first, live: live}
	x, err := round.Futures(context.Background(), m.ledger, &m.state, e.o.Trace.Zero(), e.o.Horizon, e.o.Futures, e.seed(m), e.o.Simulate, nil)
	if err != nil {
		b.Fatal(err)
	}
	return x, m
}
