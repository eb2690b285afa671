package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// start is a study before its first trial.
func start(t testing.TB, f func(*Spec)) State {
	t.Helper()
	sp, err := space.New([]space.Param{
		{ID: "x", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.9)},
		{ID: "y", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.9)},
		{ID: "order", Kind: space.KindCategorical, Categories: []string{"fifo", "las"}, Default: space.Text("fifo")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := State{Space: sp, Record: Record{ID: "s", Phase: Active, Spec: Spec{Algorithm: "sobol", Budget: 20,
		Metric: "wait", Lease: time.Minute, Params: sp.Params(), Start: json.RawMessage(sp.Default().Canonical())}}}
	if f != nil {
		f(&s.Spec)
	}
	return s
}

// client asks and reports as one would that has a state and an engine.
type client struct {
	t      *testing.T
	s      State
	engine *Engine
	at     time.Time
}

func newClient(t *testing.T, f func(*Spec)) *client {
	c := &client{t: t, s: start(t, f), at: began}
	c.restart()
	return c
}

func (c *client) restart() {
	c.t.Helper()
	var err error
	if c.engine, err = NewEngine(&c.s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) try(e Event) error {
	next, _, err := Step(c.s, e, c.at)
	if err == nil {
		c.s = next
	}
	return err
}

func (c *client) do(e Event) {
	c.t.Helper()
	if err := c.try(e); err != nil {
		c.t.Fatalf("%T: %v", e, err)
	}
}

func (c *client) ask(name string, count int) ([]*Trial, error) {
	c.t.Helper()
	if err := c.try(Tick{}); err != nil {
		c.t.Fatal(err)
	}
	e := Suggest{Client: name, Count: count}
	if c.s.Lacks(name, count) > 0 {
		var err error
		if e.Asked, err = c.engine.Ask(&c.s); err != nil {
			c.t.Fatal(err)
		}
	}
	err := c.try(e)
	held := c.s.Held(name, count)
	if err == nil && len(held) == 0 {
		err = c.s.Nothing()
	}
	return held, err
}

func (c *client) one(name string) *Trial {
	c.t.Helper()
	held, err := c.ask(name, 1)
	if err != nil || len(held) != 1 {
		c.t.Fatalf("%d trials for %s: %v", len(held), name, err)
	}
	return held[0]
}

func waited(v float64) *Measurement { return &Measurement{Metrics: map[string]float64{"wait": v}} }

// cost is least at x = 0.3, y = 0.6 under las.
func cost(c space.Config) float64 {
	v := 1 + math.Pow(c.Get("x").Float()-.3, 2) + math.Pow(c.Get("y").Float()-.6, 2)
	if c.Get("order").Text() == "fifo" {
		v += .5
	}
	return v
}

// A client that asks again gets the trial that it holds; others get others; the budget ends.
func TestSuggest(t *testing.T) {
	c := newClient(t, func(s *Spec) { s.Budget = 5 })
	a := c.one("a")
	if again := c.one("a"); again != a || a.Origin != "default" {
		t.Errorf("asked again: trial %d, want %d", again.ID, a.ID)
	}
	b, err := c.ask("b", 3)
	if err != nil || len(b) != 3 {
		t.Fatalf("%d trials: %v", len(b), err)
	}
	if more, _ := c.ask("a", 2); len(more) != 2 || more[0] != a {
		t.Errorf("with a larger count %d trials", len(more))
	}
	if _, err := c.ask("c", 1); !errors.Is(err, ErrBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
	for _, held := range slices.Concat(b, c.s.Held("a", 9)) {
		c.do(Complete{Trial: held.ID, Final: waited(cost(held.Config))})
	}
	c.do(Pause{}) // changes nothing
	if c.s.Phase != Completed || c.s.Count()[Succeeded] != 5 {
		t.Errorf("%s with %v", c.s.Phase, c.s.Count())
	}
	if best := c.engine.Best(&c.s); best == nil || cost(best.Config) > cost(a.Config) {
		t.Errorf("best is %+v", best)
	}
}

// A lease that expires makes a trial stale. Its configuration is tried twice more; a late result counts
// once, and takes the place of a trial that waits.
func TestLeases(t *testing.T) {
	c := newClient(t, func(s *Spec) { s.Budget = 2 })
	first := c.one("a")
	c.at = c.at.Add(50 * time.Second)
	c.do(Renew{first.ID})
	c.at = c.at.Add(50 * time.Second)
	c.do(Tick{})
	if c.s.Trial(first.ID).State != Running {
		t.Fatal("a renewed lease expired")
	}
	c.at = c.at.Add(10 * time.Second)
	c.do(Tick{})
	stale := c.s.Trial(first.ID)
	if stale.State != Stale || stale.Retry == 0 || c.s.Trial(stale.Retry).State != Requested || c.s.Used() != 1 {
		t.Fatalf("%+v, %d of the budget used", stale, c.s.Used())
	}
	if err := c.try(Renew{first.ID}); !errors.Is(err, ErrState) {
		t.Errorf("a stale trial was renewed: %v", err)
	}
	c.do(Complete{Trial: first.ID, Final: waited(2)})
	late := c.s.Trial(first.ID)
	if late.State != Succeeded || !late.WasStale || c.s.Trial(stale.Retry).State != Skipped || c.s.Used() != 1 {
		t.Errorf("late: %+v, retry %+v, %d used", late, c.s.Trial(stale.Retry), c.s.Used())
	}
	c.do(Complete{Trial: first.ID, Final: waited(2)})
	if err := c.try(Complete{Trial: first.ID, Final: waited(3)}); !errors.Is(err, ErrState) {
		t.Errorf("another result: %v", err)
	}
	for range maxAttempts {
		if held := c.one("b"); held.Attempt > 0 && c.s.Trial(held.RetryOf).Retry != held.ID {
			t.Errorf("%+v is no retry", held)
		}
		c.at = c.at.Add(time.Hour)
	}
	if _, err := c.ask("b", 1); !errors.Is(err, ErrBudget) || c.s.Phase == Paused {
		t.Errorf("after %d attempts: %v", maxAttempts, err)
	}
	c.do(Tick{})
	if n := c.s.Count(); n[Stale] != maxAttempts || c.s.Phase != Completed {
		t.Errorf("%s with %v", c.s.Phase, n)
	}
}

// A measured configuration is not measured again unless a study says so.
func TestRepeats(t *testing.T) {
	c := newClient(t, nil)
	first := c.one("a")
	if err := c.try(Create{Config: first.Config}); !errors.Is(err, ErrExists) {
		t.Errorf("a configuration under way: %v", err)
	}
	c.do(Complete{Trial: first.ID, Final: waited(2)})
	c.do(Create{Config: first.Config})
	if last := c.s.Trial(c.s.LastTrial); last.State != Succeeded || last.SameAs != first.ID || !last.Own() {
		t.Errorf("again: %+v", last)
	}
	c.s.Spec.AllowRepeats = true
	c.do(Create{Config: first.Config})
	again := c.one("b")
	if again.Origin != User || !again.Config.Equal(first.Config) || c.s.Used() != 1 {
		t.Errorf("allowed: %+v, %d used", again, c.s.Used())
	}
	c.do(Complete{Trial: again.ID, Final: waited(4)})
	c.engine.update(&c.s)
	if got := c.engine.session.Trials()[0].Measurement.Mean(); got != 3 {
		t.Errorf("the mean of 2 and 4 is %v", got)
	}
}

// Trials that fail are not proposed again, and one that does worse than others is stopped.
func TestFailuresAndStops(t *testing.T) {
	c := newClient(t, func(s *Spec) { s.Maximize = true })
	c.do(Complete{Trial: c.one("a").ID, Infeasible: "does not start"})
	c.do(Complete{Trial: c.one("a").ID, Failure: "out of memory"})
	for i := range fewest {
		held := c.one("a")
		for step := range 3 {
			c.do(Measure{held.ID, Measurement{Step: int64(step + 1),
				Metrics: map[string]float64{"wait": float64(10 + i)}}})
		}
		c.do(Complete{Trial: held.ID})
	}
	bad, good := c.one("b"), c.one("c")
	for held, v := range map[*Trial]float64{bad: 11, good: 13} {
		c.do(Check{held.ID})
		c.do(Measure{held.ID, Measurement{Step: 2, Metrics: map[string]float64{"wait": v}}})
		c.do(Check{held.ID})
	}
	if c.s.Trial(bad.ID).State != Stopping || c.s.Trial(good.ID).State != Running {
		t.Errorf("bad %s, good %s", c.s.Trial(bad.ID).State, c.s.Trial(good.ID).State)
	}
	if err := c.try(Measure{bad.ID, Measurement{Step: 1}}); !errors.Is(err, ErrState) {
		t.Errorf("a step back: %v", err)
	}
	c.do(Complete{Trial: bad.ID})
	if got := c.s.Trial(bad.ID); got.State != Succeeded || got.Final.Metrics["wait"] != 11 {
		t.Errorf("stopped: %+v", got)
	}
	c.do(Pause{})
	if _, err := c.ask("d", 1); !errors.Is(err, ErrState) {
		t.Errorf("paused: %v", err)
	}
	c.do(Resume{})
	c.one("d")
	c.do(Cancel{})
	if n := c.s.Count(); n[Requested]+n[Running] != 0 || n[Stopping] != 2 {
		t.Errorf("cancelled: %v", n)
	}
	over := c.at
	c.at = c.at.Add(time.Hour)
	c.do(Complete{Trial: good.ID})
	c.do(Cancel{})
	if !c.s.Over.Equal(over) {
		t.Errorf("it was over at %v, not at %v", over, c.s.Over)
	}
	if best := c.engine.Best(&c.s); best == nil || best.Final.Metrics["wait"] < 13 {
		t.Errorf("best of the largest: %+v", best)
	}
}

// A study of 200 trials with 16 clients, each of which dies at random, and an engine that is made again at
// random: every configuration ends, none twice, and the best is better than the start.
func TestClientsThatDie(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		algorithm := rapid.SampledFrom([]string{"sobol", "local", "bluefin"}).Draw(rt, "algorithm")
		c := newClient(t, func(s *Spec) { s.Budget, s.Algorithm = 60, algorithm })
		measured := map[int64]bool{}
		for c.s.Phase == Active {
			c.at = c.at.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "seconds")) * time.Second)
			name := fmt.Sprint(rapid.IntRange(1, 16).Draw(rt, "client"))
			held, err := c.ask(name, 1)
			if err != nil && !errors.Is(err, ErrBudget) && !errors.Is(err, ErrExhausted) {
				rt.Fatal(err)
			}
			if len(held) == 0 {
				c.at = c.at.Add(10 * time.Second) // others are at work, or dead
				continue
			}
			switch one := held[0]; rapid.IntRange(0, 9).Draw(rt, "fate") {
			case 0, 1, 2: // dies
			case 3:
				c.restart()
			case 4:
				c.do(Complete{Trial: one.ID, Failure: "no GPU"})
			default:
				if measured[one.ID] {
					rt.Fatalf("trial %d is measured twice", one.ID)
				}
				measured[one.ID] = true
				c.do(Complete{Trial: one.ID, Final: waited(cost(one.Config))})
			}
		}
		seen := map[string]int64{}
		for i, one := range c.s.Trials {
			if one.ID != int64(i+1) || one.State.Open() || one.State == Succeeded != measured[one.ID] {
				rt.Fatalf("trial %d: %+v", i+1, one)
			}
			if before, ok := seen[one.Config.Hash()]; ok && one.RetryOf == 0 {
				rt.Fatalf("trials %d and %d are the same", before, one.ID)
			}
			seen[one.Config.Hash()] = one.ID
		}
		if n := c.s.Used(); n > c.s.Spec.Budget || c.s.Stopped == "" && n < c.s.Spec.Budget-1 {
			rt.Fatalf("%d of %d trials, stopped %q", n, c.s.Spec.Budget, c.s.Stopped)
		}
	})
}

