package effects_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/search/effects"
	"github.com/autosched/autosched/space"
)

func testSpace(t testing.TB) *space.Space {
	t.Helper()
	sp, err := space.New([]space.Param{
		{ID: "queues", Kind: space.KindInt, Min: 1, Max: 9, Default: space.Num(3)},
		{ID: "idle", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.5)},
		{ID: "order", Kind: space.KindCategorical, Categories: []string{"fifo", "short"}, Default: space.Text("fifo")},
		{ID: "fixed", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.5)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

// world measures configurations: the delay falls with queues and with the order, and the objective is
// delay, restarts and work; idle does nothing.
func world(sp *space.Space, groups, trials int, noise float64, seed uint64) []effects.Group {
	r := rand.New(rand.NewPCG(seed, 0))
	measure := func(c space.Config, work float64) effects.Trial {
		delay := work * (1.2 - .1*float64(c.Get("queues").Int()))
		if c.Get("order").Text() == "short" {
			delay *= .6
		}
		delay = max(0, delay*(1+noise*r.NormFloat64()))
		restarts := work * .02 * float64(c.Get("queues").Int()) * r.ExpFloat64()
		return effects.Trial{Config: c, Objective: work + delay + restarts,
			Metrics: map[string]float64{"delay": delay, "restarts": restarts, "odd": r.Float64()}}
	}
	var out []effects.Group
	for range groups {
		work := 100 * math.Exp(r.NormFloat64())
		base := measure(sp.Default(), work)
		g := effects.Group{Base: &base, Trials: []effects.Trial{base}}
		for range trials - 1 {
			c := sp.Default().With("queues", space.Num(float64(1+r.IntN(8)))).With("idle", space.Num(r.Float64()))
			if r.IntN(2) == 0 {
				c = c.With("order", space.Text("short"))
			}
			g.Trials = append(g.Trials, measure(c, work))
		}
		out = append(out, g)
	}
	return out
}

var options = effects.Options{Objective: "jct", Parts: []string{"delay", "restarts"}, Seed: 1, Workers: 2}

func learn(t testing.TB, groups []effects.Group, o effects.Options) *effects.Model {
	t.Helper()
	m, err := effects.Learn(context.Background(), testSpace(t), groups, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The causes of a known world are found, with their signs, ways and ratios, and parameters without effect are not.
func TestLearn(t *testing.T) {
	sp := testSpace(t)
	m := learn(t, world(sp, 20, 8, .02, 1), options)
	if m.Fault != "" || m.Trials != 160 || m.Groups != 20 || m.Ranked != 20 || m.Rank < .8 || m.Error >= m.MeanError/2 {
		t.Fatalf("%+v", m)
	}
	edges := map[string]effects.Edge{}
	for _, e := range m.Edges {
		edges[e.From+" "+e.To] = e
	}
	for ends, sign := range map[string]int{"queues delay": -1, "queues restarts": 1, "order delay": 0, "delay jct": 1,
		"restarts jct": 1} {
		if e, ok := edges[ends]; !ok || e.Sign != sign || e.Reliability < .5 || e.Effect <= 0 {
			t.Errorf("%s: %+v, want sign %d", ends, e, sign)
		}
	}
	for ends := range edges {
		if strings.Contains(ends, "idle") || strings.Contains(ends, "fixed") || strings.HasPrefix(ends, "jct") {
			t.Errorf("edge %s", ends)
		}
	}
	for _, id := range []string{"queues", "order"} {
		e := m.Effect(id)
		if e == nil || e.Low <= 0 || e.Low > e.Share || e.Share > e.High || len(e.Paths) == 0 ||
			!slices.Equal(e.Paths[0].Metrics, []string{"delay"}) || e.Inert {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if got := m.Effect("order").Best; got != "order=short" {
		t.Errorf("best order: %q", got)
	}
	if e := m.Effect("idle"); e == nil || !e.Inert && e.Share > .02 {
		t.Errorf("idle: %+v", e)
	}
	if e := m.Effect("fixed"); e == nil || !e.Constant {
		t.Errorf("fixed: %+v", e)
	}
	layers := map[effects.Layer]int{}
	for _, n := range m.Nodes {
		layers[n.Layer]++
	}
	want := map[effects.Layer]int{effects.Parameter: 4, effects.Metric: 3, effects.Objective: 1}
	if !reflect.DeepEqual(layers, want) {
		t.Errorf("layers %v, want %v", layers, want)
	}
	better := sp.Default().With("order", space.Text("short"))
	p, err := m.Predict(sp.Default(), better)
	if want := 1.96 / (1 + .9*.6 + .06); err != nil || math.Abs(p.Ratio-want) > .1 || p.Low >= p.Ratio ||
		p.High <= p.Ratio || p.Extrapolation != "" {
		t.Errorf("%+v, %v, want about %.2f", p, err, want)
	}
	for why, c := range map[string]space.Config{"queues=9 is outside of what was measured, 1 to 8": better.With("queues",
		space.Num(9)), "fixed was never changed": better.With("fixed", space.Num(.6))} {
		if p, err := m.Predict(sp.Default(), c); err != nil || p.Extrapolation != why {
			t.Errorf("%s: %+v, %v, want %q", c, p, err, why)
		}
	}
}

// A model that cannot rank says so and nothing else.
func TestUnreliable(t *testing.T) {
	sp := testSpace(t)
	equal := world(sp, 20, 8, 0, 1)
	for i := range equal {
		for k := range equal[i].Trials {
			equal[i].Trials[k].Objective = equal[i].Base.Objective
		}
	}
	shuffled := world(sp, 20, 8, .02, 1)
	r := rand.New(rand.NewPCG(3, 0))
	for i := range shuffled {
		for k := range shuffled[i].Trials {
			shuffled[i].Trials[k].Objective *= math.Exp(r.NormFloat64())
			shuffled[i].Trials[k].Metrics = nil
		}
	}
	broken := world(sp, 20, 8, .02, 1)
	for i := range broken {
		broken[i].Base.Objective = 0
	}
	for why, c := range map[string]struct {
		groups []effects.Group
		fault  string
	}{
		"none":     {nil, "0 trials are measured"},
		"few":      {world(sp, 4, 8, .02, 1), "32 trials are measured"},
		"no base":  {broken, "0 trials are measured"},
		"equal":    {equal, ""},
		"shuffled": {shuffled, "with a correlation of"},
	} {
		m := learn(t, c.groups, options)
		if m.Fault == "" || !strings.Contains(m.Fault, c.fault) || m.Nodes != nil || m.Edges != nil ||
			m.Effects != nil {
			t.Errorf("%s: fault %q, %d edges", why, m.Fault, len(m.Edges))
		}
		if _, err := m.Predict(sp.Default(), sp.Default()); err == nil {
			t.Errorf("%s: it predicts", why)
		}
	}
}

// Trials of one study are compared with their median, and the latest of many count.
func TestLearnStudy(t *testing.T) {
	sp := testSpace(t)
	g := world(sp, 1, 1200, .02, 1)
	g[0].Base = nil
	m := learn(t, g, options)
	if m.Fault != "" || m.Trials != 1000 || m.Groups != 1 || m.Rank < .8 || m.Effect("queues").Low <= 0 {
		t.Errorf("fault %q, %d trials of %d, rank %v", m.Fault, m.Trials, m.Groups, m.Rank)
	}
}

// The same trials give the same model, for any number of workers.
func TestDeterminism(t *testing.T) {
	groups := world(testSpace(t), 12, 8, .1, 2)
	var first *effects.Model
	for _, workers := range []int{1, 4} {
		o := options
		o.Workers = workers
		m := learn(t, groups, o)
		if first == nil {
			first = m
		}
		p, err := m.Predict(testSpace(t).Default(), groups[0].Trials[1].Config)
		q, _ := first.Predict(testSpace(t).Default(), groups[0].Trials[1].Config)
		if err != nil || p != q || !reflect.DeepEqual(m.Edges, first.Edges) ||
			!reflect.DeepEqual(m.Effects, first.Effects) || m.Rank != first.Rank {
			t.Errorf("%d workers: %+v, %v, want %+v", workers, p, err, q)
		}
	}
}

// Work is done in pieces, whose error is that of Learn, as is that of the context.
func TestRun(t *testing.T) {
	groups := world(testSpace(t), 10, 8, .02, 1)
	pieces := 0
	o := options
	o.Run = func(f func() error) error { pieces++; return f() }
	if m := learn(t, groups, o); m.Fault != "" || pieces < 2 {
		t.Errorf("%d pieces, fault %q", pieces, m.Fault)
	}
	stop := errors.New("stop")
	o.Run = func(func() error) error { return stop }
	if _, err := effects.Learn(context.Background(), testSpace(t), groups, o); !errors.Is(err, stop) {
		t.Errorf("%v, want %v", err, stop)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := effects.Learn(ctx, testSpace(t), groups, options); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
