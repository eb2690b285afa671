package model

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/testshared"
)

// truth is a file of golden/causal/truth.
type truth struct {
	Variables []string               `json:"variables"`
	Types     map[string]causal.Kind `json:"types"`
	Tiers     map[string]string      `json:"tiers"`
	Parents   map[string][]string    `json:"true_parents"`
}

// load reads a data set with its true structure, without hidden causes.
func load(t testing.TB, name string) (*causal.Table, Structure) {
	t.Helper()
	var x truth
	read(t, testshared.Path(t, "golden", "causal", "truth", name+".json"), &x)
	table, err := causal.ReadCSV(testshared.Open(t, "golden", "causal", "data", name+".csv.gz"), x.Types)
	if err != nil {
		t.Fatal(err)
	}
	s := Structure{Tiers: make([]string, table.Len()), Parents: make([][]int, table.Len())}
	for i, n := range table.Names() {
		s.Tiers[i] = x.Tiers[n]
		for _, p := range x.Parents[n] {
			if at := table.Index(p); at >= 0 {
				s.Parents[i] = append(s.Parents[i], at)
			}
		}
	}
	return table, s
}

func read(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func fit(t testing.TB, table *causal.Table, s Structure, o Options) *Model {
	t.Helper()
	m, err := Fit(context.Background(), table, s, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// holdout fits to a random 70 % of the rows and returns the relative errors on the
// others.
func holdout(t testing.TB, table *causal.Table, s Structure, seed uint64) map[string]float64 {
	t.Helper()
	perm := rand.New(rand.NewPCG(seed, 1)).Perm(table.Rows())
	cut := table.Rows() * 7 / 10
	m := fit(t, table.Select(perm[:cut]), s, Options{Bootstrap: 1})
	test := table.Select(perm[cut:])
	out := map[string]float64{}
	for _, o := range m.Objectives() {
		points := make([]Point, test.Rows())
		for r := range points {
			points[r] = row(test, r)
		}
		predictions, err := m.Predict(o, points)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, len(points))
		for r, p := range predictions {
			got[r] = p.Mean
		}
		out[o] = relative(got, test.Column(test.Index(o)).Values)
	}
	return out
}

func row(t *causal.Table, r int) Point {
	out := make(Point, t.Len())
	for i := range out {
		out[i] = t.Column(i).Values[r]
	}
	return out
}

// TestHoldOut checks the target errors for a model along the true graph: means over 20
// random hold-outs of 30 %.
func TestHoldOut(t *testing.T) {
	testshared.Full(t)
	splits := 20
	if testing.Short() {
		splits = 4
	}
	for name, target := range map[string]float64{"sched14_tiresias": .145, "sched15_tiresias_ctx": .068} {
		t.Run(name, func(t *testing.T) {
			table, s := load(t, name)
			mean := map[string]float64{}
			for seed := range splits {
				for o, e := range holdout(t, table, s, uint64(seed)) {
					mean[o] += e / float64(splits)
				}
			}
			t.Logf("mean relative errors over %d hold-outs: %v", splits, mean)
			if mean["avg_jct"] > target {
				t.Errorf("avg_jct is %.4f off, want at most %.3f", mean["avg_jct"], target)
			}
		})
	}
}

// TestEffectsRankAsTruth compares with effects from simulations of the process.
func TestEffectsRankAsTruth(t *testing.T) {
	var means map[string]map[string][]struct {
		Mean map[string]float64 `json:"mean"`
	}
	read(t, testshared.Path(t, "golden", "causal", "model", "true_do_means.json"), &means)
	for _, name := range []string{"sched14_tiresias", "sched10_lucid"} {
		table, s := load(t, name)
		m := fit(t, table, s, Options{Seed: 1})
		effects, err := m.Effects("avg_jct")
		if err != nil {
			t.Fatal(err)
		}
		var got, want []float64
		for _, e := range effects {
			low, high := math.Inf(1), math.Inf(-1)
			for _, l := range means[name][e.Parameter] {
				low, high = min(low, l.Mean["avg_jct"]), max(high, l.Mean["avg_jct"])
			}
			got, want = append(got, e.ACE), append(want, high-low)
			t.Logf("%s: %s %.0f [%.0f, %.0f], in truth %.0f", name, e.Parameter, e.ACE, e.Low, e.High, high-low)
		}
		if rho := stats.Spearman(got, want); rho < .9 {
			t.Errorf("%s: Spearman %.2f, want at least 0.9", name, rho)
		}
	}
}

// linear returns a model of z-scored linear regressions without logarithms, with
// almost no penalty and without the direct head: ordinary least squares along the
// graph.
func linear(t testing.TB, table *causal.Table, s Structure) *Model {
	t.Helper()
	m := fit(t, table, s, Options{Bootstrap: 1, Families: []Family{Linear}})
	for i := range m.scales {
		m.scales[i] = newScale(table.Column(i), false)
		m.scales[i].low, m.scales[i].top = math.Inf(-1), math.Inf(1)
	}
	for k, r := range m.regressions() {
		n := newRegression(table, r.target, r.basis.parents, m.scales)
		n.log = false
		for at, row := range m.rows {
			learnAll([]*regression{n}, row, m.blocks[at], make([]float64, m.wide))
		}
		n.low, n.top = math.Inf(-1), math.Inf(1)
		n.lambda = 1e-13
		if k < len(m.order) {
			m.nodes[n.target] = n
		} else {
			m.direct[k-len(m.order)] = n
		}
	}
	if err := m.solve(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	for k := range m.blend {
		m.blend[k] = 1
	}
	return m
}

// TestLinearSEM compares with ordinary least squares from a reference implementation:
// predictions of the first rows, means under do() and ranges.
func TestLinearSEM(t *testing.T) {
	testshared.Full(t)
	var golden map[string]struct {
		First map[string][]float64 `json:"first10_predictions"`
		Do    map[string]struct {
			Levels []struct {
				Value any                `json:"value"`
				Mean  map[string]float64 `json:"mean"`
			} `json:"levels"`
		} `json:"do"`
	}
	read(t, testshared.Path(t, "golden", "causal", "model", "linear_sem_golden.json"), &golden)
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			table, s := load(t, name)
			m := linear(t, table, s)
			buf := m.buffer()
			for r := range 10 {
				m.propagate(&m.all, row(table, r), buf)
				for v, values := range want.First {
					close(t, v, buf.row[table.Index(v)], values[r])
				}
			}
			for param, do := range want.Do {
				c := table.Index(param)
				for _, l := range do.Levels {
					for o, mean := range l.Mean {
						got := 0.0
						for r := range table.Rows() {
							p := row(table, r)
							p[c] = number(t, table.Column(c), l.Value)
							m.propagate(&m.all, p, buf)
							got += buf.row[table.Index(o)] / float64(table.Rows())
						}
						close(t, param+" on "+o, got, mean)
					}
				}
			}
		})
	}
}

