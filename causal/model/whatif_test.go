package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal"
)

// toy is a chain with an inert parameter, a category and a load:
//
//	x, load -> metric -> cost <- kind
//
// cost is lowest at x = 3 and kind b.
func toy(t testing.TB, rows int, shift float64) (*causal.Table, Structure) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(rows)))
	var x, useless, load, metric, cost []float64
	var kind []string
	for range rows {
		x, useless, load = append(x, 10*r.Float64()), append(useless, r.Float64()), append(load, 1+r.Float64())
		k := string(rune('a' + r.IntN(3)))
		kind = append(kind, k)
		d := x[len(x)-1] - 3
		metric = append(metric, d*d+20*load[len(load)-1]+r.NormFloat64())
		c := 500 + shift + 5*metric[len(metric)-1] + 5*r.NormFloat64()
		if k == "b" {
			c -= 100
		}
		cost = append(cost, c)
	}
	column := func(name string, v []float64) causal.Column { return causal.Column{Name: name, Values: v} }
	table, err := causal.NewTable(column("load", load), column("x", x), column("useless", useless),
		causal.NewCategorical("kind", kind),
		column("metric", metric), column("cost", cost))
	if err != nil {
		t.Fatal(err)
	}
	return table, Structure{
		Tiers: []string{causal.TierContext, causal.TierConfig, causal.TierConfig, causal.TierConfig,
			causal.TierMetric, causal.TierObjective},
		Parents: [][]int{nil, nil, nil, nil, {0, 1}, {3, 4}},
	}
}

