package report

import (
	"testing"

	"github.com/autosched/autosched/replay"
)

// Methods are compared by the objective that was tuned for; a share of zero is
// no division by it.
func TestCompareFairness(t *testing.T) {
	a := &replay.Method{AvgJCT: 10, FTFLe1: .75, P95Rho: 3, MaxRho: 8}
	b := &replay.Method{AvgJCT: 20, FTFLe1: .875, P95Rho: 2, MaxRho: 2}
	fair := &replay.Method{FTFLe1: 1}
	for _, tt := range []struct {
		objective string
		x, y      *replay.Method
		over      float64
		figure    string
	}{
		{"avg_jct", a, b, .5, "20 s"},
		{"ftf", a, b, 2, "12.50 %"},
		{"p95_rho", a, b, 1.5, "2.000"},
		{"max_rho", a, b, 4, "2.000"},
		{"ftf", fair, fair, 1, "0.00 %"},
		{"ftf", a, fair, 1e6, "0.00 %"},
	} {
		r := &document{&replay.Report{Objective: tt.objective}}
		if got := r.over(tt.x, tt.y); got != tt.over {
			t.Errorf("%s: ratio %v, want %v", tt.objective, got, tt.over)
		}
		if got := r.figure(tt.y); got != tt.figure {
			t.Errorf("%s: %q, want %q", tt.objective, got, tt.figure)
		}
	}
}
