package search

import (
	"context"
	"fmt"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/space"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawSpace draws a space of every kind of parameter, with activations, an
// ordering and an array; a discrete one has no parameter that takes any number.
func drawSpace(t *rapid.T, discrete bool) *space.Space {
	var params []space.Param
	var rules []space.Rule
	n := rapid.IntRange(1, 5).Draw(t, "params")
	for i := range n {
		id := fmt.Sprintf("p%d", i)
		kinds := 5
		if discrete {
			kinds = 3
		}
		var p space.Param
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			p = space.Param{ID: id, Kind: space.KindBool, Default: space.Bool(false)}
		case 1:
			p = space.Param{ID: id, Kind: space.KindCategorical, Categories: []string{"x", "y",
				"z"}[:rapid.IntRange(1, 3).Draw(t, "categories")], Default: space.Text("x")}
		case 2:
			p = space.Param{ID: id, Kind: space.KindInt, Min: 1, Max: float64(rapid.IntRange(1, 6).Draw(t, "max")),
				Default: space.Int(1)}
		case 3:
			p = space.Param{ID: id, Kind: space.KindFloat, Min: 1, Max: 100, Log: rapid.Bool().Draw(t, "log"),
				Default: space.Num(10)}
			if rapid.Bool().Draw(t, "special") {
				p.Special = []space.Special{{Value: 0, Name: "off"}}
			}
		case 4:
			p = space.Param{ID: id, Kind: space.KindFloat, Min: 0, Max: 1, Step: 0.25, Default: space.Num(0.5)}
		}
		for j := range params { // exists for one value of an earlier parameter only
			if rapid.IntRange(0, 3).Draw(t, "depends") > 0 || p.Kind == space.KindFloat && discrete {
				continue
			}
			on := &params[j]
			var value space.Value
			switch on.Kind {
			case space.KindBool:
				value = space.Bool(true)
			case space.KindCategorical:
				value = space.Text(on.Categories[len(on.Categories)-1])
			default:
				continue
			}
			rules = append(rules, space.Rule{ID: "on" + id,
				Activation: &space.Activation{Param: id, When: on.ID, Op: space.Equal, Value: value}})
			break
		}
		params = append(params, p)
	}
	if rapid.Bool().Draw(t, "array") {
		params = append(params, space.Param{ID: "n", Kind: space.KindInt, Min: 1, Max: 3, Default: space.Int(1)})
		a := space.Param{ID: "a", Kind: space.KindFloat, Min: 1, Max: 50, Array: &space.Array{Length: "n", Max: 3},
			Default: space.Nums(5)}
		if discrete {
			a.Kind, a.Max = space.KindInt, 5
		}
		params = append(params, a)
		rules = append(rules, space.Rule{ID: "order", Ordering: &space.Ordering{Params: []string{"a"}}})
	}
	s, err := space.New(params, rules)
	if err != nil {
		t.Fatalf("%v: %+v", err, params)
	}
	return s
}

// costOf is some function of a configuration.
func costOf(s *space.Space) Evaluator {
	return func(_ context.Context, c space.Config) (Measurement, error) {
		sum := 1.0
		for i, x := range s.Encode(c) {
			sum += (x - 0.3) * (x - 0.3) * float64(1+i)
		}
		return Measurement{Values: []float64{sum}}, nil
	}
}

// A discrete space is measured whole before a study ends, no configuration
// twice, and the study says why it ended.
func TestDiscreteSpacesAreExhausted(t *testing.T) {
	testshared.Full(t)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t, true)
		all, complete := s.Enumerate(300)
		if !complete {
			t.Skip("too many to try")
		}
		method := rapid.SampledFrom(samplerNames()).Draw(t, "sampler")
		asked := 0
		evaluate := costOf(s)
		r, err := Tune(context.Background(), Options{Space: s, Method: method,
			Budget: len(all) + rapid.IntRange(1, 100).Draw(t, "more"), Seed: rapid.Uint64().Draw(t, "seed"), Workers: 1,
			Evaluate: func(ctx context.Context, c space.Config) (Measurement, error) {
				asked++
				return evaluate(ctx, c)
			}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Stopped != StoppedExhausted || asked != len(r.Trials) {
			t.Fatalf("%s: stopped by %s after %d trials and %d evaluations of %d configurations",
				method, r.Stopped, len(r.Trials), asked, len(all))
		}
		if len(r.Trials) != len(all) && method != "bluefin" /* the original repeats itself and gives up */ {
			t.Fatalf("%s: %d trials of %d configurations", method, len(r.Trials), len(all))
		}
	})
}

