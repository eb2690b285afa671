package portfolio

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/lab/internal/window"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestChoose: the first is the least worst, others lower the worst regret by 1 % or more,
// the first keeps the guards, nothing is chosen by a test window.
func TestChoose(t *testing.T) {
	// Average JCTs by configuration, the default first: two training windows, then a test
	// window.
	p := &portfolio{Options: Options{Windows: []Window{{}, {}, {Test: true}}}}
	for _, jct := range [][3]float64{
		{150, 150, 100},
		{130, 100, 900}, // regrets .3 and 0
		{120, 120, 100}, // .2 and .2: the least worst
		{115, 115, 100}, // would be, but breaks a guard
		{100, 150, 100}, // the best of the first window
		{101, 0, 1},     // livelocked in the second window
		{120.1, 119.9, 1},
	} {
		var held []Held
		for _, v := range jct {
			held = append(held, Held{AvgJCT: v, P99JCT: 1, ShortJCT: 1})
		}
		p.held, p.configs = append(p.held, held), append(p.configs, space.Config{})
	}
	p.held[3][0].ShortJCT = 3
	p.held[5][1].Exhausted = true
	if got, want := p.choose(false), []int{2, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("chose %v, want %v", got, want)
	}
	if w, m, f := p.together([]int{2, 4, 1}); w != 0 || m != 0 || math.Abs(f-.2) > 1e-9 {
		t.Errorf("worst %v and mean %v of all three, %v of the first", w, m, f)
	}
	p.held[2][1].AvgJCT = 100.3 // with 4, no other lowers the worst regret by 1 %
	if got, want := p.choose(false), []int{2, 4}; !slices.Equal(got, want) {
		t.Errorf("chose %v, want %v", got, want)
	}
}

func TestRoundPlain(t *testing.T) {
	for _, c := range []struct{ v, plain, halves float64 }{
		{0, 0, 0}, {.31, .3, .3}, {.16, .2, .15}, {1.3, 1, 1.5}, {7.8, 8, 8}, {17, 20, 15}, {96, 100, 95},
		{-2.3, -2, -2.5}, {1234, 1000, 1000}, {.049, .05, .05},
	} {
		if a, b := roundPlain(c.v, false), roundPlain(c.v, true); a != c.plain || b != c.halves {
			t.Errorf("%v: %v and %v, want %v and %v", c.v, a, b, c.plain, c.halves)
		}
	}
}

// TestChoosePortfolio: the number of workers and an interruption change nothing, and
// measurements are not repeated.
func TestChoosePortfolio(t *testing.T) {
	in := window.Sample(t)
	s, err := schedulers.Find("gavel")
	if err != nil {
		t.Fatal(err)
	}
	window := func(name string, from, to time.Duration, test bool) Window {
		return Window{Name: name, Test: test, Trace: in.Trace, From: in.From + from, To: in.From + to,
			Cluster: workload.Uniform(14, 8)}
	}
	o := Options{Scheduler: s, Configs: 8, Refine: 1, Seed: 1, Windows: []Window{
		window("morning", 0, 6*time.Hour, false), window("noon", 6*time.Hour, 12*time.Hour, false),
		window("night", 12*time.Hour, 16*time.Hour, true)}}
	known := map[string]Held{}
	ctx, interrupt := context.WithCancel(context.Background())
	o.Keep = func(h Held) error {
		if known[h.Key] = h; len(known) == 5 {
			interrupt()
		}
		return nil
	}
	if _, err := Choose(ctx, o); err == nil {
		t.Fatal("an interrupted choice ended")
	}
	o.Known = func(key string) (Held, bool) { h, ok := known[key]; return h, ok }
	before := len(known)
	first, err := Choose(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(known); got != first.Measured*3 || before != 5 {
		t.Errorf("%d measurements of %d configurations in 3 windows, %d before the interruption", got, first.Measured,
			before)
	}
	o.Known, o.Keep, o.Workers = nil, nil, 3
	again, err := Choose(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(first)
	if b, _ := json.Marshal(again); string(a) != string(b) {
		t.Errorf("three workers choose\n%s\nnot\n%s", b, a)
	}
	if len(first.Chosen) == 0 || len(first.Compared) != 1+len(s.Presets) || len(first.Windows) != 3 {
		t.Fatalf("%s", a)
	}
	for i, r := range first.Chosen {
		if i == 0 && max(r.P99, r.Short) > guardFirst {
			t.Errorf("the first breaks a guard: %+v", r)
		}
		if i > 0 && r.With.Worst > first.Chosen[i-1].With.Worst-presetGain+2*indistinct {
			t.Errorf("chosen %d lowers the worst regret from %v to %v", i, first.Chosen[i-1].With.Worst, r.With.Worst)
		}
	}
	for _, w := range first.Windows {
		if w.BestJCT <= 0 || w.Best == "" || w.Jobs == 0 || w.Portfolio > min(w.Default, w.First) {
			t.Errorf("%+v", w)
		}
	}
}