func TestToy(t *testing.T) {
	table, s := toy(t, 400, 0)
	m := fit(t, table, s, Options{Seed: 3})
	e := m.Errors()[0]
	if e.Blend > .02 || e.Mean < 5*e.Blend || e.Rank < .95 {
		t.Errorf("errors: %+v", e)
	}
	effects, err := m.Effects("cost")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range effects {
		switch f.Parameter {
		case "x": // levels .5, 2.5, 5, 7.5, 9.5: from 5*.25 to 5*42
			if f.ACE < 180 || f.ACE > 230 || f.Inert || !f.Connected || f.Direction < 100 {
				t.Errorf("%+v", f)
			}
		case "kind":
			if f.ACE < 95 || f.ACE > 105 || f.Levels[1].Name != "b" || f.Low > f.ACE || f.High < f.ACE {
				t.Errorf("%+v", f)
			}
		case "useless":
			if f.ACE > 5 || f.Connected {
				t.Errorf("%+v", f)
			}
		}
	}
	if effects[2].Parameter != "useless" {
		t.Errorf("ranked %v", effects)
	}
	paths, err := m.Paths("cost", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 2 || !slices.Equal(paths[0].Nodes, []string{"x", "metric", "cost"}) ||
		!slices.Equal(paths[1].Nodes, []string{"kind", "cost"}) {
		t.Errorf("paths: %+v", paths)
	}
	if paths[0].Effect < 180 || paths[0].Effect > 230 || paths[0].Strength <= 0 || paths[0].Confounded {
		t.Errorf("path %+v", paths[0])
	}
}

func TestDo(t *testing.T) {
	table, s := toy(t, 400, 0)
	m := fit(t, table, s, Options{})
	p := Point{1.5, 8, .5, 0, math.NaN(), math.NaN()}
	a, err := m.Do("cost", p, []Setting{{"x", 3}, {"kind", 1}})
	if err != nil {
		t.Fatal(err)
	}
	if want := 500 + 5*30 - 100.0; math.Abs(a.After-want) > 10 || a.Low > want || a.High < want || !a.Identified ||
		a.Head != "blend" {
		t.Errorf("%+v, want about %g", a, want)
	}
	if want := 500 + 5*(25+30.0); math.Abs(a.Before-want) > 10 {
		t.Errorf("before: %g, want about %g", a.Before, want)
	}
	a, err = m.Do("cost", p, []Setting{{"metric", 50}})
	if err != nil {
		t.Fatal(err)
	}
	if want := 500 + 5*50.0; math.Abs(a.After-want) > 10 || !a.Identified || a.Head != "structural" {
		t.Errorf("%+v, want about %g", a, want)
	}
	s.Confounded = func(cause, effect int) bool { return cause == 4 && effect == 5 }
	m = fit(t, table, s, Options{})
	a, err = m.Do("cost", p, []Setting{{"metric", 20}})
	if err != nil {
		t.Fatal(err)
	}
	if a.Identified || a.Low > 610 || a.High < a.Before-1 {
		t.Errorf("an edge that may be confounded: %+v", a)
	}
	for _, bad := range [][]Setting{{{"nothing", 1}}, {{"x", math.NaN()}}, {{"kind", 3}}, {{"kind", .5}}} {
		if _, err := m.Do("cost", p, bad); err == nil || !strings.Contains(err.Error(), bad[0].Column) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestNarrow(t *testing.T) {
	table, s := toy(t, 600, 0)
	m := fit(t, table, s, Options{})
	got, err := m.Narrow("cost", Point{1.5, 8, .5, 0, 0, 0}, Scope{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]Narrowing{}
	for _, n := range got {
		seen[n.Parameter] = n
	}
	if n := seen["useless"]; n.Op != "fix" {
		t.Errorf("useless: %+v", n)
	}
	if n := seen["kind"]; n.Op != "exclude" || !slices.Equal(n.Excluded, []float64{0, 2}) {
		t.Errorf("kind: %+v", n)
	}
	if n := seen["x"]; n.Op != "interval" || n.Low > 2 || n.High < 4 || n.High > 9 {
		t.Errorf("x: %+v", n)
	}
}

// TestNarrowSeesPairs has two switches that reduce the objective only together.
func TestNarrowSeesPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n = 600
	a, b, x, cost := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		a[i], b[i], x[i] = float64(r.IntN(2)), float64(r.IntN(2)), r.Float64()
		cost[i] = 500 + 100*x[i] + 60*a[i] + 60*b[i] - 200*a[i]*b[i] + r.NormFloat64()
	}
	table, err := causal.NewTable(causal.Column{Name: "a", Values: a}, causal.Column{Name: "b", Values: b},
		causal.Column{Name: "x", Values: x}, causal.Column{Name: "cost", Values: cost})
	if err != nil {
		t.Fatal(err)
	}
	m := fit(t, table, Structure{Tiers: []string{causal.TierConfig, causal.TierConfig, causal.TierConfig,
		causal.TierObjective}, Parents: [][]int{nil, nil, nil, {0, 1, 2}}}, Options{})
	got, err := m.Narrow("cost", Point{0, 0, .5, 0}, Scope{KeepFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range got {
		if n.Parameter != "x" {
			t.Errorf("%+v", n)
		}
	}
	// With one of them on, the other reduces the objective alone; with both on, neither
	// does.
	got, err = m.Narrow("cost", Point{1, 1, .5, 0}, Scope{KeepFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	fixed := 0
	for _, n := range got {
		if n.Op == "fix" && n.Reason == NoGain && n.Parameter != "x" && n.ACEHigh >= n.ACE && n.ACE >= n.ACELow {
			fixed++
		}
	}
	if fixed == 0 {
		t.Errorf("both on, and nothing is fixed: %+v", got)
	}
}

// TestInertNeedsCertainty checks that a parameter that may reach the objective by an
// undirected edge is not inert.
func TestInertNeedsCertainty(t *testing.T) {
	table, s := toy(t, 400, 0)
	inert := func(s Structure) bool {
		effects, err := fit(t, table, s, Options{Seed: 3}).Effects("cost")
		if err != nil {
			t.Fatal(err)
		}
		e := effects[slices.IndexFunc(effects, func(e Effect) bool { return e.Parameter == "useless" })]
		if e.Low != 0 || e.Connected {
			t.Fatalf("%+v", e)
		}
		return e.Inert
	}
	if !inert(s) {
		t.Error("a parameter that does nothing is not inert")
	}
	s.MayCause = [][2]int{{2, 4}}
	if inert(s) {
		t.Error("a parameter that may act on a metric is inert")
	}
}

// TestNarrowKeepsWhatMatters checks that a parameter whose true effect is among the
// two largest is never fixed.
func TestNarrowKeepsWhatMatters(t *testing.T) {
	if testing.Short() {
		t.Skip("fits models to large tables")
	}
	for name, top := range map[string][]string{"sched14_tiresias": {"queue_threshold", "pack_limit"},
		"sched10_lucid": {"profiler_gpus", "profile_time"}} {
		table, s := load(t, name)
		m := fit(t, table, s, Options{})
		for r := range 20 {
			got, err := m.Narrow("avg_jct", row(table, r*20), Scope{})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range got {
				if n.Op == "fix" && slices.Contains(top, n.Parameter) {
					t.Errorf("%s, row %d: %s is fixed: %+v", name, r*20, n.Parameter, n)
				}
			}
		}
	}
}

func TestUpdateLearns(t *testing.T) {
	table, s := toy(t, 400, 0)
	all := fit(t, table, s, Options{Seed: 1, Families: []Family{Quadratic}})
	var first, rest []int
	for r := range table.Rows() {
		if r < 300 {
			first = append(first, r)
		} else {
			rest = append(rest, r)
		}
	}
	m := fit(t, table.Select(first), s, Options{Seed: 1, Families: []Family{Quadratic}})
	for i := 0; i < len(rest); i += 10 {
		u, err := m.Update(context.Background(), table.Select(rest[i:i+10]))
		if err != nil {
			t.Fatal(err)
		}
		if u.Error["cost"] > .03 || len(u.Drifted) > 0 || u.Reset {
			t.Fatalf("update %d: %+v", i, u)
		}
	}
	if m.Rows() != 400 {
		t.Errorf("%d rows", m.Rows())
	}
	p := []Point{{1.5, 8, .5, 0, 0, 0}}
	a, _ := all.Predict("cost", p)
	b, _ := m.Predict("cost", p)
	// Scales and blends are those of the first rows, so results agree only
	// approximately.
	if math.Abs(a[0].Mean-b[0].Mean) > 2 {
		t.Errorf("%g learnt bit by bit, %g at once", b[0].Mean, a[0].Mean)
	}
}

func TestDriftForgets(t *testing.T) {
	table, s := toy(t, 400, 0)
	m := fit(t, table, s, Options{Seed: 1})
	other, _ := toy(t, 200, 300) // all costs 300 more
	p := []Point{{1.5, 3, .5, 1, 0, 0}}
	reset := false
	for i := 0; i < 200 && !reset; i += 10 {
		rows := make([]int, 10)
		for k := range rows {
			rows[k] = i + k
		}
		u, err := m.Update(context.Background(), other.Select(rows))
		if err != nil {
			t.Fatal(err)
		}
		reset = u.Reset
	}
	if !reset {
		t.Fatal("costs rose by half and nothing was noticed")
	}
	got, _ := m.Predict("cost", p)
	if want := 500 + 300 + 5*30 - 100.0; math.Abs(got[0].Mean-want) > 60 {
		t.Errorf("after the reset %g, want about %g", got[0].Mean, want)
	}
}

func TestBelowIsCalibrated(t *testing.T) {
	table, s := toy(t, 300, 0)
	m := fit(t, table, s, Options{})
	fresh, _ := toy(t, 1000, 0)
	points := make([]Point, fresh.Rows())
	for r := range points {
		points[r] = row(fresh, r)
	}
	got, err := m.Predict("cost", points)
	if err != nil {
		t.Fatal(err)
	}
	inside, below := 0, 0.0
	for r, p := range got {
		v := points[r][5]
		if p.Low <= v && v <= p.High {
			inside++
		}
		below += p.Below(v) / float64(len(got))
		if a, b := p.Below(p.Low), p.Below(p.High); math.Abs(a-.05) > 1e-6 || math.Abs(b-.95) > 1e-6 {
			t.Fatalf("%+v: below its quantiles %g and %g", p, a, b)
		}
	}
	if inside < 860 || inside > 950 {
		t.Errorf("%d of 1000 measurements lie within the 90 %% interval", inside)
	}
	if math.Abs(below-.5) > .05 {
		t.Errorf("mean probability %.3f", below)
	}
}

func TestFitRefuses(t *testing.T) {
	table, s := toy(t, 40, 0)
	cyclic := Structure{Tiers: s.Tiers, Parents: [][]int{nil, nil, nil, nil, {5}, {4}}}
	noConfig := Structure{Tiers: []string{"context", "context", "context", "context", "metric", "objective"},
		Parents: s.Parents}
	noObjective := Structure{Tiers: []string{"context", "config", "config", "config", "metric", "metric"},
		Parents: s.Parents}
	category := Structure{Tiers: []string{"context", "config", "config", "metric", "metric", "objective"},
		Parents: s.Parents}
	for name, c := range map[string]struct {
		t    *causal.Table
		s    Structure
		want string
	}{
		"few rows":     {table.Select([]int{0, 1, 2}), s, "3 rows"},
		"cycle":        {table, cyclic, "cause each other"},
		"no config":    {table, noConfig, "no column is configuration"},
		"no objective": {table, noObjective, "no column is an objective"},
		"category":     {table, category, `"kind" is categorical`},
		"wrong length": {table, Structure{Tiers: s.Tiers[:3], Parents: s.Parents}, "3 tiers"},
	} {
		if _, err := Fit(context.Background(), c.t, c.s, Options{}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	m := fit(t, table, s, Options{})
	if _, err := m.Predict("speed", nil); err == nil {
		t.Error("an objective that is none")
	}
	if _, err := m.Predict("cost", []Point{{1, 2}}); err == nil {
		t.Error("a short point")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Fit(ctx, table, s, Options{}); err == nil {
		t.Error("a cancelled fit ends well")
	}
}

// TestConstantAndCollinear fits to constant and collinear columns.
func TestConstantAndCollinear(t *testing.T) {
	table, s := toy(t, 60, 0)
	x := table.Column(1).Values
	twice := make([]float64, len(x))
	for i := range x {
		twice[i] = 2 * x[i]
	}
	all, err := causal.NewTable(*table.Column(0), *table.Column(1), causal.Column{Name: "useless",
		Values: make([]float64, len(x))}, *table.Column(3), *table.Column(4), *table.Column(5),
		causal.Column{Name: "twice", Values: twice})
	if err != nil {
		t.Fatal(err)
	}
	s.Tiers = append(slices.Clone(s.Tiers), causal.TierConfig)
	s.Parents = append(slices.Clone(s.Parents), nil)
	s.Parents[4] = []int{0, 1, 6}
	m := fit(t, all, s, Options{})
	if e := m.Errors()[0]; !(e.Blend < .05) {
		t.Errorf("%+v", e)
	}
	if _, err := m.Effects("cost"); err != nil {
		t.Error(err)
	}
}

// Ratios are positive, and so are their predictions and intervals, however noisy they are.
func TestIntervalsOfRatiosArePositive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	const rows = 60
	x, hold, ratio := make([]float64, rows), make([]float64, rows), make([]float64, rows)
	for i := range rows {
		x[i] = r.Float64()
		hold[i] = x[i] + r.NormFloat64()
		// Within a factor of 20, so that it is not fitted in logarithms.
		ratio[i] = min(4, max(.3, math.Exp(.4*hold[i]+.5*r.NormFloat64())))
	}
	table, err := causal.NewTable(causal.Column{Name: "x", Values: x}, causal.Column{Name: "hold", Values: hold},
		causal.Column{Name: "ratio", Values: ratio})
	if err != nil {
		t.Fatal(err)
	}
	m := fit(t, table, Structure{Tiers: []string{causal.TierConfig, causal.TierMetric, causal.TierObjective},
		Parents: [][]int{nil, {0}, {1}}}, Options{Seed: 1, Families: []Family{Linear}})
	inside, naive := 0, false
	for i := range rows {
		p := row(table, i)
		got, err := m.Predict("ratio", []Point{p})
		if err != nil {
			t.Fatal(err)
		}
		g := got[0]
		if !(g.Low > 0 && g.Low <= g.Mean && g.Mean <= g.High) {
			t.Errorf("row %d: %+v", i, g)
		}
		naive = naive || g.Mean-q95*g.SD < 0
		if g.Low <= ratio[i] && ratio[i] <= g.High {
			inside++
		}
		held, err := m.Do("ratio", p, []Setting{{"hold", -3}})
		if err != nil || !(held.Low > 0 && held.Low <= held.After && held.After <= held.High) {
			t.Errorf("row %d: %+v, %v", i, held, err)
		}
	}
	if !naive {
		t.Error("the case is too easy: an interval on the scale of the ratio would be positive too")
	}
	if inside < rows*8/10 {
		t.Errorf("%d of %d rows lie within the interval", inside, rows)
	}
}

// A typical point has a configuration that some row has: medians of several parameters
// together may break the space's rules.
func TestTypicalConfigurationRan(t *testing.T) {
	a, b := []float64{1, 1, 2, 2, 3, 3}, []float64{9, 8, 1, 2, 8, 9} // the medians are 2 and 8
	a, b = append(a, a...), append(b, b...)
	cost := []float64{1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1}
	table, err := causal.NewTable(causal.Column{Name: "a", Values: a}, causal.Column{Name: "b", Values: b},
		causal.Column{Name: "cost", Values: cost})
	if err != nil {
		t.Fatal(err)
	}
	m := fit(t, table, Structure{Tiers: []string{causal.TierConfig, causal.TierConfig, causal.TierObjective},
		Parents: [][]int{nil, nil, {0, 1}}}, Options{Seed: 1, Families: []Family{Linear}})
	p := m.Typical()
	for i := range a {
		if p[0] == a[i] && p[1] == b[i] {
			return
		}
	}
	t.Errorf("no row has the typical configuration %v", p)
}
