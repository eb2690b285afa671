package search

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/space"
	"pgregory.net/rapid"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		values, bounds []float64
		excess, kept   float64
	}{
		{[]float64{1, 2}, []float64{1, 2}, 0, 1},
		{[]float64{1.1, 2.2}, []float64{1, 2}, .1, 0},
		{[]float64{.9, 1.8}, []float64{1, 2}, -.1, 1},
		{[]float64{0, 0}, []float64{0, 0}, 0, 1},
		{[]float64{1, 0}, []float64{0, 0}, MaxRatio, 0},
		{[]float64{0, 0}, []float64{1, 1}, -1, 1},
		{[]float64{2}, []float64{1}, 1, 0},
		{[]float64{1.5, .5, 1, 1}, []float64{1, 1, 1, 1}, 0, .5},
	} {
		l := Limit{Name: "x", Paired: true, Values: c.values, Bounds: c.bounds}
		if e, k := l.Excess(), l.Kept(); math.Abs(e-c.excess) > 1e-9 || math.Abs(k-c.kept) > 1e-9 {
			t.Errorf("%v of %v: excess %v, kept %v, want %v, %v", c.values, c.bounds, e, k, c.excess, c.kept)
		}
	}
}

// limited is ladderCost with a limit that the best of it breaks.
func limited(ctx context.Context, c space.Config) (Measurement, error) {
	m, err := ladderCost(ctx, c)
	if err == nil && !m.Exhausted {
		q := c.Get("queues").Float()
		m.Limits = []Limit{{Name: "few queues", Values: []float64{q, q}, Bounds: []float64{3, 3}}}
		m.Secondary = []Metric{{Name: "cost", Values: m.Values}, {Name: "queues", Values: []float64{7 - q, 7 - q}}}
	}
	return m, err
}

// TestWinnersKeepToLimits: for any sampler the winner keeps the limit, and is as good as
// in the space without the infeasible configurations.
func TestWinnersKeepToLimits(t *testing.T) {
	testshared.Full(t)
	s := ladder(t)
	for _, method := range samplerNames() {
		r, err := Tune(context.Background(), Options{Space: s, Evaluate: limited, Method: method, Budget: 50, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		best := &r.Trials[r.Best]
		if !best.Measurement.Feasible() {
			t.Errorf("%s: the winner has %v queues", method, best.Config.Get("queues"))
		}
		within, broken := 0, 0
		for i := range r.Trials {
			x := &r.Trials[i]
			if x.OK() && x.Measurement.Feasible() {
				within++
			} else if x.OK() {
				broken++
			}
			if x.OK() && x.Measurement.Limits[0].Values[0] != x.Config.Get("queues").Float() {
				t.Errorf("%s: what was measured was changed", method)
			}
		}
		if method == "gp" && within < 2*broken {
			t.Errorf("gp measured %d that keep to the limit and %d that break it: it does not avoid these",
				within, broken)
		}
	}
	r, err := Tune(context.Background(),
		Options{Space: s, Budget: 10, Evaluate: func(ctx context.Context, c space.Config) (Measurement, error) {
			return Measurement{Values: []float64{1},
				Limits: []Limit{{Name: "x", Values: []float64{2}, Bounds: []float64{1}}}}, nil
		}})
	if err != nil || r.Best != -1 {
		t.Errorf("nothing keeps to the limit: best %d, %v", r.Best, err)
	}
}

// TestFront: no trial of the front is dominated, all others are.
func TestFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var trials []Trial
		n := rapid.IntRange(0, 12).Draw(t, "trials")
		for i := range n {
			v := rapid.SliceOfN(rapid.Float64Range(0, 3), 2, 2).Draw(t, "values")
			m := Measurement{Values: []float64{1},
				Secondary: []Metric{{Name: "a", Values: v[:1]}, {Name: "b", Values: []float64{math.Round(v[1])}}}}
			m.Exhausted = rapid.IntRange(0, 5).Draw(t, "exhausted") == 0
			trials = append(trials, Trial{Step: i, Measurement: m})
		}
		front := Front(trials, []string{"a", "b"})
		beats := func(x, y int) bool {
			a, b := trials[x].Measurement.Secondary, trials[y].Measurement.Secondary
			return a[0].Values[0] <= b[0].Values[0] && a[1].Values[0] <= b[1].Values[0]
		}
		for i := range trials {
			if !trials[i].OK() {
				if slices.Contains(front, i) {
					t.Fatalf("%d has no objective", i)
				}
				continue
			}
			by := slices.ContainsFunc(front, func(j int) bool { return j != i && beats(j, i) })
			if slices.Contains(front, i) == by {
				t.Fatalf("%d: on the front %v, beaten by it %v", i, !by, by)
			}
		}
	})
}

// TestFrontIsSpread: a search for a front covers more of it than a search for the least
// of one objective.
func TestFrontIsSpread(t *testing.T) {
	testshared.Full(t)
	s, err := space.New([]space.Param{{ID: "x", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.1)},
		{ID: "y", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.1)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The front is y = 0, from (0, 1) to (1, 0).
	cost := func(_ context.Context, c space.Config) (Measurement, error) {
		x, y := c.Get("x").Float(), c.Get("y").Float()
		a, b := x*x+y, (1-x)*(1-x)+y
		return Measurement{Values: []float64{a},
			Secondary: []Metric{{Name: "a", Values: []float64{a}}, {Name: "b", Values: []float64{b}}}}, nil
	}
	// covered is the area below (2, 2) that the front dominates.
	covered := func(front []string) float64 {
		area := 0.0
		for seed := range uint64(4) {
			r, err := Tune(context.Background(), Options{Space: s, Evaluate: cost, Method: "gp",
				Budget: 30, Seed: seed, Ranking: Ranking{ParetoMetrics: front}})
			if err != nil {
				t.Fatal(err)
			}
			area += dominated(r.Trials) / 4
		}
		return area
	}
	if one, both := covered(nil), covered([]string{"a", "b"}); !(both > one+.01) || both < 3.65 {
		t.Errorf("covers %.3f, the search for one objective %.3f; all there is is 3.83", both, one)
	}
}

// dominated is the area below (2, 2) dominated by the trials.
func dominated(trials []Trial) float64 {
	area, right := 0.0, 2.0
	at := Front(trials, []string{"a", "b"})
	slices.Reverse(at)
	for _, i := range at {
		m := &trials[i].Measurement
		if a, b := m.Secondary[0].Values[0], m.Secondary[1].Values[0]; a < right && b < 2 {
			area += (right - a) * (2 - b)
			right = a
		}
	}
	return area
}
