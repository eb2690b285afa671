package replay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// BenchmarkRound is one tuning round on one core, from a State at the busiest hour of
// the scenario philly-quick: configurations measured on four futures of twelve hours, poor
// ones on fewer.
func BenchmarkRound(b *testing.B) {
	path := testshared.Path(b, "traces/philly/jobs.csv.gz")
	w, _, err := trace.Open(b.Context(), path, trace.Options{})
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
			e, err := Prepare(Options{Trace: w, From: from, To: to, Cluster: workload.Uniform(40, 8), Scheduler: s,
				Settings: round.Settings{Workers: 1, Seed: 1}})
			if err != nil {
				b.Fatal(err)
			}
			x, incumbent := busiest(b, e)
			for _, budget := range []int{10, 40, 160} {
				b.Run(fmt.Sprintf("configurations=%d", budget), func(b *testing.B) {
					round := func() {
						r := e.Round(x, incumbent.Incumbent, 1)
						r.Budget, r.Cache, r.Early = budget, nil, true
						if _, err := r.Run(context.Background()); err != nil {
							b.Fatal(err)
						}
					}
					round() // gets the memory
					b.ReportAllocs()
					began, rounds := cputime.Process(), 0
					for b.Loop() {
						round()
						rounds++
					}
					b.ReportMetric(float64(cputime.Process()-began)/float64(rounds)/1e6, "cpu-ms/op")
					b.ReportMetric(float64(len(incumbent.State.Jobs)), "active")
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
func busiest(b *testing.B, e *Evaluation) ([]round.Scenario, *RoundInput) {
	b.Helper()
	first := e.Options.Scheduler.Space.Default()
	look, err := e.Start(first, false)
	if err != nil {
		b.Fatal(err)
	}
	at, most := e.Options.From, -1
	for t := e.Options.From; t < e.Options.To; t += e.Options.Interval {
		if err := look.Sim.RunUntil(context.Background(), t); err != nil {
			b.Fatal(err)
		}
		if n := look.Sim.Waiting(); n > most {
			at, most = t, n
		}
	}
	live, err := e.Start(first, true)
	if err != nil {
		b.Fatal(err)
	}
	if err := live.Sim.RunUntil(context.Background(), at); err != nil {
		b.Fatal(err)
	}
	m := e.Input(live, 0, at, first)
	x, err := e.Futures(context.Background(), m)
	if err != nil {
		b.Fatal(err)
	}
	return x, m
}

// BenchmarkDailyRule is the answer of the daily rule on one core, on four weeks of the trace: cold, and warm, on the
// days after it, each with the replays of the day before.
func BenchmarkDailyRule(b *testing.B) {
	w, _, err := trace.Open(b.Context(), testshared.Path(b, "traces/philly/jobs.csv.gz"), trace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	at := instant(b, w, "2017-10-26T12:00:00Z")
	for _, name := range []string{"tiresias", "themis", "lucid"} {
		s, err := schedulers.Find(name)
		if err != nil {
			b.Fatal(err)
		}
		kept := &round.Replays{}
		ask := func(b *testing.B, day int) {
			q := round.Question{Problem: round.Problem{Scheduler: s, Space: s.Space, Cluster: workload.Uniform(40, 8),
				Goal: round.Minimise("avg_jct"), Incumbent: s.Space.Default()}, Guard: .1, Seed: 1, Workers: 1,
				Replays: kept, History: round.RecordedOf(w, at+time.Duration(day)*24*time.Hour)}
			if _, err := round.Ask(b.Context(), q); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name+"/cold", func(b *testing.B) {
			began, days := cputime.Process(), 0
			for b.Loop() {
				kept = &round.Replays{}
				ask(b, 0)
				days++
			}
			b.ReportMetric(float64(cputime.Process()-began)/float64(days)/1e6, "cpu-ms/op")
		})
		b.Run(name+"/warm", func(b *testing.B) {
			const days = 5 // one of each age of the present stretch
			var spent time.Duration
			rounds := 0
			for b.Loop() {
				kept = &round.Replays{}
				ask(b, 0)
				for day := range days {
					began := cputime.Process()
					ask(b, day+1)
					spent += cputime.Process() - began
				}
				rounds++
			}
			b.ReportMetric(float64(spent)/float64(days*rounds)/1e6, "cpu-ms/op")
		})
	}
}