// A sampler recreated at any step proposes the same: it is a function of the space, the
// history, the seed and the step.
func TestSamplersReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t, rapid.Bool().Draw(t, "discrete"))
		e := rapid.SampledFrom(Samplers).Draw(t, "sampler")
		setup := Setup{Space: s, Start: s.Default(), Seed: rapid.Uint64().Draw(t, "seed"),
			Budget: rapid.SampledFrom([]int{20, 60, 150}).Draw(t, "budget")}
		sampler := func() Sampler {
			a, err := e.New(setup)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		evaluate := costOf(s)
		var history []Trial
		known := map[string]bool{}
		note := func(step int, g Suggestion) Trial {
			if err := s.Check(g.Config); err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
			m, _ := evaluate(context.Background(), g.Config)
			trial := Trial{Step: len(history), Round: step, Config: g.Config, Measurement: m, Reward: 1 / m.Mean(),
				Provenance: Provenance{Origin: g.Origin}}
			if !known[g.Config.Hash()] {
				known[g.Config.Hash()] = true
				history = append(history, trial)
			}
			return trial
		}
		note(0, Suggestion{Config: s.Default(), Origin: "default"})
		through := sampler()
		anew := rapid.IntRange(1, 10).Draw(t, "restart")
		for step := range 2 * anew {
			q := Request{History: history, Step: step, N: setup.Budget - len(history)}
			if q.N <= 0 {
				break
			}
			got := through.Suggest(q)
			if step%anew == 0 {
				if learner, ok := through.(Learner); ok {
					setup.State = learner.State()
				}
				opts := cmp.Comparer(func(a, b space.Config) bool { return a.Equal(b) })
				if diff := cmp.Diff(got, sampler().Suggest(q), opts); diff != "" {
					t.Fatalf("%s, step %d after %d trials (-before +after)\n%s", e.Name, step, len(history), diff)
				}
			}
			var trials []Trial
			for _, g := range got {
				trials = append(trials, note(step, g))
			}
			if learner, ok := through.(Learner); ok {
				learner.Observe(trials)
			}
			if len(got) == 0 {
				break
			}
		}
	})
}

// If the scope leaves only known configurations, proposals are measured unchanged, and
// no sampler loops.
func TestScopeThatLeavesNothingNew(t *testing.T) {
	o := find("quad2")
	s := o.Space()
	for _, method := range samplerNames() {
		if method == "bluefin" {
			continue
		}
		calls := 0
		r, err := Tune(context.Background(), Options{Space: s, Method: method, Budget: 30, Workers: 1,
			Evaluate: func(_ context.Context, c space.Config) (Measurement, error) {
				return Measurement{Values: []float64{1 + o.Measure(c, 1)}}, nil
			},
			Scope: func(_ []Trial, c space.Config) (space.Config, []string) {
				calls++
				return s.Default(), []string{"nothing matters"}
			}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Trials) != 30 || calls > 100 || r.Stopped != StoppedBudget {
			t.Errorf("%s: %d trials of 30 after %d proposals, stopped by %s", method, len(r.Trials), calls, r.Stopped)
		}
		for _, trial := range r.Trials {
			if len(trial.Narrowed) > 0 || trial.Projected != nil {
				t.Errorf("%s: %v is said to be narrowed", method, trial.Config)
			}
		}
	}
}
