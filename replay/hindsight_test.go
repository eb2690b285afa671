package replay

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// TestNeighbours: they have the same categories and special values, and numbers within 3 %
// of the range, the same for the same seed.
func TestNeighbours(t *testing.T) {
	for _, name := range []string{"tiresias", "lucid", "themis", "gandiva", "pollux"} {
		s, err := schedulers.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		o := sample(t)
		o.Scheduler = s
		e, err := Prepare(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range append([]schedulers.Preset{{Config: s.Space.Default()}}, s.Presets...) {
			near := e.neighbours(c.Config)
			again := e.neighbours(c.Config)
			if len(near) != neighbours {
				t.Errorf("%s: %d neighbours of %s", name, len(near), c.Config)
			}
			for i, n := range near {
				if err := s.Space.Check(n); err != nil {
					t.Errorf("%s: %s: %v", name, n, err)
				}
				if !n.Equal(again[i]) {
					t.Errorf("%s: %s, then %s", name, n, again[i])
				}
				for _, p := range s.Space.Params() {
					a, b := n.Get(p.ID), c.Config.Get(p.ID)
					if len(p.Categories) > 0 && a.Text() != b.Text() {
						t.Errorf("%s: %s is %s beside %s", name, p.ID, a, b)
					}
				}
			}
		}
	}
}

func TestGuards(t *testing.T) {
	jobs := []workload.Job{{ID: "a", GPUs: workload.GPUs(1)}, {ID: "b", GPUs: workload.GPUs(16)}}
	rows := func(a, b float64) JobRows {
		return JobRows{{"a", round.JobResult{Wait: a, JCT: a + 1, Ended: true}},
			{"b", round.JobResult{Wait: b, JCT: b + 1, Ended: true}}}
	}
	base := &Outcome{P99JCT: 1000, ShortJCT: 100, Rows: rows(0, 1000)}
	for _, c := range []struct {
		o      Outcome
		width  string
		broken int
	}{
		{*base, "1", 0},
		{Outcome{P99JCT: 1099, ShortJCT: 169, Rows: rows(59, 1159)}, "1", 0},
		{Outcome{P99JCT: 1101, ShortJCT: 171, Rows: rows(61, 1162)}, "9-16", 4},
		{Outcome{P99JCT: 1, ShortJCT: 1, Rows: rows(0, 2000)}, "9-16", 1},
	} {
		g := guardsAgainst(jobs, base, &c.o)
		if len(g.Broken) != c.broken || g.Width != c.width {
			t.Errorf("%+v: %q broken, width %s", c.o, g.Broken, g.Width)
		}
	}
	if g := guardsAgainst(jobs, base, base); g.WidthRatio != 1 || g.ShortRatio != 1 || g.P99Ratio != 1 ||
		g.Losers != nil {
		t.Errorf("the default against itself: %+v", g)
	}
	g := guardsAgainst(jobs, base, &Outcome{Rows: rows(0, 5000)})
	if want := "16-GPU jobs wait 83 min, before 17 min (1 job)"; g.Broken[0] != want || len(g.Losers) != 2 {
		t.Errorf("%q, losers %+v; want %q", g.Broken, g.Losers, want)
	}
}

// TestHindsight: the best that keeps the guards is no better than the best, and keeps
// them.
func TestHindsight(t *testing.T) {
	testshared.Full(t)
	o := sample(t, "fixed-oracle", "default")
	o.Cluster, o.FixedBudget = workload.Uniform(14, 8), 12 // jobs wait
	r := evaluate(t, o)
	best, base := r.Methods[1], r.Methods[0]
	h := best.Hindsight
	if h == nil || h.GuardedJCT < best.AvgJCT || h.GuardedJCT > base.AvgJCT || h.RobustJCT < .8*best.AvgJCT {
		t.Fatalf("best %g, default %g: %+v", best.AvgJCT, base.AvgJCT, h)
	}
	if base.Guards != nil || base.Hindsight != nil || best.Guards == nil || best.Evaluations > 12 {
		t.Errorf("guards of the default %v, of the best %v; %d evaluations",
			base.Guards, best.Guards, best.Evaluations)
	}
}

// TestSeeds: a method that draws has an outcome for each seed and their mean, whatever
// the number of workers; each equals that of an evaluation of its own.
func TestSeeds(t *testing.T) {
	testshared.Full(t)
	o := sample(t, "default", "random-preset", "autosched")
	o.Cluster, o.Budget = workload.Uniform(14, 8), 4
	o.To = o.From + 4*time.Hour
	alone := make([]*Report, 2)
	for i := range alone {
		one := o
		one.Seed += uint64(i)
		alone[i] = evaluate(t, one)
	}
	o.Seeds = 2
	for _, n := range []int{1, 3} {
		o.Workers = n
		r := evaluate(t, o)
		if len(r.Seeds) != 2 || r.Seeds[0] != o.Seed || r.Seeds[1] != o.Seed+1 || len(r.Methods[0].Seeds) > 0 {
			t.Fatalf("seeds %v, of the default %v", r.Seeds, r.Methods[0].Seeds)
		}
		for k, m := range r.Methods[1:] {
			sum := 0.
			for i, s := range m.Seeds {
				want := alone[i].Methods[k+1]
				if s.AvgJCT != want.AvgJCT || s.Configuration != want.Configuration || s.Changes != want.Changes ||
					s.Evaluations != want.Evaluations || s.Ratio != want.Ratio {
					t.Errorf("%s, seed %d: %g, alone %g", m.Method, i, s.AvgJCT, want.AvgJCT)
				}
				sum += s.AvgJCT / 2
			}
			if len(m.Seeds) != 2 || math.Abs(m.AvgJCT-sum) > 1e-9*sum || m.Spread < 0 {
				t.Errorf("%s: mean %g of %g, spread %g", m.Method, m.AvgJCT, sum, m.Spread)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
