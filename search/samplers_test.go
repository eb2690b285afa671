package search

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/space"
	"pgregory.net/rapid"
)

// For any history, with failed and exhausted trials, ties and huge numbers, proposals
// are valid, new, and at most as many as requested.
func TestSamplersCopeWithAnyHistory(t *testing.T) {
	testshared.Full(t)
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom(objectives).Draw(t, "objective")
		e := rapid.SampledFrom(Samplers).Draw(t, "sampler")
		s := o.Space()
		n := rapid.IntRange(1, 40).Draw(t, "trials")
		seed := rapid.Uint64().Draw(t, "seed")
		value := rapid.OneOf(rapid.Float64Range(0, 10),
			rapid.SampledFrom([]float64{0, 1, 1e-300, 1e300, math.MaxFloat64}))
		known := map[string]bool{}
		var history []Trial
		for _, c := range Spread(s, seed, n) {
			if known[c.Hash()] {
				continue
			}
			known[c.Hash()] = true
			trial := Trial{Step: len(history), Round: len(history) / 4, Config: c,
				Provenance: Provenance{Origin: rapid.SampledFrom([]string{"default", e.Name}).Draw(t, "origin")}}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				trial.Err = "fails"
			case 1:
				trial.Measurement.Exhausted = true
			default:
				trial.Measurement.Values = []float64{value.Draw(t, "value")}
			}
			history = append(history, trial)
		}
		sampler, err := e.New(Setup{Space: s, Start: s.Default(), Seed: seed,
			Budget: rapid.SampledFrom([]int{0, 8, 40, 500}).Draw(t, "budget")})
		if err != nil {
			t.Fatal(err)
		}
		want := rapid.IntRange(1, 40).Draw(t, "n")
		got := sampler.Suggest(Request{History: history, Step: rapid.IntRange(0, 3).Draw(t, "step"), N: want})
		if len(got) > want || len(got) == 0 && want > 1 {
			t.Fatalf("%s: %d suggestions, asked for %d", e.Name, len(got), want)
		}
		for _, g := range got {
			if err := s.Check(g.Config); err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
			if p := g.Prediction; p != nil && (!finite(p.Mean) || !finite(p.SD) || p.SD < 0) {
				t.Fatalf("%s: prediction %+v", e.Name, *p)
			}
			if h := g.Config.Hash(); e.Name != "bluefin" /* the original repeats itself */ {
				if known[h] {
					t.Fatalf("%s: %v was measured or proposed before", e.Name, g.Config)
				}
				known[h] = true
			}
		}
	})
}

