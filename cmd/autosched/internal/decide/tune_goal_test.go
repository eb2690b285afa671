package decide

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
)

type goalReport struct {
	FuturesAdopt bool `json:"futures_adopt"`
	Searched     string
	Objective    string
	Unit         string
	Front        []int
	Recommended  struct{ Config json.RawMessage }
	Trials       []struct {
		Step        int
		Objective   float64 `json:"objective"`
		Config      json.RawMessage
		Metrics     map[string]float64
		Constraints []struct {
			Constraint, Of      string
			Value, Bound        float64
			Excess, Probability float64
		}
	}
}

func tuneGoal(t *testing.T, more ...string) goalReport {
	t.Helper()
	args := append([]string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--set",
		"queues=1", "--budget", "20", "--futures", "3", "--json"}, more...)
	code, out, errs := clitest.Run(args...)
	if code != 0 {
		t.Fatalf("%v: exit %d: %s", more, code, errs)
	}
	var r goalReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTuneConstraints: the adopted configuration satisfies them, though a better one
// does not.
func TestTuneConstraints(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := tuneGoal(t, "--subject-to", "p99_jct<=1.001*incumbent", "--subject-to", "tenant_p95_wait<=1.5*incumbent+1h")
	if r.Objective != "avg_jct subject to p99_jct<=1.001*incumbent, tenant_p95_queue<=1.5*incumbent+1h" {
		t.Errorf("objective %q", r.Objective)
	}
	tenants := map[string]bool{}
	for i, x := range r.Trials {
		worst := 0.0
		for _, c := range x.Constraints {
			worst = max(worst, c.Excess)
			if c.Constraint != "p99_jct<=1.001*incumbent" {
				tenants[c.Of] = true
			}
			if (c.Excess > 0) != (c.Value > c.Bound) && c.Excess < -1e-9 || c.Probability < 0 || c.Probability > 1 {
				t.Errorf("step %d: %+v", x.Step, c)
			}
		}
		if string(x.Config) == string(r.Recommended.Config) && worst > 0 {
			t.Errorf("the best breaks a constraint by %.3f", worst)
		}
		if i == 0 && worst > 0 {
			t.Error("what keeps to the constraints does not come first")
		}
	}
	if len(tenants) < 3 {
		t.Errorf("tenants %v", tenants)
	}
	if r := tuneGoal(t, "--subject-to", "avg_jct<=1s"); r.FuturesAdopt ||
		!strings.Contains(r.Searched, "keeps to the constraints, so the one in force stays") {
		t.Errorf("adopt %v: %s", r.FuturesAdopt, r.Searched)
	}
}

func TestTunePareto(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	path := filepath.Join(t.TempDir(), "front.svg")
	r := tuneGoal(t, "--pareto", "avg_jct,p95_wait", "--plot", path, "--seed", "3")
	if len(r.Front) < 2 {
		t.Fatalf("front %v", r.Front)
	}
	on := map[int]bool{}
	for _, step := range r.Front {
		on[step] = true
	}
	for _, x := range r.Trials {
		for _, y := range r.Trials {
			if on[x.Step] && x.Metrics != nil && y.Metrics != nil && y.Metrics["avg_jct"] < x.Metrics["avg_jct"] &&
				y.Metrics["p95_queue"] < x.Metrics["p95_queue"] {
				t.Errorf("%d is on the front, but %d beats it", x.Step, y.Step)
			}
		}
	}
	if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "no other beats") {
		t.Errorf("the front is not drawn: %v", err)
	}
}

// TestTuneEnergy: cost is that of the prices, which the bound on delays limits; a front has energy.
func TestTuneEnergy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	prices := func(usd string) string {
		path := filepath.Join(t.TempDir(), "prices.csv")
		text := "ts,price_per_mwh\n2017-10-10T00:00:00Z," + usd + "\n"
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{"--objective", "cost", "--subject-to", "avg_jct<=1.05*incumbent", "--budget", "10"}
	once := tuneGoal(t, append(args, "--prices", prices("50"))...)
	twice := tuneGoal(t, append(args, "--prices", prices("100"))...)
	if a, b := once.Trials[0].Objective, twice.Trials[0].Objective; once.Unit != "$" || math.Abs(b-2*a) > 1e-9*a {
		t.Errorf("%v %s, at twice the price %v", a, once.Unit, b)
	}
	if r := tuneGoal(t, "--pareto", "energy,avg_jct", "--budget", "10"); len(r.Front) < 2 ||
		r.Trials[0].Metrics["energy"] <= 0 {
		t.Errorf("front %v, metrics %v", r.Front, r.Trials[0].Metrics)
	}
}

func TestTuneWeighted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := tuneGoal(t, "--objective", "3*avg_jct+p99_jct")
	if !r.FuturesAdopt || !strings.Contains(r.Searched, "Expected 0.75*avg_jct + 0.25*p99_jct -") ||
		!strings.Contains(r.Searched, "(1.0000 -> 0.") {
		t.Errorf("adopt %v: %s", r.FuturesAdopt, r.Searched)
	}
	if x := r.Trials[0].Objective; r.Unit != "ratio" || x <= 0 || x >= 1 {
		t.Errorf("the best is %v in %q, want a ratio below 1", x, r.Unit)
	}
	r = tuneGoal(t, "--objective", "p99_jct within 5% then avg_jct")
	if !r.FuturesAdopt || r.Trials[0].Metrics["avg_jct"] == 0 {
		t.Errorf("adopt %v: %s; %v", r.FuturesAdopt, r.Searched, r.Trials[0].Metrics)
	}
}

