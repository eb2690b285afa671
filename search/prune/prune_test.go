package prune

import (
	"context"
	"math"
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

func wideCost(load float64, c space.Config) float64 {
	d := c.Get("x").Float() - 2
	return load * (100 + 10*d*d + map[string]float64{"good": 0, "bad": 100, "awful": 400}[c.Get("mode").Text()])
}

func wideEvaluator(load float64, count *int) search.Evaluator {
	return func(_ context.Context, c space.Config) (search.Measurement, error) {
		*count++
		return search.Measurement{Values: []float64{wideCost(load, c)}}, nil
	}
}

func pruned(t *testing.T, p *Pruner, load float64, budget int, seed uint64, o func(*search.Options)) (search.Result,
	*Study) {
	t.Helper()
	s := wide(t)
	w, err := p.Begin(context.Background(), s.Default(), []float64{load})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	opts := search.Options{Space: s, Evaluate: wideEvaluator(load, &count), Method: "random",
		Budget: budget, Workers: 1, Seed: seed, Reject: w.Reject, Scope: w.Scope}
	if o != nil {
		o(&opts)
	}
	r, err := search.Tune(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(r.Trials); err != nil {
		t.Fatal(err)
	}
	return r, w
}

// TestPrunerSavesMeasurements: with a trained pruner a study omits most of the bad
// measurements, and audits confirm the rejections.
func TestPrunerSavesMeasurements(t *testing.T) {
	if testing.Short() {
		t.Skip("tunes many times")
	}
	p := New(wide(t), []string{"load"}, nil, Options{Seed: 1})
	hopeless := func(trials []search.Trial) (n int) {
		for i := range trials {
			if wideCost(1, trials[i].Config) > 200 {
				n++
			}
		}
		return n
	}
	rejected, audited, right, with, without := 0, 0, 0, 0, 0
	for study := range 6 {
		load := 1 + .3*float64(study)
		r, w := pruned(t, p, load, 40, uint64(study), nil)
		count := 0
		plain, err := search.Tune(context.Background(),
			search.Options{Space: wide(t), Evaluate: wideEvaluator(load, &count), Method: "random",
				Budget: 40, Workers: 1, Seed: uint64(study)})
		if err != nil {
			t.Fatal(err)
		}
		with, without = with+hopeless(r.Trials), without+hopeless(plain.Trials)
		rejected += w.Rejected
		for _, a := range w.Audits {
			if a.Measured {
				audited++
				if a.Worse {
					right++
				}
			}
		}
		if best, other := wideCost(1, r.Trials[r.Best].Config),
			wideCost(1, plain.Trials[plain.Best].Config); study > 1 && best > 1.1*other {
			t.Errorf("study %d: the best costs %.0f, without pruning %.0f", study, best, other)
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
	if p.Rows() < 200 {
		t.Errorf("%d rows learnt", p.Rows())
	}
}

// TestPrunerNarrows: parameters without an effect are fixed after a while.
func TestPrunerNarrows(t *testing.T) {
	testshared.Full(t)
	p := New(wide(t), []string{"load"}, nil, Options{Seed: 1, Delta: .05})
	pruned(t, p, 1, 60, 1, nil)
	r, w := pruned(t, p, 1.5, 40, 2, nil)
	if w.Narrowed < 10 {
		t.Fatalf("%d suggestions narrowed", w.Narrowed)
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

// TestPrunerIsDeterministic: equal studies have equal trials.
func TestPrunerIsDeterministic(t *testing.T) {
	run := func(workers int) []string {
		p := New(wide(t), []string{"load"}, nil, Options{Seed: 4})
		var out []string
		for study := range 3 {
			r, _ := pruned(t, p, 1+float64(study), 30, uint64(study), func(o *search.Options) {
				o.Method, o.Workers = "sobol", workers
				o.Evaluate = func(_ context.Context, c space.Config) (search.Measurement, error) {
					return search.Measurement{Values: []float64{wideCost(1+float64(study), c)}}, nil
				}
			})
			for _, trial := range r.Trials {
				out = append(out, trial.Config.String())
			}
		}
		return out
	}
	if a, b := run(1), run(4); !slices.Equal(a, b) {
		t.Errorf("\n%v\n%v", a, b)
	}
}

func TestPrunerRefuses(t *testing.T) {
	p := New(wide(t), []string{"load"}, nil, Options{})
	for _, c := range [][]float64{nil, {1, 2}, {math.NaN()}} {
		if _, err := p.Begin(context.Background(), wide(t).Default(), c); err == nil {
			t.Errorf("context %v", c)
		}
	}
}

// TestPrunerLearnsMetrics: the structural head uses the metrics.
func TestPrunerLearnsMetrics(t *testing.T) {
	p := New(wide(t), []string{"load"}, []string{"half"}, Options{Seed: 1})
	r, _ := pruned(t, p, 2, 40, 3, func(o *search.Options) {
		o.Evaluate = func(_ context.Context, c space.Config) (search.Measurement, error) {
			return search.Measurement{Values: []float64{wideCost(2, c)},
				Metrics: map[string]float64{"half": wideCost(2, c) / 2}}, nil
		}
	})
	if p.model == nil || len(r.Rejected) == 0 {
		t.Fatal("nothing learnt")
	}
	if e := p.model.Errors()[0]; e.Blend > .5*e.Mean {
		t.Errorf("%+v", e)
	}
}

// narrowed runs a study with a pruner trained by an earlier one, and returns its scopes.
func narrowed(t *testing.T, o Options, cost func(step int, c space.Config) float64) []Scoped {
	t.Helper()
	o.Seed, o.Delta = 1, .05
	p := New(wide(t), []string{"load"}, nil, o)
	pruned(t, p, 1, 60, 1, nil)
	step := 0
	_, w := pruned(t, p, 1, 60, 2, func(o *search.Options) {
		if cost != nil {
			o.Evaluate = func(_ context.Context, c space.Config) (search.Measurement, error) {
				step++
				return search.Measurement{Values: []float64{cost(step, c)}}, nil
			}
		}
	})
	if len(w.Scopes) == 0 {
		t.Fatal("nothing was narrowed")
	}
	return w.Scopes
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
	scopes := narrowed(t, Options{TTL: 3, Release: 1e-9, Patience: 1000}, nil)
	for _, s := range scopes {
		if s.Expires != s.Set+3 || s.Why == Expired && s.Ended != s.Expires || s.Why != "" && s.Why != Expired {
			t.Errorf("%+v", s)
		}
		if s.Op == "" || s.Reason == "" || s.ModelRows < 60 || s.ACEHigh < s.ACE || s.ACE < s.ACELow {
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
	always := endings(narrowed(t, Options{TTL: 5, Release: 1, Patience: 1000}, nil))
	if always[Released] == 0 || always[Expired] > 0 {
		t.Errorf("released each round, but %v", always)
	}
	some := endings(narrowed(t, Options{TTL: 10, Release: .2, Patience: 1000}, nil))
	if some[Released] == 0 {
		t.Errorf("released one in five, but %v", some)
	}
}

// TestScopeIsReleasedWhereStuck: all narrowings end when no better trial is found.
func TestScopeIsReleasedWhereStuck(t *testing.T) {
	testshared.Full(t)
	got := narrowed(t, Options{TTL: 10, Release: 1e-9, Patience: 3}, nil)
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
	got := narrowed(t, Options{TTL: 1000, Release: 1e-9, Patience: 1000}, func(step int, c space.Config) float64 {
		if step < 16 {
			return wideCost(1, c)
		}
		return 30*wideCost(1, c) + 1e4*c.Get("idle1").Float() // a parameter without an effect before dominates
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
	p := New(s, []string{"load"}, nil, Options{Seed: 1, Delta: .05, Patience: 1000, Release: 1e-9})
	changed := 0
	for study := range 2 {
		w, err := p.Begin(context.Background(), s.Default(), []float64{1})
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		r, err := search.Tune(context.Background(),
			search.Options{Space: s, Evaluate: wideEvaluator(1, &count), Method: "random",
				Budget: 40, Workers: 1, Seed: uint64(study), Reject: w.Reject, Scope: w.Scope})
		if err != nil {
			t.Fatal(err)
		}
		for _, trial := range r.Trials {
			if err := s.Check(trial.Config); err != nil {
				t.Fatal(err)
			}
		}
		changed += w.Narrowed
		if err := w.Finish(r.Trials); err != nil {
			t.Fatal(err)
		}
		// The scope would keep the switch as it is in the best trial; a mode that
		// forbids it is asked for.
		w.until = 1 << 30
		values := space.Values{"x": space.Num(2), "mode": space.Text("good"), "idle1": space.Num(.5),
			"idle2": space.Int(3), "idle3": space.Bool(true)}
		ask, _ := s.Project(values)
		w.incumbent = s.Default() // idle3 is off there
		w.Scopes = append(w.Scopes,
			Scoped{Narrowing: model.Narrowing{Parameter: "idle3", Op: "fix", Reason: model.Inert}})
		w.scope = append(w.scope[:0], len(w.Scopes)-1)
		got, why := w.Scope(r.Trials, ask)
		if err := s.Check(got); err != nil || len(why) == 0 {
			t.Errorf("%s: %v, %q", got, err, why)
		}
	}
	if changed == 0 {
		t.Error("nothing was narrowed")
	}
}