// A sampler with a model must not propose rejected configurations forever.
func TestModelsMoveOnFromRejections(t *testing.T) {
	testshared.Full(t)
	o := find("quad2")
	s := o.Space()
	evaluate := func(_ context.Context, c space.Config) (Measurement, error) {
		return Measurement{Values: []float64{1 + o.Measure(c, 1)}}, nil
	}
	for _, method := range samplerNames() {
		if method == "bluefin" {
			continue
		}
		r, err := Tune(context.Background(), Options{Space: s, Evaluate: evaluate, Method: method, Budget: 30,
			Reject: func(_ []Trial, c space.Config) string {
				if x := c.Get("x").Float(); x > 1 && x < 4 { // the optimum and all around it
					return "not there"
				}
				return ""
			}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Trials) != 30 || len(r.Rejected) > 150 {
			t.Errorf("%s: %d trials and %d rejections, stopped by %s",
				method, len(r.Trials), len(r.Rejected), r.Stopped)
		}
	}
}

func TestAutoSaysWhy(t *testing.T) {
	testshared.Full(t)
	many := make([]space.Param, 100)
	for i := range many {
		many[i] = space.Param{ID: fmt.Sprintf("p%d", i), Kind: space.KindFloat, Max: 1, Default: space.Num(0)}
	}
	wide, err := space.New(many, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Dimensions with one value are not searched.
	for i := range many[3:] {
		many[3+i].Max = 0
	}
	many = append(many, space.Param{ID: "one", Kind: space.KindCategorical, Categories: []string{"a"},
		Default: space.Text("a")},
		space.Param{ID: "two", Kind: space.KindCategorical, Categories: []string{"a", "b"}, Default: space.Text("a")})
	held, err := space.New(many, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		space  *space.Space
		budget int
		want   string
	}{{find("cat4").Space(), 40, "gp: "}, {held, 12, "gp: 4 dimensions, 1 category, planned for 12 evaluations: "},
		{find("cat4").Space(), 6, "sobol: "}, {wide, 40, "local: "}, {find("cat4").Space(), 300, "around the best"}} {
		r, err := Tune(context.Background(), Options{Space: test.space, Budget: test.budget,
			Evaluate: func(_ context.Context, c space.Config) (Measurement, error) {
				return Measurement{Values: []float64{1}}, nil
			}})
		if err != nil || r.Sampler != "auto" || !strings.Contains(r.Choice, test.want) {
			t.Errorf("%d evaluations: %v, %q; want %q", test.budget, err, r.Choice, test.want)
		}
	}
}

// Optima at the edge of the cube must be reached exactly, not only nearly.
func TestOptimaOnABoundAreReached(t *testing.T) {
	testshared.Full(t)
	o := find("bound")
	for seed := range uint64(5) {
		r, err := Tune(context.Background(), Options{Space: o.Space(), Budget: 40, Seed: seed,
			Evaluate: func(_ context.Context, c space.Config) (Measurement, error) {
				return Measurement{Values: []float64{o.Measure(c, seed)}}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		if regret := o.Regret(r.Trials[r.Best].Config); regret > 1e-3 {
			t.Errorf("seed %d: regret %v in the corner", seed, regret)
		}
	}
}

func TestThinKeepsTheBestAndSpreads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 80).Draw(t, "n")
		size := rapid.IntRange(2, 40).Draw(t, "size")
		d := &data{d: 2}
		for i := range n {
			d.x = append(d.x, rapid.Float64Range(0, 1).Draw(t, "x"), float64(rapid.IntRange(0, 2).Draw(t, "c")))
			d.cost, d.good, d.at = append(d.cost, float64(rapid.IntRange(0, 9).Draw(t, "cost"))), append(d.good, true),
				append(d.at, i)
			d.n++
		}
		thin := d.thin(size, []bool{false, true})
		if thin.n != min(n, size) || len(thin.x) != 2*thin.n || !slices.IsSorted(thin.at) ||
			len(slices.Compact(slices.Clone(thin.at))) != thin.n {
			t.Fatalf("%d of %d, wanted %d: %v", thin.n, n, size, thin.at)
		}
		if slices.Min(thin.cost) != slices.Min(d.cost) {
			t.Fatal("the best is gone")
		}
		for k, i := range thin.at {
			if thin.cost[k] != d.cost[i] || !slices.Equal(thin.row(k), d.row(i)) {
				t.Fatalf("trial %d was mixed up", i)
			}
		}
	})
}

// TestBudgetTakesNoMemory: the memory of a request does not grow with the budget.
func TestBudgetTakesNoMemory(t *testing.T) {
	s := ladder(t)
	for _, method := range samplerNames() {
		taken := func(budget int) uint64 {
			var before, after runtime.MemStats
			n := 0
			o := Options{Space: s, Evaluate: ladderCost, Method: method, Budget: budget, Workers: 1, Seed: 1}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			o.Progress = func(Trial) {
				if n++; n == 12 {
					cancel()
				}
			}
			runtime.ReadMemStats(&before)
			if _, err := Tune(ctx, o); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		// Some 25 MB a request, if all of it had room made for it.
		if small, large := taken(200), taken(1<<20); large > small+20<<20 {
			t.Errorf("%s: a study of 12 takes %d bytes with a budget of 200, %d with one of %d",
				method, small, large, 1<<20)
		}
	}
}
