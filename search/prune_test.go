package search

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/space"
)

// wide is a space of which two parameters matter, and half of one's range is
// hopeless.
func wide(t testing.TB) *space.Space {
	t.Helper()
	s, err := space.New([]space.Param{
		{ID: "x", Kind: space.KindFloat, Min: 0, Max: 10, Default: space.Num(5)},
		{ID: "mode", Kind: space.KindCategorical, Categories: []string{"good", "bad", "awful"}, Default: space.Text("bad")},
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

func wideEvaluator(load float64, count *int) Evaluator {
	return func(_ context.Context, c space.Config) (Measurement, error) {
		*count++
		return Measurement{Values: []float64{wideCost(load, c)}}, nil
	}
}

func pruned(t *testing.T, p *Pruner, load float64, budget int, seed uint64, o func(*Options)) (Result, *Pruning) {
	t.Helper()
	s := wide(t)
	w, err := p.Study(context.Background(), s.Default(), []float64{load})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	opts := Options{Space: s, Evaluate: wideEvaluator(load, &count), Method: "random", Budget: budget, Workers: 1, Seed: seed, Reject: w.Reject, Scope: w.Scope}
	if o != nil {
		o(&opts)
	}
	r, err := Tune(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(r.Trials); err != nil {
		t.Fatal(err)
	}
	return r, w
}

// TestPrunerSavesMeasurements: what it has learnt lets a study do without most
// hopeless measurements, and those it audits were hopeless.
func TestPrunerSavesMeasurements(t *testing.T) {
	p := NewPruner(wide(t), []string{"load"}, nil, PrunerOptions{Seed: 1})
	hopeless := func(trials []Trial) (n int) {
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
		plain, err := Tune(context.Background(), Options{Space: wide(t), Evaluate: wideEvaluator(load, &count), Method: "random", Budget: 40, Workers: 1, Seed: uint64(study)})
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
		if best, other := wideCost(1, r.Trials[r.Best].Config), wideCost(1, plain.Trials[plain.Best].Config); study > 1 && best > 1.1*other {
			t.Errorf("study %d: the best costs %.0f, without pruning %.0f", study, best, other)
		}
	}
	t.Logf("%d rejected, hopeless measurements %d instead of %d, %d of %d audits right", rejected, with, without, right, audited)
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

// TestPrunerNarrows: parameters that do nothing are left alone after a while.
func TestPrunerNarrows(t *testing.T) {
	p := NewPruner(wide(t), []string{"load"}, nil, PrunerOptions{Seed: 1, Delta: .05})
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
			if (strings.HasPrefix(why, "x ") || strings.HasPrefix(why, "mode ")) && !strings.Contains(why, model.Narrow) {
				t.Errorf("step %d: %s", trial.Step, why)
			}
		}
	}
}

// TestPrunerIsDeterministic: the same studies, the same trials.
func TestPrunerIsDeterministic(t *testing.T) {
	run := func(workers int) []string {
		p := NewPruner(wide(t), []string{"load"}, nil, PrunerOptions{Seed: 4})
		var out []string
		for study := range 3 {
			r, _ := pruned(t, p, 1+float64(study), 30, uint64(study), func(o *Options) {
				o.Method, o.Workers = "sobol", workers
				o.Evaluate = func(_ context.Context, c space.Config) (Measurement, error) {
					return Measurement{Values: []float64{wideCost(1+float64(study), c)}}, nil
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
	p := NewPruner(wide(t), []string{"load"}, nil, PrunerOptions{})
	for _, c := range [][]float64{nil, {1, 2}, {math.NaN()}} {
		if _, err := p.Study(context.Background(), wide(t).Default(), c); err == nil {
			t.Errorf("context %v", c)
		}
	}
}

// TestPrunerLearnsMetrics goes through metrics where there are some.
func TestPrunerLearnsMetrics(t *testing.T) {
	p := NewPruner(wide(t), []string{"load"}, []string{"half"}, PrunerOptions{Seed: 1})
	r, _ := pruned(t, p, 2, 40, 3, func(o *Options) {
		o.Evaluate = func(_ context.Context, c space.Config) (Measurement, error) {
			return Measurement{Values: []float64{wideCost(2, c)}, Metrics: map[string]float64{"half": wideCost(2, c) / 2}}, nil
		}
	})
	if p.Model() == nil || len(r.Rejected) == 0 {
		t.Fatal("nothing learnt")
	}
	if e := p.Model().Errors()[0]; e.Blend > .5*e.Mean {
		t.Errorf("%+v", e)
	}
}