func number(t *testing.T, c *causal.Column, v any) float64 {
	t.Helper()
	switch v := v.(type) {
	case float64:
		return v
	case string:
		for i, l := range c.Levels {
			if l == v {
				return float64(i)
			}
		}
	}
	t.Fatalf("%s: no level %v", c.Name, v)
	return 0
}

func close(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s: %.9g, want %.9g", what, got, want)
	}
}

// The edges of a known model have their effects; predictions of left-out rows rank like those of all.
func TestArcs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	columns := []causal.Column{{Name: "a"}, {Name: "b"}, {Name: "m"}, {Name: "o"}}
	for range 200 {
		a, b := r.Float64(), r.Float64()
		m := 3*a + .1*r.NormFloat64()
		for i, v := range []float64{a, b, m, 10 - 2*m + .1*r.NormFloat64()} {
			columns[i].Values = append(columns[i].Values, v)
		}
	}
	table, err := causal.NewTable(columns...)
	if err != nil {
		t.Fatal(err)
	}
	model := fit(t, table, Structure{Tiers: []string{causal.TierConfig, causal.TierConfig, causal.TierMetric,
		causal.TierObjective}, Parents: [][]int{nil, nil, {0, 1}, {2}}}, Options{})
	want := []Arc{{Source: "a", Target: "m", Range: 2.7, Direction: 2.7}, {Source: "b", Target: "m"},
		{Source: "m", Target: "o", Range: 5.4, Direction: -5.4}}
	got := model.Arcs()
	for i, a := range got {
		if len(got) != len(want) || a.Source != want[i].Source || a.Target != want[i].Target ||
			math.Abs(a.Range-want[i].Range) > .2 || math.Abs(a.Direction-want[i].Direction) > .2 ||
			a.Low > a.Direction || a.High < a.Direction || a.Source == "a" && a.Low <= 0 {
			t.Errorf("%+v, want %+v", a, want[i])
		}
	}
	held, err := model.HeldOut("o")
	if rank := stats.Spearman(held, columns[3].Values); err != nil || rank != model.Errors()[0].Rank || rank < .9 {
		t.Errorf("rank correlation %v, %v, want %v", rank, err, model.Errors()[0].Rank)
	}
	if _, err := model.HeldOut("m"); err == nil {
		t.Error("a metric is taken for an objective")
	}
}