func TestTuneGoalMisuse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--objective=jct", `--objective: "jct" is not known`},
		{"--subject-to=p99_jct<1", `--subject-to: constraint "p99_jct<1": want METRIC<=BOUND`},
		{"--prices=p.csv", "--power, --prices and --carbon change nothing"},
		{"--pareto=avg_jct", "--pareto: [avg_jct]: want two metrics or more"},
		{"--pareto=avg_jct,avg_jct", "--pareto: avg_jct is named twice"},
		{"--pareto=avg_jct,2*p99_jct+ftf", `--pareto: "2*p99_jct+ftf" is not known; there are avg_jct, avg_queue, `},
		{"--pareto=avg_jct,nope", `--pareto: "nope" is not known; there are avg_jct, avg_queue, `},
		{"--pareto=avg_jct,", "--pareto: a name is missing"},
		{"--pareto=", "--pareto: a name is missing"},
		{"--pareto=avg_jct,tenant_avg_jct", "it can only be a constraint"},
	} {
		if code, _, errs := clitest.Run("tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z",
			c.args); code != 2 ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
}

// TestTuneWithoutDeadlines: a note says that no deadline can be missed.
func TestTuneWithoutDeadlines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const note = "note: no job has a deadline: deadline_misses is 0 for all configurations\n"
	for objective, want := range map[string]bool{"deadline_misses": true, "avg_jct": false} {
		code, _, errs := clitest.Run("tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20",
			"--budget", "2", "--futures", "1", "--objective", objective)
		if code != 0 || strings.Contains(errs, note) != want {
			t.Errorf("%s: exit %d: %s", objective, code, errs)
		}
	}
}

// TestTuneTableBoundsRatios: the saving is at most the controllable part of the objective.
func TestTuneTableBoundsRatios(t *testing.T) {
	r := tuneReport{Objective: "ftf", goal: round.Minimise("ftf"), Ratio: search.MaxRatio, Verdict: &replay.Verdict{},
		Trials: []tuneTrial{{Origin: "gp", Objective: .125, Floor: .125, Ratio: search.MaxRatio},
			{Origin: "default", Objective: .25, Floor: .125, Ratio: 1, Step: 1}}}
	var out strings.Builder
	if err := r.print(&out, 15); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"12.50 %                                 100 %", "25.00 %                                 0 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s does not say %q", &out, want)
		}
	}
}

// evaluate compares methods by their energy.
func TestEvaluateEnergy(t *testing.T) {
	testshared.Full(t)
	code, out, errs := clitest.Run("evaluate", "--trace", "sample", "--to", "2017-10-09T06:00:00Z", "--nodes", "12",
		"--methods", "default,fixed-oracle", "--budget", "6", "--interval", "3h", "--seeds", "1", "--json", "--objective",
		"energy")
	var r replay.Report
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit %d: %v: %s", code, err, errs)
	}
	base, best := r.Methods[0], r.Methods[1]
	if r.Objective != "energy" || !(best.Energy > 0 && best.Energy <= base.Energy) ||
		math.Abs(base.EDP-base.Energy*base.AvgJCT/3600) > 1e-9*base.EDP || base.Cost <= 0 || base.CO2 <= 0 {
		t.Errorf("%s: %v kWh, in hindsight %v", r.Objective, base.Energy, best.Energy)
	}
}

// evaluate takes the constraints of tune, as a flag or in the goal.
func TestEvaluateSubjectTo(t *testing.T) {
	testshared.Full(t)
	args := []string{"evaluate", "--trace", "sample", "--to", "2017-10-09T12:00:00Z", "--nodes", "12", "--methods",
		"default,fixed-oracle,autosched", "--budget", "6", "--futures", "2", "--interval", "3h", "--seeds", "1", "--json"}
	var texts []string
	for _, goal := range [][]string{{"--subject-to", "p99_jct<=0.01*incumbent"},
		{"--objective", "avg_jct subject to p99_jct<=0.01*incumbent"}} {
		code, out, errs := clitest.Run(append(args, goal...)...)
		var r replay.Report
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("exit %d: %v: %s", code, err, errs)
		}
		if r.Objective != "avg_jct" || len(r.SubjectTo) != 1 || r.SubjectTo[0] != "p99_jct<=0.01*incumbent" {
			t.Errorf("%s, %q", r.Objective, r.SubjectTo)
		}
		for _, m := range r.Methods {
			if m.Method == "autosched" && m.Changes > 0 {
				t.Errorf("%d changes under a constraint that nothing keeps", m.Changes)
			}
		}
		texts = append(texts, r.Methods[len(r.Methods)-1].Configuration)
	}
	if texts[0] != texts[1] {
		t.Errorf("the flag and the goal differ: %q", texts)
	}
	for _, bad := range [][]string{{"--subject-to", "joy<=1"}, {"--objective", "0.5*avg_jct + 0.5*p99_jct"}} {
		if code, _, errs := clitest.Run(append(args, bad...)...); code != 2 || errs == "" {
			t.Errorf("%q: exit %d, %s", bad, code, errs)
		}
	}
}

// TestReorderingIsNoted: where energy counts and nodes neither sleep nor jobs wait for hours, it is said that an order
// of jobs changes little of it.
func TestReorderingIsNoted(t *testing.T) {
	for _, x := range []struct {
		scheduler string
		metered   bool
		want      bool
	}{{"tiresias", true, true}, {"tiresias", false, false}, {"tiresias+sleep", true, false},
		{"tiresias+defer", true, false}, {"tiresias+defer+sleep", true, false}} {
		var notes strings.Builder
		noteReordering(&notes, x.metered, x.scheduler)
		const says = "tiresias+sleep lets idle nodes sleep, and tiresias+defer jobs wait"
		if got := strings.Contains(notes.String(), says); got != x.want {
			t.Errorf("%+v: %q", x, notes.String())
		}
	}
}
