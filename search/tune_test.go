package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/space"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func samplerNames() (out []string) {
	for _, e := range Samplers {
		out = append(out, e.Name)
	}
	return out
}

func ladder(t testing.TB) *space.Space {
	t.Helper()
	s, err := space.New([]space.Param{
		{ID: "priority", Kind: space.KindCategorical, Categories: []string{"service", "time"},
			Default: space.Text("service")},
		{ID: "queues", Kind: space.KindInt, Min: 1, Max: 6, Default: space.Int(3)},
		{ID: "queue_thresholds", Kind: space.KindFloat, Min: 60, Max: 1e6, Log: true,
			Array: &space.Array{Length: "queues", Offset: -1, Max: 5}, Default: space.Nums(3250, 7200)},
		{ID: "starve_limit", Kind: space.KindDuration, Min: 60, Max: 86400, Log: true,
			Special: []space.Special{{Value: 0, Name: "off"}}, Default: space.Num(0)},
		{ID: "starve_ratio", Kind: space.KindFloat, Min: 1, Max: 20, Default: space.Num(8)},
		{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)},
	}, []space.Rule{
		{ID: "increase", Ordering: &space.Ordering{Params: []string{"queue_thresholds"}, MinRatio: 1.1}},
		{ID: "starving", Activation: &space.Activation{Param: "starve_ratio", When: "starve_limit",
			Op: space.Greater, Value: space.Num(0)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tiny has 6 configurations; fewer remain because b follows a.
func tiny(t testing.TB) *space.Space {
	t.Helper()
	s, err := space.New([]space.Param{
		{ID: "a", Kind: space.KindInt, Min: 1, Max: 3, Default: space.Int(2)},
		{ID: "b", Kind: space.KindBool, Default: space.Bool(false)},
	}, []space.Rule{{ID: "b_when", Activation: &space.Activation{Param: "b", When: "a",
		Op: space.Less, Value: space.Int(3)}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ladderCost is a smooth objective with a cliff and a failing corner.
func ladderCost(_ context.Context, c space.Config) (Measurement, error) {
	q := c.Get("queues").Float()
	if c.Get("pack").Bool() && q == 6 {
		return Measurement{}, errors.New("does not start")
	}
	j := 100 + sq(q-4)
	for k, x := range c.Get("queue_thresholds").Floats() {
		j += sq(math.Log(x) - 5 - 2*float64(k))
	}
	if starve := c.Get("starve_limit").Float(); starve > 0 && starve < 120 {
		return Measurement{Values: []float64{math.Inf(1), j},
			Metrics: map[string]float64{"bad": math.NaN(), "queues": q}, Exhausted: true}, nil
	}
	return Measurement{Values: []float64{j, 1.5 * j}, Floors: []float64{50, 75},
		Metrics: map[string]float64{"queues": q}}, nil
}

// slowly makes evaluations finish out of order.
func slowly(f Evaluator) Evaluator {
	var n atomic.Int64
	return func(ctx context.Context, c space.Config) (Measurement, error) {
		time.Sleep(time.Duration(n.Add(7)%5) * 50 * time.Microsecond)
		return f(ctx, c)
	}
}

func TestResultDoesNotDependOnWorkers(t *testing.T) {
	s := ladder(t)
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Space: s, Evaluate: ladderCost,
			Method:    rapid.SampledFrom(samplerNames()).Draw(t, "method"),
			Budget:    rapid.IntRange(1, 30).Draw(t, "budget"),
			Seed:      rapid.Uint64().Draw(t, "seed"),
			Incumbent: s.Decode(rapid.SliceOfN(rapid.Float64Range(0, 1), s.Dims(), s.Dims()).Draw(t, "incumbent")),
			Workers:   1,
		}
		if rapid.Bool().Draw(t, "rejecting") {
			o.Reject = func(history []Trial, c space.Config) string {
				if c.Get("queues").Int() == 1 || len(history) > 10 && c.Get("pack").Bool() {
					return "not promising"
				}
				return ""
			}
		}
		want, wantErr := Tune(context.Background(), o)
		o.Evaluate = slowly(ladderCost)
		o.Workers = rapid.IntRange(2, 9).Draw(t, "workers")
		var reported []Trial
		o.Progress = func(trial Trial) { reported = append(reported, trial) }
		got, err := Tune(context.Background(), o)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("error %v, with one worker %v", err, wantErr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d workers differ from one:\n%s", o.Workers, diff)
		}
		if diff := cmp.Diff(got.Trials, reported); diff != "" {
			t.Fatalf("progress differs from the result:\n%s", diff)
		}
		checkResult(t, o, got)
	})
}

// checkResult asserts the invariants of a result.
func checkResult(t *rapid.T, o Options, r Result) {
	if n := len(r.Trials); n > max(o.Budget, 2) {
		t.Fatalf("%d trials on a budget of %d", n, o.Budget)
	}
	if r.Default != 0 || r.Incumbent < 0 || !r.Trials[r.Incumbent].Config.Equal(o.Incumbent) {
		t.Fatalf("default at %d, incumbent at %d", r.Default, r.Incumbent)
	}
	seen := map[string]bool{}
	for i, trial := range r.Trials {
		if trial.Step != i || seen[trial.Config.Hash()] {
			t.Fatalf("trial %d has step %d or repeats a configuration", i, trial.Step)
		}
		seen[trial.Config.Hash()] = true
		if err := o.Space.Check(trial.Config); err != nil {
			t.Fatal(err)
		}
		if !(trial.Reward >= 0 && trial.Reward <= MaxRatio) || (trial.Reward > 0) != trial.OK() {
			t.Fatalf("trial %d has reward %v", i, trial.Reward)
		}
		if trial.OK() && r.Best < 0 {
			t.Fatalf("trial %d is good, but none is best", i)
		}
	}
	if r.Best >= 0 && !r.Trials[r.Best].OK() {
		t.Fatalf("the best trial has no objective")
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatalf("the result cannot be stored: %v", err)
	}
	if in := r.Trials[r.Incumbent]; in.OK() && in.Reward != 1 {
		t.Fatalf("the incumbent's reward is %v", in.Reward)
	}
}

func TestPortfolioComesFirst(t *testing.T) {
	s := ladder(t)
	incumbent, err := s.Parse(s.Default(), []string{"queues=4"})
	if err != nil {
		t.Fatal(err)
	}
	five, _ := s.Parse(s.Default(), []string{"queues=5"})
	o := Options{
		Space: s, Evaluate: ladderCost, Incumbent: incumbent, Budget: 5, Seed: 1, Method: "random",
		Presets: []Preset{{Name: "same", Config: s.Default()}, {Name: "five", Config: five, Origin: "past"},
			{Name: "again", Config: five}},
	}
	origins := func(o Options) (out []string) {
		r, err := Tune(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, trial := range r.Trials {
			out = append(out, trial.Origin)
		}
		return out
	}
	if got, want := origins(o), []string{"default", "incumbent", "past:five", "random",
		"random"}; !slices.Equal(got, want) {
		t.Errorf("origins %v, want %v", got, want)
	}
	o.Budget = 1
	if got, want := origins(o), []string{"default", "incumbent"}; !slices.Equal(got, want) {
		t.Errorf("on a budget of one: origins %v, want %v", got, want)
	}
	o.Incumbent = space.Config{}
	if got, want := origins(o), []string{"default"}; !slices.Equal(got, want) {
		t.Errorf("incumbent is the default: origins %v, want %v", got, want)
	}
}

func TestSmallSpacesAreExhausted(t *testing.T) {
	s := tiny(t)
	for _, method := range samplerNames() {
		if method == "bluefin" {
			continue // a local method
		}
		var calls atomic.Int64
		r, err := Tune(context.Background(), Options{Space: s, Method: method, Budget: 40,
			Evaluate: func(_ context.Context, c space.Config) (Measurement, error) {
				calls.Add(1)
				return Measurement{Values: []float64{5 - c.Get("a").Float()}}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Trials) != 5 || calls.Load() != 5 || r.Stopped != StoppedExhausted {
			t.Errorf("%s: %d trials, %d calls, stopped by %s; want all 5 configurations once",
				method, len(r.Trials), calls.Load(), r.Stopped)
		}
		if got := r.Trials[r.Best].Config.Get("a").Int(); got != 3 {
			t.Errorf("%s: best has a=%d, want 3", method, got)
		}
	}
}

// Integers with up to five levels must all be tried within 15 evaluations.
func TestSmallIntegersAreVisited(t *testing.T) {
	var params []space.Param
	for levels := 2; levels <= 5; levels++ {
		params = append(params, space.Param{ID: fmt.Sprintf("n%d", levels), Kind: space.KindInt, Min: 1,
			Max: float64(levels), Default: space.Int(1)})
	}
	s, err := space.New(params, nil)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		r, err := Tune(context.Background(), Options{Space: s, Budget: 15, Seed: seed,
			Evaluate: func(_ context.Context, c space.Config) (Measurement, error) {
				return Measurement{Values: []float64{1 + c.Get("n5").Float()}}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range params {
			seen := map[int]bool{}
			for _, trial := range r.Trials {
				seen[trial.Config.Get(p.ID).Int()] = true
			}
			if len(seen) != int(p.Max) {
				t.Errorf("seed %d: %s took %d of %v values in 15 evaluations", seed, p.ID, len(seen), p.Max)
			}
		}
	}
}

func TestCancelReturnsTheBestSoFar(t *testing.T) {
	s := ladder(t)
	for _, method := range samplerNames() {
		ctx, cancel := context.WithCancel(context.Background())
		var calls atomic.Int64
		r, err := Tune(ctx, Options{Space: s, Method: method, Budget: 1000, Workers: 3,
			Evaluate: func(ctx context.Context, c space.Config) (Measurement, error) {
				if calls.Add(1) > 20 {
					cancel()
					<-ctx.Done()
					return Measurement{}, ctx.Err()
				}
				return ladderCost(ctx, c)
			}})
		if err != nil {
			t.Fatal(err)
		}
		// A worker that was about to begin when another was cut off loses its trial and
		// the ones behind it in the batch; no sampler's batch that holds evaluation 21
		// begins before trial 16.
		if n := len(r.Trials); r.Stopped != StoppedCancelled || n > 20 || n < 16 || r.Best < 0 {
			t.Errorf("%s: stopped by %s after %d trials, best %d; want cancelled after 16 to 20",
				method, r.Stopped, n, r.Best)
		}
		for i, trial := range r.Trials {
			if strings.Contains(trial.Err, "context") || trial.Step != i {
				t.Errorf("%s: trial %d: step %d, %s", method, i, trial.Step, trial.Err)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := Tune(ctx, Options{Space: s, Evaluate: ladderCost})
	if !errors.Is(err, context.Canceled) || r.Stopped != StoppedCancelled || r.Incumbent != -1 {
		t.Errorf("cancelled before it began: %v, %+v", err, r)
	}
}

func TestFailures(t *testing.T) {
	s := tiny(t)
	constant := func(m Measurement, err error) Evaluator {
		return func(context.Context, space.Config) (Measurement, error) { return m, err }
	}
	onlyThree := func(m Measurement) Evaluator { // everything but a=3 is bad
		return func(_ context.Context, c space.Config) (Measurement, error) {
			if c.Get("a").Int() == 3 {
				return Measurement{Values: []float64{7}}, nil
			}
			return m, nil
		}
	}
	tests := []struct {
		name     string
		evaluate Evaluator
		want     string // part of the error; "" if only some trials fail
	}{
		{"errors", constant(Measurement{}, errors.New("no licence")),
			"every evaluation failed; the first (default): no licence"},
		{"all exhausted", constant(Measurement{Exhausted: true}, nil), "every configuration exhausted"},
		{"no values", constant(Measurement{}, nil), "without values"},
		{"NaN", onlyThree(Measurement{Values: []float64{math.NaN()}}), ""},
		{"infinite", onlyThree(Measurement{Values: []float64{math.Inf(1)}}), ""},
		{"negative", onlyThree(Measurement{Values: []float64{-1}}), ""},
		{"NaN floor", onlyThree(Measurement{Values: []float64{1}, Floors: []float64{math.NaN()}}), ""},
		{"exhausted", onlyThree(Measurement{Values: []float64{1}, Exhausted: true}), ""},
	}
	for _, test := range tests {
		for _, method := range samplerNames() {
			r, err := Tune(context.Background(), Options{Space: s, Evaluate: test.evaluate, Method: method, Seed: 2})
			switch {
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%s: error %v, want %q", test.name, err, test.want)
			case test.want == "" && method != "bluefin" &&
				(err != nil || r.Trials[r.Best].Config.Get("a").Int() != 3 || r.Trials[r.Best].Reward != 1):
				t.Errorf("%s: %v, best %d of %+v", test.name, err, r.Best, r.Trials)
			}
		}
	}
	r, err := Tune(context.Background(),
		Options{Space: s, Evaluate: func(_ context.Context, c space.Config) (Measurement, error) {
			return Measurement{Values: make([]float64, c.Get("a").Int())}, nil // a different number of futures each
		}})
	if err != nil || !strings.Contains(r.Trials[len(r.Trials)-1].Err+r.Trials[len(r.Trials)-2].Err, "futures") {
		t.Errorf("futures that differ were accepted: %v", err)
	}
}

func TestCacheServesWithoutChangingTheResult(t *testing.T) {
	s := ladder(t)
	var calls atomic.Int64
	o := Options{Space: s, Budget: 20, Cache: NewCache(0), Context: "monday",
		Evaluate: func(ctx context.Context, c space.Config) (Measurement, error) {
			calls.Add(1)
			return ladderCost(ctx, c)
		}}
	first, err := Tune(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, trial := range first.Trials {
		if trial.Err != "" {
			failed++ // errors are not cached
		}
	}
	calls.Store(0)
	second, err := Tune(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if calls.Load() != int64(failed) || second.Evaluations != failed {
		t.Errorf("a warm cache left %d calls, want %d", calls.Load(), failed)
	}
	for i := range second.Trials {
		second.Trials[i].Cached = false
	}
	if diff := cmp.Diff(first.Trials, second.Trials); diff != "" {
		t.Error(diff)
	}
	o.Context = "tuesday"
	calls.Store(0)
	if _, err := Tune(context.Background(), o); err != nil || calls.Load() != 20 {
		t.Errorf("another context was served from the cache: %d calls, %v", calls.Load(), err)
	}
}

func TestCacheIsBoundedAndForgetsTheOldest(t *testing.T) {
	s := ladder(t)
	config := func(i int) space.Config { return s.Default().With("starve_ratio", space.Num(float64(i))) }
	c := NewCache(3)
	for i := range 3 {
		c.Put("", config(i), Measurement{Values: []float64{float64(i)}})
	}
	c.Get("", config(0))
	c.Put("", config(3), Measurement{})
	for i, want := range []bool{true, false, true, true} {
		if _, ok := c.Get("", config(i)); ok != want {
			t.Errorf("configuration %d remembered: %v, want %v", i, ok, want)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				c.Put("", config((i+g)%7), Measurement{})
				c.Get("", config(i%5))
			}
		})
	}
	wg.Wait()
	if c.recent.Len() != 3 {
		t.Errorf("%d remembered, want 3", c.recent.Len())
	}
}

func TestTuneRefusesWrongOptions(t *testing.T) {
	s := ladder(t)
	for want, o := range map[string]Options{
		"required":   {},
		"incumbent":  {Space: s, Evaluate: ladderCost, Incumbent: s.Default().With("queues", space.Int(9))},
		"no sampler": {Space: s, Evaluate: ladderCost, Method: "psychic"},
		"bluefin":    {Space: s, Evaluate: ladderCost, Method: "bluefin", State: []byte(`{"center":[1]}`)},
	} {
		if _, err := Tune(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

// Two studies of ten, the second from the state of the first, equal one of twenty.
func TestStateContinuesAcrossStudies(t *testing.T) {
	s := ladder(t)
	o := Options{Space: s, Evaluate: ladderCost, Method: "bluefin", Budget: 21, Seed: 4}
	whole, err := Tune(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Budget = 11
	first, _ := Tune(context.Background(), o)
	o.State = first.State
	second, err := Tune(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	got := append(first.Trials[:11:11], second.Trials[1:]...)
	for i := range got {
		got[i].Step = i
		got[i].Round, whole.Trials[i].Round = 0, 0
	}
	if diff := cmp.Diff(whole.Trials, got); diff != "" {
		t.Error(diff)
	}
}

func TestGain(t *testing.T) {
	trial := func(floor float64, values ...float64) Trial {
		floors := make([]float64, len(values))
		for i := range floors {
			floors[i] = floor
		}
		return Trial{Measurement: Measurement{Values: values, Floors: floors}}
	}
	exhausted := trial(0, 1, 1)
	exhausted.Measurement.Exhausted = true
	tests := []struct {
		name                 string
		candidate, incumbent Trial
		want                 Improvement
	}{
		{"better everywhere", trial(100, 140, 160), trial(100, 180, 220), Improvement{2, 200.0 / 150, true}},
		{"better on average only", trial(100, 100, 180), trial(100, 180, 180), Improvement{2, 180.0 / 140, false}},
		{"itself", trial(100, 140, 160), trial(100, 140, 160), Improvement{1, 1, false}},
		{"both at the floor", trial(100, 100), trial(100, 100), Improvement{1, 1, false}},
		{"down to the floor", trial(100, 100), trial(100, 200), Improvement{MaxRatio, 2, true}},
		{"worse", trial(0, 4, 4), trial(0, 2, 2), Improvement{0.5, 0.5, false}},
		{"failed candidate", Trial{Err: "x"}, trial(0, 1), Improvement{}},
		{"exhausted candidate", exhausted, trial(0, 2, 2), Improvement{}},
		{"exhausted incumbent", trial(0, 9, 9), exhausted, Improvement{MaxRatio, MaxRatio, true}},
	}
	for _, test := range tests {
		if got := Gain(test.candidate, test.incumbent); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}
