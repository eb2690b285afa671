package round

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// portfolioAt is a round on the portfolio at an hour of a busy day, with a configuration
// in force that can be improved on: with two queues by more than UrgentRatio at 9, by less at 8.
func portfolioAt(t *testing.T, hour int, queues string) Input {
	t.Helper()
	x := observe(t, time.Duration(hour)*time.Hour, simulator.Options{})
	incumbent, err := x.scheduler.Space.Parse(x.scheduler.Space.Default(), []string{"queues=" + queues})
	if err != nil {
		t.Fatal(err)
	}
	return Input{Snapshot: x.snapshot(), Scheduler: "tiresias", Space: x.scheduler.Space, Goal: Minimise("avg_jct"),
		Incumbent: incumbent, Round: hour,
		Settings: Settings{Horizon: 2 * time.Hour, Futures: 4, Budget: 16, Search: SearchPortfolio}}
}

// decided is a round's result with the history that it leaves.
func decided(t *testing.T, in Input) (Result, *history) {
	t.Helper()
	r, err := Decide(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return r, loadHistory(r.History, in.Space)
}

// with replaces the history of a round.
func (in Input) with(t *testing.T, h *history) Input {
	t.Helper()
	var err error
	if in.History, err = json.Marshal(h); err != nil {
		t.Fatal(err)
	}
	return in
}

// changed is a history in which the incumbent came into force some time before a round.
func changed(t *testing.T, in Input, ago time.Duration) Input {
	h := loadHistory(nil, in.Space)
	h.Full, h.InForce, h.Since = 1, in.Incumbent.Hash(), in.State.At-ago
	h.Changes = []time.Duration{h.Since}
	return in.with(t, h)
}

// TestDecideByTheRule: settings and history reach the rule.
func TestDecideByTheRule(t *testing.T) {
	testshared.Full(t)
	for _, tt := range []struct {
		name   string
		hour   int
		queues string
		change func(*Input)
		adopt  bool
		reason string
	}{
		{"better by far", 9, "2", func(*Input) {}, true, "Expected average JCT -"},
		{"better", 8, "2", func(*Input) {}, true, "Expected average JCT -"},
		{"a large gain is asked for", 9, "2", func(in *Input) { in.MinGain = .2 }, false, "has to gain 20.0 %"},
		{"a large ratio", 9, "2", func(in *Input) { in.MinRatio = 1.5 }, false, "has to gain 33.3 % of what"},
		{"changes are dear, and there was one", 9, "2", func(in *Input) {
			*in = changed(t, *in, 5*time.Hour)
			in.ChangePrice = .2
		}, false, "has to gain 20.2 %"},
		{"changes are dear, and there was none", 9, "2", func(in *Input) { in.ChangePrice = .2 }, true, ""},
		{"just changed", 8, "2", func(in *Input) { *in = changed(t, *in, time.Hour) }, false, "2 h old"},
		{"just changed, better by far", 9, "2", func(in *Input) { *in = changed(t, *in, time.Hour) }, true, ""},
		{"no dwell", 8, "2", func(in *Input) { *in = changed(t, *in, time.Hour); in.Dwell = -1 }, true, ""},
		{"changed two hours ago", 8, "2", func(in *Input) { *in = changed(t, *in, 2*time.Hour) }, true, ""},
		{"between rounds", 8, "2", func(in *Input) { in.Urgent = true }, false, "has to gain 9.1 % of what"},
		{"between rounds, better by far", 9, "2", func(in *Input) { in.Urgent = true }, true, ""},
		{"a tenant would wait", 14, "2", func(*Input) {}, false, "above tenant_p95_queue"},
		{"it may", 14, "2", func(in *Input) { in.Guard = -1 }, true, ""},
		{"guards are left out", 14, "2", func(in *Input) { in.Ablation.NoGuards = true }, true, ""},
	} {
		in := portfolioAt(t, tt.hour, tt.queues)
		tt.change(&in)
		r, _ := decided(t, in)
		for _, internal := range []string{"controllable", "past:", "like:", "preset:", "gp", "sobol", "avg_jct"} {
			if strings.Contains(r.Reason, internal) {
				t.Errorf("%s: an operator reads %q: %s", tt.name, internal, r.Reason)
			}
		}
		if r.Adopt != tt.adopt || !strings.Contains(r.Reason, tt.reason) {
			t.Errorf("%s: adopt %v: %s; want %v: %s", tt.name, r.Adopt, r.Reason, tt.adopt, tt.reason)
		}
	}
}

// TestDecidePools: rounds in which the incumbent was better outweigh one in which it is not,
// unless they are left out or pursued another goal.
func TestDecidePools(t *testing.T) {
	testshared.Full(t)
	in := portfolioAt(t, 11, "2")
	_, h := decided(t, in)
	mine := h.Evidence[in.Incumbent.Hash()]
	if len(mine) != 1 || mine[0].Log <= 0 || len(h.Evidence) < 5 {
		t.Fatalf("evidence %v", h.Evidence)
	}
	mine[0].Log = -1
	next := portfolioAt(t, 12, "2")
	for _, tt := range []struct {
		name   string
		change func(*Input)
		adopt  bool
		rounds int // with evidence of the incumbent
	}{
		{"pooled", func(*Input) {}, false, 2},
		{"not pooled", func(in *Input) { in.Ablation.NoPooling = true }, true, 2},
		{"of another goal", func(in *Input) { in.Goal = Minimise("avg_queue") }, true, 1},
	} {
		in := next.with(t, h)
		tt.change(&in)
		r, after := decided(t, in)
		if n := len(after.Evidence[in.Incumbent.Hash()]); r.Adopt != tt.adopt || n != tt.rounds {
			t.Errorf("%s: adopt %v on %d rounds: %s; want %v on %d", tt.name, r.Adopt, n, r.Reason, tt.adopt, tt.rounds)
		}
	}
}

// TestInsuredOnceADay: a day's replay and stress are measured once, for new configurations on
// demand, and each part can be left out.
func TestInsuredOnceADay(t *testing.T) {
	testshared.Full(t)
	in := portfolioAt(t, 12, "2")
	_, first := decided(t, in)
	x := &first.Insurance
	if x.At != 12*time.Hour || !(x.Weight > 0 && x.Weight < replayWeight*float64(12*time.Hour)/float64(Memory)) ||
		len(x.Known) < 5 || len(x.Replay) != len(x.Known) || len(x.Stress) != len(x.Known) ||
		x.Replay[in.Space.Default().Hash()] != 0 || x.Replay[in.Incumbent.Hash()] <= 0 {
		t.Fatalf("insurance %+v", x)
	}
	tiresias, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	marked := tiresias.Presets[0].Config.Hash()
	x.Replay[marked] = -.001 // shows whether it is measured again
	for _, tt := range []struct {
		name string
		at   time.Duration
		same bool
	}{{"23 hours later", 13*time.Hour - 24*time.Hour + 1, true}, {"a day later", 13*time.Hour - 24*time.Hour, false}} {
		next := portfolioAt(t, 13, "1")
		x.At = tt.at
		_, after := decided(t, next.with(t, first))
		y := &after.Insurance
		if same := y.Replay[marked] == -.001; same != tt.same || (y.At == tt.at) != tt.same {
			t.Errorf("%s: kept %v, of %v", tt.name, same, y.At)
		}
		if !y.Known[next.Incumbent.Hash()] || len(y.Replay) != len(y.Known) || len(y.Stress) != len(y.Known) {
			t.Errorf("%s: the new incumbent is not insured: %+v", tt.name, y)
		}
	}
	for _, tt := range []struct {
		ablation       Ablation
		replay, stress bool
	}{{Ablation{NoReplay: true}, false, true}, {Ablation{NoStress: true}, true, false},
		{Ablation{NoReplay: true, NoStress: true}, false, false}} {
		in := portfolioAt(t, 12, "2")
		in.Ablation = tt.ablation
		_, h := decided(t, in)
		y := &h.Insurance
		if (len(y.Replay) > 0) != tt.replay || (y.Weight > 0) != tt.replay || (len(y.Stress) > 0) != tt.stress {
			t.Errorf("%+v: %+v", tt.ablation, y)
		}
	}
}

// TestDecideWithInertParameters: the rule compares with the default where the incumbent has
// other values of parameters without effect.
func TestDecideWithInertParameters(t *testing.T) {
	in := portfolioAt(t, 12, "1")
	chronus, err := schedulers.Find("chronus")
	if err != nil {
		t.Fatal(err)
	}
	in.Scheduler, in.Space = chronus.Name, chronus.Space
	if in.Incumbent, err = in.Space.Parse(in.Space.Default(), []string{"slo_gpus=0.75", "slo_factor=3"}); err != nil {
		t.Fatal(err)
	}
	r, h := decided(t, in)
	key := keyer(r.Inert)
	if got, ok := h.Evidence[key(in.Space.Default())]; len(r.Inert) == 0 || !ok || got[0].Log != 0 {
		t.Errorf("inert %v, evidence %v", r.Inert, h.Evidence)
	}
}

// TestNoNodeKeepsHistory: an outage of all nodes makes no cold start.
func TestNoNodeKeepsHistory(t *testing.T) {
	in := portfolioAt(t, 12, "2")
	in = in.with(t, &history{Version: historyVersion, Full: 3})
	in.State.Down = []int{0, 1, 2}
	if r, h := decided(t, in); r.Adopt || h.Full != 3 {
		t.Errorf("adopt %v, history %s", r.Adopt, r.History)
	}
}

// TestOnlyAProposalKeepsTheConstraint: an incumbent that breaks a constraint is replaced by
// what a sampler proposes, though that gains nothing.
func TestOnlyAProposalKeepsTheConstraint(t *testing.T) {
	s, first, last := line(t)
	var jobs oneGPU
	jobs.add(1, "", 0, time.Second)
	jobs.add(5, "", time.Second, 20*time.Minute)
	jobs.add(1, "", 10*time.Second, 10*time.Hour)
	jobs.add(1, "", 11*time.Second, 5*time.Minute) // waits for all others, or for none
	b := newBook(t, workload.Uniform(1, 1))
	r := &Round{Problem: Problem{Scheduler: s, Space: s.Space, Cluster: workload.Uniform(1, 1), Incumbent: first,
		Goal: goal(t, "avg_jct subject to short_avg_jct<=2h")}, Settings: DefaultSettings(),
		Scenarios: []Scenario{jobs.scenario(t)}, HeldOut: []Scenario{jobs.scenario(t)}}
	r.Budget, r.Search = 12, SearchFull
	got, err := r.decide(t.Context(), &Input{Snapshot: *b.snapshot(time.Hour)}, loadHistory(nil, s.Space))
	if err != nil {
		t.Fatal(err)
	}
	if policy := got.Config.Get("n").Int(); !got.Adopt || policy == 0 || got.Stats.Raced == 0 {
		t.Errorf("adopt %v, %v after %d raced: %s; want one such as %v", got.Adopt, got.Config, got.Stats.Raced,
			got.Reason, last)
	}
}
