package searches

import (
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
)

func equal(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The differences 1, 2 and 3 have t = 2 sqrt(3); with two degrees of freedom its
// two-sided p is 1 - t / sqrt(2 + t²).
func TestAgainst(t *testing.T) {
	ratio, p := against([]float64{2, 4, 6}, []float64{0, 0, 0}, 2)
	equal(t, "ratio", ratio, math.Exp(2))
	equal(t, "p", p, 1-2*math.Sqrt(3)/math.Sqrt(14))
	ratio, p = against([]float64{3, 4}, []float64{3, 4}, 1)
	equal(t, "the same", ratio+p, 2)
	ratio, p = against([]float64{3, 4}, []float64{2, 3}, 1)
	equal(t, "always by the same", ratio, math.E)
	equal(t, "p of always the same", p, 0)
}

func trialOf(values ...float64) search.Trial {
	return search.Trial{Measurement: search.Measurement{Values: values, Floors: make([]float64, len(values))}}
}

// TestNear: within 1 % of the target, counted from 1; all trials where none is.
func TestNear(t *testing.T) {
	exhausted := search.Trial{Measurement: search.Measurement{Exhausted: true}}
	trials := []search.Trial{trialOf(200, 200), exhausted, trialOf(90, 112), trialOf(50, 50)}
	for _, tt := range []struct {
		target float64
		n      int
		ok     bool
	}{{100, 3, true}, {200, 1, true}, {50, 4, true}, {49, 4, false}} {
		if n, ok := near(trials, tt.target); n != tt.n || ok != tt.ok {
			t.Errorf("near %v: %d, %v; want %d, %v", tt.target, n, ok, tt.n, tt.ok)
		}
	}
}

// A search with a model is compared with the same search without one, and with the
// reference.
func TestMatch(t *testing.T) {
	best := map[string]float64{}
	seconds := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	var plain, pruned tally
	result := func(values ...float64) round.Result {
		var r round.Result
		for _, v := range values {
			r.Trials = append(r.Trials, trialOf(v))
		}
		return r
	}
	plain.match(result(100, 90, 80), seconds, "gp", "gp", best)
	pruned.match(result(100, 80), seconds, "gp", "gp"+Causal, best)
	if plain.toMatch != 3 || pruned.toMatch != 2 || plain.matched+pruned.matched != 2 {
		t.Errorf("%+v and %+v", plain, pruned)
	}
	equal(t, "evaluations", pruned.plain.Evaluations, 2)
	equal(t, "seconds", pruned.plain.Seconds, 2)
	equal(t, "best of the search with a model", best["gp"+Causal], 80)
}

// TestControllable: the part above the floors, a thousandth of the value at least.
func TestControllable(t *testing.T) {
	m := search.Measurement{Values: []float64{10, 20}, Floors: []float64{4, 20}}
	equal(t, "controllable", controllable(m), (6+.02)/2)
}
