package prune

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// wide is a space in which two parameters have an effect, and half of the range of one
// is bad.
func wide(t testing.TB) *space.Space {
	t.Helper()
	s, err := space.New([]space.Param{
		{ID: "x", Kind: space.KindFloat, Min: 0, Max: 10, Default: space.Num(5)},
		{ID: "mode", Kind: space.KindCategorical, Categories: []string{"good", "bad", "awful"},
			Default: space.Text("bad")},
		{ID: "idle1", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.5)},
		{ID: "idle2", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(3)},
		{ID: "idle3", Kind: space.KindBool, Default: space.Bool(false)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wideCost(c space.Config) float64 {
	d := c.Get("x").Float() - 2
	return 100 + 10*d*d + map[string]float64{"good": 0, "bad": 100, "awful": 400}[c.Get("mode").Text()]
}

func wideEvaluator(_ context.Context, c space.Config) (search.Measurement, error) {
	return search.Measurement{Values: []float64{wideCost(c)}}, nil
}

// pruned runs a search with a pruner.
func pruned(t *testing.T, p *Pruner, budget int, o func(*search.Options)) search.Result {
	t.Helper()
	opts := search.Options{Space: wide(t), Evaluate: wideEvaluator, Method: "random",
		Budget: budget, Workers: 1, Seed: 1, Reject: p.Reject, Scope: p.Scope}
	if o != nil {
		o(&opts)
	}
	r, err := search.Tune(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Finish(r.Trials); err != nil {
		t.Fatal(err)
	}
	return r
}

func newPruner(t *testing.T, seed uint64) *Pruner {
	t.Helper()
	s := wide(t)
	return New(context.Background(), s, s.Default(), seed)
}

// TestPrunerSavesMeasurements: a search omits most of the bad measurements, and audits confirm the
// rejections.
func TestPrunerSavesMeasurements(t *testing.T) {
	if testing.Short() {
		t.Skip("tunes many times")
	}
	hopeless := func(trials []search.Trial) (n int) {
		for i := range trials {
			if wideCost(trials[i].Config) > 200 {
				n++
			}
		}
		return n
	}
	rejected, audited, right, with, without := 0, 0, 0, 0, 0
	for seed := range uint64(3) {
		p := newPruner(t, seed)
		r := pruned(t, p, 120, func(o *search.Options) { o.Seed = seed })
		plain, err := search.Tune(context.Background(), search.Options{Space: wide(t), Evaluate: wideEvaluator,
			Method: "random", Budget: 120, Workers: 1, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		with, without = with+hopeless(r.Trials), without+hopeless(plain.Trials)
		rejected += p.Rejected
		for _, a := range p.Audits {
			if a.Measured {
				audited++
				if a.Worse {
					right++
				}
			}
		}
		if best, other := wideCost(r.Trials[r.Best].Config),
			wideCost(plain.Trials[plain.Best].Config); best > 1.1*other {
			t.Errorf("seed %d: the best costs %.0f, without pruning %.0f", seed, best, other)
		}
		if p.rows() < 100 {
			t.Errorf("%d rows learnt", p.rows())
		}
	}
	t.Logf("%d rejected, hopeless measurements %d instead of %d, %d of %d audits right",
		rejected, with, without, right, audited)
	if rejected < 100 || with > without*6/10 {
		t.Errorf("%d rejected; %d hopeless measurements instead of %d", rejected, with, without)
	}
	if audited < 5 || float64(right) < .8*float64(audited) {
		t.Errorf("%d of %d audited rejections were right", right, audited)
	}
}

// TestPrunerNarrows: parameters without an effect are fixed after a while.
func TestPrunerNarrows(t *testing.T) {
	testshared.Full(t)
	p := newPruner(t, 1)
	p.life.delta = .05
	r := pruned(t, p, 100, nil)
	if p.Narrowed < 10 {
		t.Fatalf("%d suggestions narrowed", p.Narrowed)
	}
	for _, trial := range r.Trials {
		if (trial.Projected == nil) != (len(trial.Narrowed) == 0) {
			t.Errorf("step %d: projected %v, narrowed %v", trial.Step, trial.Projected, trial.Narrowed)
		}
		for _, why := range trial.Narrowed {
			if (strings.HasPrefix(why, "x ") || strings.HasPrefix(why, "mode ")) &&
				!strings.Contains(why, model.Narrow) {
				t.Errorf("step %d: %s", trial.Step, why)
			}
		}
	}
}

// TestPrunerIsDeterministic: equal searches have equal trials.
func TestPrunerIsDeterministic(t *testing.T) {
	run := func(workers int) []string {
		var out []string
		r := pruned(t, newPruner(t, 4), 90, func(o *search.Options) { o.Method, o.Workers = "sobol", workers })
		for _, trial := range r.Trials {
			out = append(out, trial.Config.String())
		}
		return out
	}
	if a, b := run(1), run(4); !slices.Equal(a, b) {
		t.Errorf("\n%v\n%v", a, b)
	}
}

// narrowed runs a search, and returns its scopes.
func narrowed(t *testing.T, l life, cost func(step int, c space.Config) float64) []Scoped {
	t.Helper()
	l.delta = .05
	p := newPruner(t, 1)
	p.life = l
	step := 0
	pruned(t, p, 120, func(o *search.Options) {
		if cost != nil {
			o.Evaluate = func(_ context.Context, c space.Config) (search.Measurement, error) {
				step++
				return search.Measurement{Values: []float64{cost(step, c)}}, nil
			}
		}
	})
	if len(p.Scopes) == 0 {
		t.Fatal("nothing was narrowed")
	}
	return p.Scopes
}

func endings(scopes []Scoped) map[string]int {
	out := map[string]int{}
	for _, s := range scopes {
		out[s.Why]++
	}
	return out
}

// TestScopeExpires: a narrowing ends after its rounds, and records its evidence.
func TestScopeExpires(t *testing.T) {
	testshared.Full(t)
	scopes := narrowed(t, life{ttl: 3, release: 1e-9, patience: 1000}, nil)
	for _, s := range scopes {
		if s.Expires != s.Set+3 || s.Why == Expired && s.Ended != s.Expires || s.Why != "" && s.Why != Expired {
			t.Errorf("%+v", s)
		}
		if s.Op == "" || s.Reason == "" || s.ACEHigh < s.ACE || s.ACE < s.ACELow {
			t.Errorf("without evidence: %+v", s)
		}
	}
	if endings(scopes)[Expired] == 0 {
		t.Errorf("none expired: %+v", scopes)
	}
}

// TestScopeIsReleased: at random before its time.
func TestScopeIsReleased(t *testing.T) {
	testshared.Full(t)
	always := endings(narrowed(t, life{ttl: 5, release: 1, patience: 1000}, nil))
	if always[Released] == 0 || always[Expired] > 0 {
		t.Errorf("released each round, but %v", always)
	}
	some := endings(narrowed(t, life{ttl: 10, release: .2, patience: 1000}, nil))
	if some[Released] == 0 {
		t.Errorf("released one in five, but %v", some)
	}
}

// TestScopeIsReleasedWhereStuck: all narrowings end when no better trial is found.
func TestScopeIsReleasedWhereStuck(t *testing.T) {
	testshared.Full(t)
	got := narrowed(t, life{ttl: 10, release: 1e-9, patience: 3}, nil)
	if endings(got)[Stale] == 0 {
		t.Errorf("%+v", got)
	}
	for _, s := range got {
		if s.Why == Stale && s.Ended >= s.Expires {
			t.Errorf("%+v", s)
		}
	}
}

// TestScopeEndsOnDrift: narrowings are dropped when the effects of parameters change.
func TestScopeEndsOnDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("tunes many times")
	}
	got := narrowed(t, life{ttl: 1000, release: 1e-9, patience: 1000}, func(step int, c space.Config) float64 {
		if step < 70 {
			return wideCost(c)
		}
		return 30*wideCost(c) + 1e4*c.Get("idle1").Float() // a parameter without an effect before dominates
	})
	if endings(got)[Drifted] == 0 {
		t.Errorf("%+v", got)
	}
}

// TestScopeObeysRules: if a value that the model would fix breaks a rule of the space,
// the configuration is projected onto the rule.
func TestScopeObeysRules(t *testing.T) {
	testshared.Full(t)
	free := wide(t)
	s, err := space.New(free.Params(), []space.Rule{{ID: "safety", Forbidden: &space.Forbidden{All: []space.Condition{
		{Param: "mode", Op: "==", Value: space.Text("good")}, {Param: "idle3", Op: "==", Value: space.Bool(false)}}}}})
	if err != nil {
		t.Fatal(err)
	}
	p := New(context.Background(), s, s.Default(), 1)
	p.life = life{delta: .05, ttl: 5, release: 1e-9, patience: 1000}
	r := pruned(t, p, 100, func(o *search.Options) { o.Space = s })
	for _, trial := range r.Trials {
		if err := s.Check(trial.Config); err != nil {
			t.Fatal(err)
		}
	}
	if p.Narrowed == 0 {
		t.Error("nothing was narrowed")
	}
	// The scope would keep the switch as it is in the best trial; a mode that
	// forbids it is asked for.
	p.until = 1 << 30
	values := space.Values{"x": space.Num(2), "mode": space.Text("good"), "idle1": space.Num(.5),
		"idle2": space.Int(3), "idle3": space.Bool(true)}
	ask, _ := s.Project(values)
	p.incumbent = s.Default() // idle3 is off there
	p.Scopes = append(p.Scopes, Scoped{Narrowing: model.Narrowing{Parameter: "idle3", Op: "fix", Reason: model.Inert}})
	p.scope = append(p.scope[:0], len(p.Scopes)-1)
	got, why := p.Scope(r.Trials, ask)
	if err := s.Check(got); err != nil || len(why) == 0 {
		t.Errorf("%s: %v, %q", got, err, why)
	}
}
