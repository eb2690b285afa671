package round

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
)

// TestEarly: a proposal that was cut was behind a trial of an earlier batch or, under the daily rule, not far enough
// ahead of the one in force, in the scenarios that it was measured on, and does not win; the others, with the
// portfolio, are measured as without cuts. The number of workers changes nothing.
func TestEarly(t *testing.T) {
	testshared.Full(t)
	x := observe(t, 14*time.Hour, simulator.Options{})
	want, cuts := map[Rule]string{}, map[Rule]int{}
	for _, tt := range []struct {
		workers int
		rule    Rule
	}{{1, RulePaper}, {4, RulePaper}, {1, RuleDaily}, {4, RuleDaily}} {
		r := tuningRound(t, x)
		r.Scenarios, r.Budget, r.Early, r.Workers, r.Rule = x.futures(t, 4), 24, true, tt.workers, tt.rule
		got, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		whole, err := NewScorer(&r.Problem, r.Scenarios)
		if err != nil {
			t.Fatal(err)
		}
		cut, best := 0, math.Inf(1)
		for i := range got.Trials {
			m := &got.Trials[i].Measurement
			plain, err := whole.Measure(context.Background(), got.Trials[i].Config)
			if err != nil {
				t.Fatal(err)
			}
			same := 0
			for k, v := range m.Values {
				if v == plain.Values[k] && m.Floors[k] == plain.Floors[k] {
					same++
				}
			}
			switch {
			case m.Measured == 0:
				best = min(best, m.Mean())
				if same < len(m.Values) {
					t.Errorf("trial %d has values %v, want %v", i, m.Values, plain.Values)
				}
			case inPortfolio(&got.Trials[i]):
				t.Errorf("%s was cut", got.Trials[i].Origin)
			case same < m.Measured:
				t.Errorf("trial %d has %d of %d values of %v: %v", i, same, m.Measured, plain.Values, m.Values)
			case m.Mean() < best && (tt.rule == RulePaper ||
				m.Mean() < (1-leastPromised)*got.Incumbent.Measurement.Mean()):
				t.Errorf("trial %d was cut at an estimate of %v, the best is %v", i, m.Mean(), best)
			case got.Config.Equal(got.Trials[i].Config) && got.Adopt:
				t.Errorf("trial %d was cut and adopted", i)
			default:
				cut++
			}
			if tt.rule == RulePaper && m.Measured > 0 && search.Gain(got.Trials[i], got.Incumbent).BetterInEvery {
				t.Errorf("trial %d was cut and is better in every scenario", i)
			}
		}
		if cut < 2 {
			t.Errorf("%d of %d trials were cut", cut, len(got.Trials))
		}
		if want[tt.rule] == "" {
			want[tt.rule], cuts[tt.rule] = record(t, got), cut
		}
		if diff := cmp.Diff(want[tt.rule], record(t, got)); diff != "" {
			t.Errorf("with %d workers (-one +these):\n%s", tt.workers, diff)
		}
	}
	if cuts[RuleDaily] < cuts[RulePaper] {
		t.Errorf("the daily rule cuts %d, the paper's %d", cuts[RuleDaily], cuts[RulePaper])
	}
}

// TestCutTrialsCannotWin: whatever the estimate says.
func TestCutTrialsCannotWin(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	r := tuningRound(t, x)
	of := func(step, measured int, v float64) search.Trial {
		c, err := r.Space.Parse(r.Incumbent, []string{"queues=1"})
		if err != nil {
			t.Fatal(err)
		}
		if step == 0 {
			c = r.Incumbent
		}
		return search.Trial{Step: step, Config: c, Measurement: search.Measurement{Values: []float64{v, v},
			Measured: measured}}
	}
	for _, measured := range []int{0, 1} {
		out := Result{Incumbent: of(0, 0, 2), Trials: []search.Trial{of(0, 0, 2), of(1, measured, 1)}}
		r.choose(&out)
		if want := measured == 0; out.Adopt != want {
			t.Errorf("measured on %d scenarios: adopted %v (%s)", measured, out.Adopt, out.Reason)
		}
	}
}
