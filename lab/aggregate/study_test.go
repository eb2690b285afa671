package aggregate

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func TestKendall(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 4, 3}, 4. / 6},
		{[]float64{1, 1, 2}, []float64{5, 7, 9}, 1},      // a pair equal in the first series
		{[]float64{1, 2, 3}, []float64{1, 1, 2}, 2. / 3}, // a pair equal in the second series
		{[]float64{1, nan, 3}, []float64{1, 2, nan}, 1},  // no pair
		{[]float64{1, nan, 3}, []float64{2, 2, 1}, -1},
	} {
		if got := Kendall(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v, %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
	if tau, pairs := kendallApart([]float64{100, 100.5, 110}, []float64{2, 1, 3}, .01); tau != 1 || pairs != 2 {
		t.Errorf("apart: %v of %d pairs, want 1 of 2", tau, pairs)
	}
}

func studied(t *testing.T, w *workload.Workload, scheduler string, nodes, configs, hours int, from,
	to time.Duration) *Study {
	t.Helper()
	s, err := schedulers.Find(scheduler)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Measure(context.Background(),
		replay.Options{Trace: w, From: from, To: to, Cluster: workload.Uniform(nodes, 8), Scheduler: s,
			Settings: round.Settings{Seed: 1}},
		Options{Sizes: []int{DefaultGroup}, Configs: configs, Hours: hours})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// On the sample, in rounds: fewer jobs, nearly the same objective.
func TestStudyAggregate(t *testing.T) {
	if testing.Short() {
		t.Skip("measures configurations on groups of several widths")
	}
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, last := w.Span()
	for scheduler := range map[string]bool{"tiresias": true, "themis": true, "lucid": true} {
		r := studied(t, w, scheduler, 14, 6, 3, first, last)
		again := studied(t, w, scheduler, 14, 6, 3, first, last)
		if len(r.Instants) != 3 || r.Configs != 6 || len(r.Rows) != 2 {
			t.Fatalf("%s: %+v", scheduler, r)
		}
		noise, g := r.Rows[0], r.Rows[1]
		if noise.JobsOut != noise.JobsIn || math.Abs(noise.Bias) > .05 {
			t.Errorf("%s: jobs up to a minute later: %+v", scheduler, noise)
		}
		if g.JobsOut > .8*g.JobsIn || math.Abs(g.Bias) > .1 || g.Lost > .1 || g.Speedup <= 0 {
			t.Errorf("%s: %+v", scheduler, g)
		}
		if o := again.Rows[1]; o.Tau != g.Tau || o.Lost != g.Lost || o.Bias != g.Bias || o.JobsOut != g.JobsOut {
			t.Errorf("%s: again %+v, was %+v", scheduler, o, g)
		}
	}
}

// On four contended days of the Philly trace, choosing by groups loses little,
// and pairs of configurations that differ by more than 1 % keep their order. Many of
// Themis's differ by less, and grouping changes their order.
func TestAggregateKeepsRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates four days of a real trace")
	}
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC).Sub(w.Zero())
	for scheduler, tau := range map[string]float64{"tiresias": .75, "themis": .5} {
		g := studied(t, w, scheduler, 40, 12, 0, from, from+4*24*time.Hour).Rows[1]
		if g.TauApart < .8 || g.Apart < .5 {
			t.Errorf("%s: of pairs that differ by more than 1 %% (%.2f of all) tau is %.2f, want .8",
				scheduler, g.Apart, g.TauApart)
		}
		if g.Tau < tau || g.Lost > .02 || g.JobsOut > .4*g.JobsIn {
			t.Errorf("%s: %+v, want tau of at least %.2f", scheduler, g, tau)
		}
	}
}

func TestAggregateRow(t *testing.T) {
	var r Row
	r.compare([]float64{100, 110, 121, math.NaN()}, []float64{110, 110, 133.1, 1})
	equal(t, "lost by the pick", r.Lost, 0) // the first of those that are equal
	equal(t, "bias", r.Bias, (.1+0+.1)/3)
	equal(t, "pairs that differ", r.Apart, 1)
	equal(t, "tau", r.Tau, 2./3)
	r.compare([]float64{100, 110}, []float64{5, 4})
	equal(t, "most lost", r.MostLost, .1)
	equal(t, "least tau", r.MinTau, -1)
	r = Row{}
	s := time.Second
	r.time([]time.Duration{4 * s, 8 * s, 12 * s}, []time.Duration{s, s, s}, 3*s)
	equal(t, "median speed-up", r.MostSpeedup, 4)
	equal(t, "logarithm of it", r.Speedup, math.Log(4))
	equal(t, "seconds", r.FullS/r.GroupsS, 4)
}

func equal(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
