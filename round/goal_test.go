package round

import (
	"math"
	"strings"
	"testing"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"pgregory.net/rapid"
)

func TestParseGoal(t *testing.T) {
	for text, want := range map[string]string{
		"avg_jct":                         "avg_jct",
		" p95_wait ":                      "p95_queue",
		"0.7*avg_jct + 0.3*p99_jct":       "0.7*avg_jct + 0.3*p99_jct",
		"3*avg_jct+p99_jct":               "0.75*avg_jct + 0.25*p99_jct",
		"2*ftf":                           "ftf",
		"p99_jct then avg_jct":            "p99_jct then avg_jct",
		"p99_jct within 2% then avg_jct":  "p99_jct within 2% then avg_jct",
		"avg_jct within 1 % then p95_rho": "avg_jct then p95_rho",
		"avg_jct subject to p99_jct<=1.1*incumbent, tenant_p95_wait <= incumbent + 1m": "avg_jct subject to " +
			"p99_jct<=1.1*incumbent, tenant_p95_queue<=incumbent+1m",
		"avg_jct subject to ftf<=5%,max_rho<=4,avg_queue<=0": "avg_jct subject to ftf<=5%, max_rho<=4, avg_queue<=0s",
		"avg_jct subject to p99_jct<=1e+3+1.5e+0*incumbent":  "avg_jct subject to p99_jct<=1.5*incumbent+16m40s",
		"avg_jct subject to ftf<=1.e-1+1E+1*incumbent":       "avg_jct subject to ftf<=10*incumbent+10%",
		"1e+3*avg_jct+1e+3*p99_jct":                          "0.5*avg_jct + 0.5*p99_jct",
		"avg_jct subject to p99_jct<=2e+3s + 2*incumbent":    "avg_jct subject to p99_jct<=2*incumbent+33m20s",
		"avg_jct subject to p99_jct<=1h1m1s":                 "avg_jct subject to p99_jct<=1h1m1s",
		"avg_jct subject to p99_jct<=1e+15":                  "avg_jct subject to p99_jct<=1000000000000000s",
		"avg_jct subject to p50_jct<=30m+.5*incumbent":       "avg_jct subject to p50_jct<=0.5*incumbent+30m",
	} {
		g, err := ParseGoal(text)
		if err != nil || g.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, g, err, want)
			continue
		}
		if again, err := ParseGoal(g.String()); err != nil || again.String() != want {
			t.Errorf("%s is read as %v, %v", want, again, err)
		}
	}
	for text, want := range map[string]string{
		"":    `objective: "" is not known; there are avg_jct`,
		"jct": `objective: "jct" is not known`,
		"tenant_p95_queue": "objective: tenant_p95_queue is one value for each tenant: it can " +
			"only be a constraint",
		"-1*avg_jct":                                   `objective: weight "-1"`,
		"NaN*avg_jct":                                  `objective: weight "NaN"`,
		"avg_jct+avg_jct":                              "objective: avg_jct is named twice",
		"avg_jct then avg_jct":                         "objective: avg_jct is named twice",
		"avg_jct within 2%":                            "want then and a metric",
		"avg_jct within 2 then ftf":                    `objective: within "2": want a share such as 2%`,
		"avg_jct subject to":                           "constraint",
		"avg_jct subject to p99_jct":                   `constraint "p99_jct": want METRIC<=BOUND`,
		"avg_jct subject to x<=1":                      `constraint: "x" is not known`,
		"avg_jct subject to ftf<=x":                    `"x": want a multiple of incumbent, or a share such as 5%, from 0`,
		"avg_jct subject to p99_jct<=5%":               "seconds or a span such as 30m",
		"avg_jct subject to p99_jct<=-5s":              "seconds or a span such as 30m",
		"avg_jct subject to p99_jct<=1.1incumbent":     `"1.1incumbent": want a positive multiple`,
		"avg_jct subject to p99_jct<=1e+16":            `"1e+16": want a multiple of incumbent, or seconds or a span such as 30m, from 0 to 1e+15`,
		"avg_jct subject to p99_jct<=1e+300*incumbent": "want a positive multiple",
		"avg_jct subject to p99_jct<=1e+":              `"1e": want`,
		"avg_jct subject to p99_jct<=0*incumbent":      "want a positive multiple",
		"avg_jct subject to p99_jct<=incumbent+2*incumbent": "one multiple of the incumbent's and one " +
			"number at most",
		"avg_jct subject to p99_jct<=1s+2s": "one multiple of the incumbent's and one " +
			"number at most",
		"avg_jct subject to p99_jct<=incumbent,p99_jct<=incumbent": "p99_jct<=incumbent is given twice",
	} {
		if g, err := ParseGoal(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want an error with %s", text, g, err, want)
		}
	}
}

func TestGoalsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom(append(Metrics(), " then ", " within ", "2%", " subject to ", "<=",
			"*", "+", ",", "incumbent", "1.5", "1e+3", "30m", "0", " ", "x")))
		text := strings.Join(words.Draw(t, "words"), "")
		g, err := ParseGoal(text)
		if err != nil {
			return
		}
		if again, err := ParseGoal(g.String()); err != nil || again.String() != g.String() {
			t.Fatalf("%q is %q, which is read as %q, %v", text, g, again, err)
		}
	})
}

// goal parses a text.
func goal(t testing.TB, text string) Goal {
	t.Helper()
	g, err := ParseGoal(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// goalTrial has the objective, a secondary metric and a limit, equal on all futures.
func goalTrial(c space.Config, step int, objective, side, excess float64) search.Trial {
	four := func(v float64) []float64 { return []float64{v, 2 * v, v, 2 * v} }
	return search.Trial{Step: step, Config: c, Provenance: search.Provenance{Origin: "test"},
		Measurement: search.Measurement{
			Values: four(objective), Floors: four(0),
			Secondary: []search.Metric{{Name: "avg_jct", Values: four(side), Floors: four(0)}},
			Limits: []search.Limit{{Name: "p95_queue<=incumbent",
				Paired: true, Values: four(1 + excess), Bounds: four(1)}}}}
}

// TestGoalRule: constraints come first, then the ranks, then the ratio.
func TestGoalRule(t *testing.T) {
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ objective, side, excess float64 }
	for _, tt := range []struct {
		name   string
		then   bool
		rows   []row // the first is the incumbent
		want   int
		reason string
	}{
		{"the best breaks the constraint", false, []row{{100, 1, 0}, {80, 1, .1}, {90, 1, 0}}, 2,
			"keeps to p95_queue<=incumbent with 0.0 % to spare and probability 1.00"},
		{"all that is better breaks it", false, []row{{100, 1, 0}, {80, 1, .1}}, 0,
			"None of 2 configurations is better than the one in force and keeps to the constraints"},
		{"nothing keeps to it, nor the incumbent",
			false, []row{{100, 1, .2}, {80, 1, .1}, {90, 1, .3}}, 0,
			"None of 3 configurations keeps to the constraints, so the one in force stays; the nearest (search) is " +
				"10.0 % above p95_queue<=incumbent"},
		{"the incumbent breaks it, another keeps to it and costs more",
			false, []row{{100, 1, .2}, {80, 1, .1}, {120, 1, -.1}}, 2,
			"The one in force is 20.0 % above p95_queue<=incumbent; this one (search) keeps to all constraints"},
		{"the second metric decides among equals",
			true, []row{{100, 50, 0}, {100, 40, 0}, {100.5, 30, 0}, {120, 10, 0}}, 2,
			"Expected average JCT -"},
		{"the first metric decides", true, []row{{100, 50, 0}, {80, 60, 0}, {100, 10, 0}}, 1, "p99 JCT -"},
		{"the second among those as good in the first",
			true, []row{{100, 50, 0}, {80, 60, 0}, {80.5, 55, 0}}, 2, "p99 JCT -"},
		{"too little in both", true, []row{{100, 50, 0}, {100, 49, 0}}, 0, "A change has to gain 9.1 %"},
	} {
		r := Round{Problem: Problem{Goal: Minimise("p99_jct"), Incumbent: sp.Default()},
			Settings: Settings{Rule: RulePaper}}
		if tt.then {
			r.Goal = goal(t, "p99_jct then avg_jct")
		}
		out := Result{Decision: Decision{Config: sp.Default(), Ratio: 1}}
		for i, x := range tt.rows {
			out.Trials = append(out.Trials,
				goalTrial(sp.Default().With("n", space.Int(i)), i, x.objective, x.side, x.excess))
		}
		out.Incumbent = out.Trials[0]
		r.choose(&out)
		if got := out.Config.Get("n").Int(); got != tt.want || out.Adopt != (tt.want != 0) ||
			!strings.Contains(out.Reason, tt.reason) {
			t.Errorf("%s: %d, adopt %v: %s; want %d: %s", tt.name, got, out.Adopt, out.Reason, tt.want, tt.reason)
		}
	}
	// Kept on average, but with a probability of one half.
	trial := goalTrial(sp.Default().With("n", space.Int(1)), 1, 80, 1, 0)
	trial.Measurement.Limits[0].Values = []float64{1.3, 1.3, .7, 2.6}
	r := Round{Problem: Problem{Goal: Minimise("p99_jct"), Incumbent: sp.Default()},
		Settings: Settings{Rule: RulePaper}}
	base := goalTrial(sp.Default(), 0, 100, 1, 0)
	out := Result{Decision: Decision{Config: sp.Default()}, Incumbent: base, Trials: []search.Trial{base, trial}}
	if r.choose(&out); out.Adopt ||
		!strings.Contains(out.Reason, "may break a constraint; it keeps to") {
		t.Errorf("adopt %v: %s", out.Adopt, out.Reason)
	}
}

func TestWeightedSumsAreRatios(t *testing.T) {
	g, err := ParseGoal("3*avg_jct + p99_jct")
	if err != nil {
		t.Fatal(err)
	}
	raw := func(avg, p99 float64) *figures {
		return &figures{
			values: map[string]*metricValues{
				"avg_jct": {all: []float64{avg, 3 * avg}, floors: []float64{avg / 2, avg}},
				"p99_jct": {all: []float64{p99, 3 * p99}, floors: []float64{p99 / 2, p99}},
			},
		}
	}
	sc := &Scorer{goal: g, scenarios: make([]Scenario, 2), incumbent: &reference{figures: raw(100, 1000)}}
	if m := sc.score(sc.incumbent.figures); math.Abs(m.Mean()-1) > 1e-12 {
		t.Errorf("the incumbent is %v, want 1", m.Mean())
	}
	if m := sc.score(raw(80, 1000)); math.Abs(m.Mean()-(.75*.8+.25)) > 1e-12 || len(m.Floors) != 2 {
		t.Errorf("%v, want %v", m.Mean(), .75*.8+.25)
	}
}

// TestGoalsThatTheirTextCannotHold: goals are stored as texts, so ParseGoal must accept
// the text of every goal.
func TestGoalsThatTheirTextCannotHold(t *testing.T) {
	for _, text := range []string{"0.00000000001*avg_jct+p99_jct",
		"avg_jct subject to p99_jct<=0.00000000001*incumbent"} {
		if g, err := ParseGoal(text); err == nil {
			t.Errorf("%s is read as %s", text, g)
		}
	}
}

func TestUnits(t *testing.T) {
	for objective, want := range map[string]string{
		"avg_jct": "s", "p95_wait subject to ftf<=5%": "s", "ftf": "share", "max_rho": "ratio",
		"avg_jct + p99_jct": "ratio", "p99_jct then max_rho": "s",
	} {
		g := goal(t, objective)
		if got := g.Unit(); got != want {
			t.Errorf("%s is in %q, want %q", objective, got, want)
		}
	}
}
