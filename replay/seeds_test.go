package replay

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

func TestMeanOfSeeds(t *testing.T) {
	a, b := &Method{Method: "m"}, &Method{Method: "m"}
	a.Outcome = Outcome{AvgJCT: 10, Rounds: 8, Urgent: 2, Changes: 4}
	b.Outcome = Outcome{AvgJCT: 20, Rounds: 6, Changes: 2}
	m := meanOf([]*Method{a, b}, &Outcome{AvgJCT: 30}, defaultMethod, "avg_jct", nil)
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

// TestLosersOfKept: the losers of an outcome that was kept read as those of the outcome itself.
func TestLosersOfKept(t *testing.T) {
	jobs := []workload.Job{{ID: "a", GPUs: workload.GPUs(1)}, {ID: "b", GPUs: workload.GPUs(64)}}
	outcome := func(name string, wait float64) *measured {
		rows := JobRows{{"a", round.JobResult{JCT: 1, Ended: true}},
			{"b", round.JobResult{Wait: wait, JCT: wait + 1, Ended: true}}}
		return &measured{Method: Method{Method: name, Outcome: Outcome{AvgJCT: 1, Rows: rows}}, Rows: rows}
	}
	base, m := outcome(defaultMethod, 3600), outcome("preset", 36000)
	m.compare(jobs, &base.Outcome, defaultMethod, "avg_jct")
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	read := &measured{}
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Method{m.method(), read.method()} {
		got := round.LosersText(meanOf([]*Method{m}, &base.Outcome, defaultMethod, "avg_jct", jobs).Guards.Losers, 1)
		want := "The price is paid by wide jobs: 64-GPU jobs wait 10 h, before 1.0 h (1 job); and 1 more"
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRatioOfTheObjective: the ratio is that of the objective, and 1 where both values are 0.
func TestRatioOfTheObjective(t *testing.T) {
	base := &Outcome{AvgJCT: 30, P95JCT: 100}
	m := &Method{Method: defaultMethod, Outcome: Outcome{AvgJCT: 20, P95JCT: 200}}
	for objective, want := range map[string]float64{"avg_jct": 1.5, "p95_jct": .5, "max_rho": 1} {
		m.compare(nil, base, defaultMethod, objective)
		if m.Ratio != want {
			t.Errorf("%s: ratio %g, want %g", objective, m.Ratio, want)
		}
	}
}
