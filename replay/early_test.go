package replay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// TestEarlyFindsTheSame: on rounds of two windows, the best trial with proposals cut is
// nearly as good as without, at less than .8 of the simulations.
func TestEarlyFindsTheSame(t *testing.T) {
	testshared.Long(t)
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces/philly/jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tiresias", "themis", "lucid", "gandiva"} {
		t.Run(name, func(t *testing.T) {
			s, err := schedulers.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			regret, cost, n := 0.0, 0.0, 0.0
			for _, day := range []string{"2017-10-09T00:00:00Z", "2017-10-17T00:00:00Z"} {
				from, err := trace.ParseInstant(w, day)
				if err != nil {
					t.Fatal(err)
				}
				e, err := Prepare(Options{Trace: w, From: from, To: from + 72*time.Hour,
					Cluster: workload.Uniform(40, 8), Scheduler: s, Settings: round.Settings{Seed: 2}})
				if err != nil {
					t.Fatal(err)
				}
				held := s.Space.Default()
				live, err := e.Start(held, true)
				if err != nil {
					t.Fatal(err)
				}
				for k := range 10 {
					at := from + time.Duration(4+7*k)*time.Hour
					if err := live.Sim.RunUntil(context.Background(), at); err != nil {
						t.Fatal(err)
					}
					m := e.Input(live, k, at, held)
					futures, err := e.Futures(context.Background(), m)
					if err != nil {
						t.Fatal(err)
					}
					var best [2]float64
					var simulated [2]int
					for i, early := range []bool{false, true} {
						r := e.Round(futures, held, m.Seed)
						r.Cache, r.Early = nil, early
						got, err := r.Run(context.Background())
						if err != nil {
							t.Fatal(err)
						}
						best[i], simulated[i] = lowestWhole(got.Trials)
					}
					r, c := best[1]/best[0]-1, float64(simulated[1])/float64(simulated[0])
					t.Logf("%s %s: %d active jobs, %.4f %% worse at %.2f of the simulations", name,
						fmt.Sprint(e.Options.Trace.Zero().Add(at).Format(time.DateTime)), len(m.State.Jobs), 100*r, c)
					regret += r
					cost += c
					n++
				}
			}
			t.Logf("%s: %.4f %% worse on average at %.2f of the simulations, %v rounds", name, 100*regret/n, cost/n, n)
			if regret/n > .001 || cost/n > .8 {
				t.Errorf("%s: want at most .1 %% worse at .8 of the simulations", name)
			}
		})
	}
}

// lowestWhole is the least mean of the trials measured whole, with the simulations of all.
func lowestWhole(trials []search.Trial) (lowest float64, simulated int) {
	for _, t := range trials {
		m := &t.Measurement
		switch {
		case m.Measured > 0:
			simulated += m.Measured
			continue
		case t.OK() && (lowest == 0 || m.Mean() < lowest):
			lowest = m.Mean()
		}
		simulated += len(m.Values)
	}
	return lowest, simulated
}
