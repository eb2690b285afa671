package replay

import (
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
)

func TestMeanOfSeeds(t *testing.T) {
	a, b := &Method{Method: "m"}, &Method{Method: "m"}
	a.Outcome = Outcome{AvgJCT: 10, Rounds: 8, Urgent: 2, Changes: 4}
	b.Outcome = Outcome{AvgJCT: 20, Rounds: 6, Changes: 2}
	m := meanOf([]*Method{a, b}, &Outcome{AvgJCT: 30}, defaultMethod, nil)
	if m.AvgJCT != 15 || m.Ratio != 2 || m.Spread != 1 || m.Rounds != 7 || m.Urgent != 1 || m.Changes != 3 {
		t.Errorf("means %+v, spread %v", m.Outcome, m.Spread)
	}
}

// TestEstimate: the time of all methods is known before any result is.
func TestEstimate(t *testing.T) {
	testshared.Full(t)
	o := sample(t)
	o.To = o.From + 2*time.Hour
	o.FixedBudget = 1000
	got, err := Estimate(t.Context(), o)
	if want := len(methods) - 1; err != nil || got.Left <= 0 || got.Results != want { // without that in force
		t.Errorf("%v for %d results, %v, want a time for %d", got.Left, got.Results, err, want)
	}
}