// For any events: a step leaves the state that it was given alone, ids and orders are without gaps, ended
// trials stay unchanged but for one late result, and an engine made again proposes the same.
func TestAnyEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClient(t, func(s *Spec) { s.Algorithm = "random" })
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			c.at = c.at.Add(time.Duration(rapid.IntRange(0, 30).Draw(rt, "seconds")) * time.Second)
			id := rapid.Int64Range(0, c.s.LastTrial+1).Draw(rt, "trial")
			value := waited(float64(rapid.IntRange(0, 3).Draw(rt, "value")))
			var e Event
			switch rapid.IntRange(0, 11).Draw(rt, "event") {
			case 0, 1, 2:
				suggest := Suggest{Client: fmt.Sprint(id % 3), Count: rapid.IntRange(1, 3).Draw(rt, "count")}
				if c.s.Lacks(suggest.Client, suggest.Count) > 0 {
					again, err := NewEngine(&c.s)
					if err != nil {
						rt.Fatal(err)
					}
					if suggest.Asked, err = c.engine.Ask(&c.s); err != nil {
						rt.Fatal(err)
					}
					same, _ := again.Ask(&c.s)
					if diff := cmp.Diff(configs(same.Proposals), configs(suggest.Proposals)); diff != "" {
						rt.Fatalf("an engine made again proposes others: %s", diff)
					}
				}
				e = suggest
			case 3:
				e = Create{Config: c.s.Space.Decode([]float64{float64(id%4) / 4, .5, 0})}
			case 4:
				e = Measure{id, Measurement{Step: id, Metrics: value.Metrics}}
			case 5, 6:
				e = Complete{Trial: id, Final: value}
			case 7:
				e = Complete{Trial: id, Failure: "no GPU"}
			case 8:
				e = Stop{id}
			case 9:
				e = Check{id}
			case 10:
				e = rapid.SampledFrom([]Event{Pause{}, Resume{}, Renew{id}}).Draw(rt, "verb")
			default:
				e = Tick{}
			}
			before := c.s
			text := fmt.Sprintf("%+v", flat(&before))
			if err := c.try(e); err != nil {
				if s, ok := e.(Suggest); ok && len(s.Proposals) > 0 {
					c.restart() // proposals are lost
				}
			}
			if got := fmt.Sprintf("%+v", flat(&before)); got != text {
				rt.Fatalf("%T changed the state it was given", e)
			}
			orders := map[int64]bool{}
			for i, one := range c.s.Trials {
				if one.ID != int64(i+1) || orders[one.Order] && one.Order != 0 || one.Order > c.s.Ended {
					rt.Fatalf("after %T trial %d: %+v", e, i+1, one)
				}
				orders[one.Order] = true
				if i < len(before.Trials) && !before.Trials[i].State.Open() && before.Trials[i].State != Stale &&
					one.State != before.Trials[i].State {
					rt.Fatalf("trial %d was %s and is %s", one.ID, before.Trials[i].State, one.State)
				}
			}
			if c.s.Used() > c.s.Spec.Budget {
				rt.Fatalf("%d of %d used", c.s.Used(), c.s.Spec.Budget)
			}
		}
	})
}

