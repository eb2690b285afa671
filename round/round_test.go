package round

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

func tuningRound(t *testing.T, x *observed) *Round {
	return &Round{Problem: x.problem("avg_jct"), Scenarios: x.futures(t, 2),
		Settings: Settings{Budget: 16, Seed: 3}}
}

// record is the result of a round as text.
func record(t *testing.T, r Result) string {
	t.Helper()
	r.Reason += "."
	b, err := json.MarshalIndent(struct {
		Decision Decision
		Trials   []search.Trial
		State    json.RawMessage
	}{r.Decision, r.Trials, r.State}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWorkersDoNotDecide: the same trials and the same decision, for any number
// of workers and in any order in which they finish.
func TestWorkersDoNotDecide(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	var want string
	for _, workers := range []int{1, 4, 16, 1} {
		r := tuningRound(t, x)
		r.Workers = workers
		got, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Trials) != r.Budget {
			t.Errorf("%d trials for a budget of %d", len(got.Trials), r.Budget)
		}
		if want == "" {
			want = record(t, got)
		}
		if diff := cmp.Diff(want, record(t, got)); diff != "" {
			t.Errorf("with %d workers (-one +these):\n%s", workers, diff)
		}
	}
}

// TestRoundObeysItsRule: an adopted configuration was measured, is better on average, by the
// paper's ratio if that is asked for, and was not refused.
func TestRoundObeysItsRule(t *testing.T) {
	testshared.Full(t)
	x := observe(t, 8*time.Hour, simulator.Options{})
	r := tuningRound(t, x)
	var err error
	if r.Incumbent, err = r.Space.Parse(r.Incumbent, []string{"queues=1"}); err != nil { // long jobs block short ones
		t.Fatal(err)
	}
	for n := range 4 {
		got, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if !got.Adopt {
			if n == 0 {
				t.Fatalf("a contended cluster has nothing to gain: %s", got.Reason)
			}
			break
		}
		at := slices.IndexFunc(got.Trials, func(x search.Trial) bool { return x.Config.Equal(got.Config) })
		if at < 0 {
			t.Fatalf("%v was never measured", got.Config)
		}
		if gain := search.Gain(got.Trials[at], got.Incumbent); gain.Ratio <= 1 || gain.Ratio != got.Ratio {
			t.Errorf("adopted with %+v, reported %v", gain, got.Ratio)
		}
		if slices.ContainsFunc(r.Refused, got.Config.Equal) {
			t.Fatalf("%v was refused before", got.Config)
		}
		r.Refused = append(r.Refused, got.Config)
	}
	if len(r.Refused) < 2 {
		t.Errorf("only %d configurations in turn", len(r.Refused))
	}
	r.Refused = nil
	for _, rule := range []Rule{RuleDaily, RulePaper} {
		r.Rule = rule
		r.Incumbent = x.scheduler.Space.Default()
		got, err := r.Run(context.Background())
		if err != nil || got.Adopt != (got.Ratio > 1 && got.Ratio >= r.ratio()) {
			t.Errorf("rule %s: adopted %v at a ratio of %v: %s (error %v)", rule, got.Adopt, got.Ratio, got.Reason, err)
		}
	}
}

// TestFrontOfARound: metrics have the names that goals give them, others too, and
// every trial has their values.
func TestFrontOfARound(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	var want string
	for _, front := range [][]string{{"avg_queue", "max_rho"}, {"avg_wait", " max_rho"}} {
		r := tuningRound(t, x)
		r.Budget, r.Front = 4, front
		got, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if f := search.Front(got.Trials, []string{"avg_queue", "max_rho"}); len(f) == 0 {
			t.Errorf("%v: no trial has both", front)
		}
		if want == "" {
			want = record(t, got)
		}
		if diff := cmp.Diff(want, record(t, got)); diff != "" {
			t.Errorf("%v (-as goals name them +so):\n%s", front, diff)
		}
	}
	for _, front := range [][]string{{"avg_jct", "speed"}, {"avg_wait", "avg_queue"}} {
		r := tuningRound(t, x)
		r.Front = front
		if _, err := r.Run(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "front: ") {
			t.Errorf("%v: error %v", front, err)
		}
	}
}

// TestRoundWithNothingToPlay keeps the incumbent and says why.
func TestRoundWithNothingToPlay(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	r := tuningRound(t, x)
	r.Scenarios = nil
	r.Incumbent = x.scheduler.Presets[1].Config
	got, err := r.Run(context.Background())
	if err != nil || got.Adopt || !got.Config.Equal(r.Incumbent) || !strings.Contains(got.Reason, "Nothing") {
		t.Errorf("%+v, error %v", got.Decision, err)
	}
}

// TestPresetsFitTheRegisteredSpace: a narrower space narrows them.
func TestPresetsFitTheRegisteredSpace(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	params := x.scheduler.Space.Params()
	for i := range params {
		if params[i].ID == "queues" {
			params[i].Max = 3
		}
	}
	narrow, err := space.New(params, x.scheduler.Space.Rules())
	if err != nil {
		t.Fatal(err)
	}
	presets := presetsIn(narrow, x.scheduler)
	if len(presets) != len(x.scheduler.Presets) {
		t.Errorf("%d presets of %d", len(presets), len(x.scheduler.Presets))
	}
	for _, p := range presets {
		if err := narrow.Check(p.Config); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if n := p.Config.Get("queues").Int(); n > 3 {
			t.Errorf("%s has %d queues of 3", p.Name, n)
		}
	}
}
