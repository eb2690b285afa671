package report

import (
	"fmt"
	"testing"

	"github.com/autosched/autosched/replay"
)

// Methods are compared by the objective that was tuned for; a share of zero is
// no division by it.
func TestCompareFairness(t *testing.T) {
	a := &replay.Method{Outcome: replay.Outcome{AvgJCT: 10, FTFLe1: .75, P95Rho: 3, MaxRho: 8}}
	b := &replay.Method{Outcome: replay.Outcome{AvgJCT: 20, FTFLe1: .875, P95Rho: 2, MaxRho: 2}}
	fair := &replay.Method{Outcome: replay.Outcome{FTFLe1: 1}}
	for _, tt := range []struct {
		objective string
		x, y      *replay.Method
		over      float64
	}{
		{"avg_jct", a, b, .5},
		{"ftf", a, b, 2},
		{"p95_rho", a, b, 1.5},
		{"max_rho", a, b, 4},
		{"ftf", fair, fair, 1},
		{"ftf", a, fair, 1e6},
	} {
		r := &document{&replay.Report{Objective: tt.objective}}
		if got := r.over(tt.x, tt.y); got != tt.over {
			t.Errorf("%s: ratio %v, want %v", tt.objective, got, tt.over)
		}
	}
}

// TestMethodsAreKnown: the page names every method's information, and
// has a colour of its own for it.
func TestMethodsAreKnown(t *testing.T) {
	taken := map[int]string{}
	for _, name := range replay.MethodNames() {
		slot, ok := slots[name]
		if !ok || sees[name] == "" {
			t.Errorf("%s: slot %v, sees %q", name, ok, sees[name])
		}
		if taken[slot] != "" {
			t.Errorf("%s has the colour of %s", name, taken[slot])
		}
		taken[slot] = name
	}
}

// TestThin: a run of samples keeps its peak and its mean load.
func TestThin(t *testing.T) {
	in := make([]replay.Sample, 2*points)
	for i := range in {
		in[i] = replay.Sample{AtS: float64(i), Waiting: i % 2 * i, BusyGPU: 4 * (i % 2)}
	}
	out := thin(in)
	if len(out) != points || out[0] != (replay.Sample{AtS: 0, Waiting: 1, BusyGPU: 2}) || out[1].Waiting != 3 ||
		out[1].AtS != 2 {
		t.Errorf("%d samples, %+v", len(out), out[:2])
	}
	if short := thin(in[:points]); &short[0] != &in[0] {
		t.Error("a short series is copied")
	}
}

// TestUnitOf: columns have the unit of their longest time, with digits for 1 %.
func TestUnitOf(t *testing.T) {
	for top, want := range map[float64]string{30: "s 2", 119: "s 1", 120: "min 3", 7199: "min 1", 7200: "h 3",
		4 * 86400: "d 3", 2e6: "d 2"} {
		if name, _, digits := unitOf(top); fmt.Sprint(name, " ", digits) != want {
			t.Errorf("%v s: %s %d, want %s", top, name, digits, want)
		}
	}
}

// TestSettings: changed settings are marked, none without a configuration before.
func TestSettings(t *testing.T) {
	got := fmt.Sprint(settings("", "a=1 b=2"), settings("a=1 b=2", "a=1 b=3"))
	if want := "[{a=1 false} {b=2 false}] [{a=1 false} {b=3 true}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
