package search

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// simplify runs a Simplifier on four futures of an objective.
func simplify(t testing.TB, from, winner string, cost func(c space.Config, future int) float64) Simplified {
	t.Helper()
	sp := ladder(t)
	parse := func(text string) space.Config {
		c, err := sp.Parse(sp.Default(), strings.Fields(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	asked := 0
	measure := func(_ context.Context, configs []space.Config) ([]Measurement, error) {
		out := make([]Measurement, len(configs))
		for i, c := range configs {
			asked++
			for k := range 4 {
				out[i].Values = append(out[i].Values, cost(c, k))
			}
		}
		return out, nil
	}
	w := Trial{Config: parse(winner), Provenance: Provenance{Origin: "gp"}}
	m, _ := measure(context.Background(), []space.Config{w.Config})
	w.Measurement, asked = m[0], 0
	s := Simplifier{Winner: w, From: parse(from), Measure: measure}
	got, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got.Evaluations != asked || asked > simplifyBudget {
		t.Errorf("%d evaluations counted, %d made, at most %d", got.Evaluations, asked, simplifyBudget)
	}
	if err := sp.Check(got.Trial.Config); err != nil {
		t.Error(err)
	}
	loss := got.Trial.Measurement.Mean() - w.Measurement.Mean()
	if most := Noise(&w.Measurement, &got.Trial.Measurement); loss > most {
		t.Errorf("%s loses %g, more than %g", got.Trial.Config, loss, most)
	}
	return got
}

// threshold is an objective of the first threshold alone.
func threshold(best float64) func(c space.Config, future int) float64 {
	return func(c space.Config, future int) float64 {
		v := append(c.Get("queue_thresholds").Floats(), 1e6)
		return 10000 + 100*float64(future) + 500*sq(math.Log(v[0]/best))
	}
}

func TestSimplifyDropsWhatHasNoEffect(t *testing.T) {
	for _, x := range []struct {
		name         string
		best         float64
		from, winner string
		want         string
	}{
		{"all irrelevant but one", 152000, "", "priority=time queue_thresholds=149772,212410 starve_limit=82466 " +
			"starve_ratio=3.17 pack=true",
			"priority=service queues=3 queue_thresholds=150000,210000 starve_limit=off pack=false"},
		{"equal thresholds are one", 200000, "", "queues=4 queue_thresholds=171772,189410,210517",
			"priority=service queues=2 queue_thresholds=200000 starve_limit=off pack=false"},
		{"what runs stays", 152000, "priority=time starve_limit=30m pack=true queue_thresholds=150000,300000",
			"priority=service starve_limit=12345 pack=false queue_thresholds=149000,310000",
			"priority=time queues=3 queue_thresholds=150000,300000 starve_limit=30m starve_ratio=8 pack=true"},
		{"nothing remains", 152000, "", "pack=true",
			"priority=service queues=3 queue_thresholds=3250,7200 starve_limit=off pack=false"},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := simplify(t, x.from, x.winner, threshold(x.best)).Trial.Config.String()
			t.Log(got)
			if got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// Two parameters of which either can be left out, but not both.
func TestSimplifyRevertsOneOfTwo(t *testing.T) {
	got := simplify(t, "", "priority=time pack=true", func(c space.Config, _ int) float64 {
		if c.Get("priority").Text() == "time" || c.Get("pack").Bool() {
			return 1000
		}
		return 1100
	})
	if n := len(space.DiffConfigs(ladder(t).Default(), got.Trial.Config)); n != 1 {
		t.Errorf("%s changes %d parameters, want 1", got.Trial.Config, n)
	}
}

func TestSimplifySaysWhatMatters(t *testing.T) {
	got := simplify(t, "", "priority=time queue_thresholds=150000,300000 pack=true", threshold(150000))
	var said []string
	for _, e := range got.Effects {
		said = append(said, fmt.Sprintf("%s %.3f %v %v", e.Parameters[0], e.Loss, e.Noise, e.Reverted))
	}
	want := []string{"queue_thresholds 0.723 false false", "priority 0.000 true true", "pack 0.000 true true"}
	if !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}

// Exact leaves out changes without effect, and rounds nothing.
func TestSimplifyExact(t *testing.T) {
	sp := ladder(t)
	w := sp.Default().With("pack", space.Bool(true)).With("queue_thresholds", space.Nums(149772, 212410))
	cost := threshold(152000)
	s := Simplifier{Winner: Trial{Config: w, Measurement: Measurement{Values: []float64{cost(w, 0)}}},
		From: sp.Default(), Exact: true,
		Measure: func(_ context.Context, configs []space.Config) ([]Measurement, error) {
			var out []Measurement
			for _, c := range configs {
				out = append(out, Measurement{Values: []float64{cost(c, 0)}})
			}
			return out, nil
		}}
	got, err := s.Run(context.Background())
	if want := w.With("pack", space.Bool(false)); err != nil || !got.Trial.Config.Equal(want) {
		t.Errorf("%s, want %s: %v", got.Trial.Config, want, err)
	}
}

// Keep refuses configurations that the caller rejects, such as ones that break a constraint.
func TestSimplifyKeeps(t *testing.T) {
	sp := ladder(t)
	w := Trial{Config: sp.Default().With("pack", space.Bool(true)), Measurement: Measurement{Values: []float64{1}}}
	s := Simplifier{Winner: w, From: sp.Default(),
		Keep: func(t *Trial) bool { return t.Config.Get("pack").Bool() },
		Measure: func(_ context.Context, c []space.Config) ([]Measurement, error) {
			return []Measurement{{Values: []float64{1}}}, nil
		}}
	got, err := s.Run(context.Background())
	if err != nil || !got.Trial.Config.Equal(w.Config) {
		t.Errorf("%s, %v", got.Trial.Config, err)
	}
}

// Whatever the winner and the objective, the simplest form is valid, within noise, within
// the budget, and changes no more parameters (checked by simplify).
func TestSimplifyProperties(t *testing.T) {
	sp := ladder(t)
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string) space.Config {
			u := make([]float64, sp.Dims())
			for i := range u {
				u[i] = rapid.Float64Range(0, 1).Draw(r, name)
			}
			return sp.Decode(u)
		}
		from, winner := draw("from"), draw("winner")
		salt := rapid.Uint64().Draw(r, "salt")
		cost := func(c space.Config, future int) float64 { // chaos of a percent, for the half of them
			x := rng.Stream(c.Hash(), salt, uint64(future))
			return 1000 * (1 + max(0, x.Float64()-.5)/50)
		}
		got := simplify(t, from.String(), winner.String(), cost)
		if a, b := len(space.DiffConfigs(from, got.Trial.Config)), len(space.DiffConfigs(from, winner)); a > b {
			r.Errorf("%d parameters changed, the winner %d", a, b)
		}
		if again := simplify(t, from.String(), winner.String(), cost); !again.Trial.Config.Equal(got.Trial.Config) {
			r.Errorf("%s, then %s", got.Trial.Config, again.Trial.Config)
		}
	})
}

func TestRounder(t *testing.T) {
	for _, x := range []struct {
		kind space.Kind
		v    float64
		want []float64
	}{
		{space.KindDuration, 124466, []float64{2 * 86400, 35 * 3600, 124466}}, // 34h34m26s
		{space.KindDuration, 5400, nil},                                       // whole minutes
		{space.KindDuration, 567.3, []float64{600, 540, 567}},
		{space.KindDuration, 86400, nil},
		{space.KindFloat, 149772, []float64{200000, 150000}},
		{space.KindFloat, .0992415, []float64{.1, .099, .0992}},
		{space.KindFloat, 1.04, []float64{1, 1.04}},
		{space.KindFloat, .35, nil},
		{space.KindInt, 7, nil},
		{space.KindInt, 1234, []float64{1000, 1200, 1230}},
		{space.KindFloat, 0, nil},
	} {
		if got := Rounder(x.kind, x.v); !slices.Equal(got, x.want) {
			t.Errorf("%v %v: got %v, want %v", x.kind, x.v, got, x.want)
		}
	}
}