func configs(all []search.Proposal) (out []string) {
	for _, p := range all {
		out = append(out, p.Config.Canonical())
	}
	return out
}

func flat(s *State) (out []Trial) {
	for _, t := range s.Trials {
		out = append(out, *t)
	}
	return out
}

// The causal model rejects bad configurations, which are kept as skipped.
func TestCausal(t *testing.T) {
	c := newClient(t, func(s *Spec) { s.Budget, s.Causal, s.Algorithm = 60, CausalOn, "random" })
	for c.s.Phase == Active {
		held, err := c.ask("a", 1)
		if err != nil || len(held) == 0 {
			break
		}
		c.at = c.at.Add(time.Second)
		c.do(Complete{Trial: held[0].ID, Final: waited(cost(held[0].Config))})
	}
	n := c.s.Count()
	if n[Succeeded] != 60 || n[Skipped] < 10 {
		t.Errorf("%v: little is skipped", n)
	}
	for _, one := range c.s.Trials {
		if one.State == Skipped && one.Reason == "" {
			t.Errorf("trial %d is skipped without a reason", one.ID)
		}
	}
}

// Trials that were tried elsewhere are added together, or none is.
func TestCreateAll(t *testing.T) {
	c := newClient(t, nil)
	at := func(x float64) space.Config { return c.s.Space.Default().With("x", space.Num(x)) }
	measured := func(v float64) *Measurement { return &Measurement{Metrics: map[string]float64{"wait": v}} }
	c.do(CreateAll{[]Create{{Config: at(.1), Final: measured(5)}, {Config: at(.2), Failure: "it crashed"},
		{Config: at(.3), Infeasible: "too small"}, {Config: at(.4)}, {Config: at(.1), Final: measured(6)}}})
	var got []TrialState
	for _, one := range c.s.Trials {
		got = append(got, one.State)
	}
	want := []TrialState{Succeeded, Failed, Infeasible, Requested, Succeeded}
	if !slices.Equal(got, want) || c.s.Trials[1].Reason != "it crashed" || c.s.Ended != 4 {
		t.Errorf("%v, want %v", got, want)
	}
	err := c.try(CreateAll{[]Create{{Config: at(.5)}, {Config: at(.4)}}}) // the second waits to be measured
	if !errors.Is(err, ErrExists) || len(c.s.Trials) != 5 || c.s.LastTrial != 5 {
		t.Errorf("%v; there are %d trials", err, len(c.s.Trials))
	}
}

// TestGoneAlgorithm: a stored study goes on whose algorithm is no sampler; one that never was is an error.
func TestGoneAlgorithm(t *testing.T) {
	for _, algorithm := range []string{"forest", "bluefin+"} {
		c := newClient(t, nil)
		if _, err := c.ask("a", 2); err != nil {
			t.Fatal(err)
		}
		c.s.Spec.Algorithm, c.s.Sampler = algorithm, json.RawMessage(`{"trees":3}`)
		c.restart()
		if got, err := c.ask("b", 30); err != nil || len(got) == 0 {
			t.Errorf("%s: %d trials, %v", algorithm, len(got), err)
		}
	}
	s := start(t, func(s *Spec) { s.Algorithm = "oracle" })
	if _, err := NewEngine(&s); err == nil {
		t.Error("an unknown algorithm has an engine")
	}
}
