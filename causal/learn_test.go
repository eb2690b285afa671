package causal

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/rng"
)

func mustTable(t *testing.T, columns ...Column) *Table {
	t.Helper()
	table, err := NewTable(columns...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// normals generates a column of standard normal values.
func normals(seed uint64, n int) []float64 {
	r := rng.Stream("causal test column", seed)
	out := make([]float64, n)
	for i := range out {
		out[i] = r.NormFloat64()
	}
	return out
}

func combine(n int, f func(i int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func edgeList(d *Document) string { return d.Graph().Format(d.Names()) }

// TestLearn learns a small system in which a config has a nonlinear effect on a
// metric, and the metric affects an objective.
func TestLearn(t *testing.T) {
	const n = 600
	c, noise, more := normals(1, n), normals(2, n), normals(3, n)
	m := combine(n, func(i int) float64 { return c[i] + 0.5*c[i]*c[i] + 0.5*noise[i] })
	o := combine(n, func(i int) float64 { return m[i] + 0.5*more[i] })
	table := mustTable(t, Column{Name: "c", Values: c}, Column{Name: "idle", Values: normals(4, n)},
		Column{Name: "m", Values: m}, Column{Name: "o", Values: o})
	spec := &Spec{Tiers: map[string]string{"c": TierConfig, "idle": TierConfig, "m": TierMetric, "o": TierObjective}}
	d, err := Learn(context.Background(), table, spec, LearnOptions{Bootstrap: 8, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := edgeList(d), "c --> m\nm --> o\n"; got != want {
		t.Errorf("edges\n%swant\n%s", got, want)
	}
	for _, e := range d.Edges {
		if e.P == nil || *e.P > 0.01 || e.Tests == 0 || e.Strength == nil || *e.Strength < 0.5 || e.BootFreq == nil ||
			*e.BootFreq < 0.9 || !e.Visible {
			t.Errorf("evidence %+v", e)
		}
	}
	if want := "c idle m o"; strings.Join(d.DAG.Order, " ") != want || len(d.DAG.Edges) != 2 ||
		len(d.DAG.Resolved) != 0 {
		t.Errorf("DAG %+v", d.DAG)
	}
	l := d.Learning
	if !l.Complete || l.Test != TestBFX2 || l.Alpha != 0.01 || l.MaxCond != 4 || l.PDSMax != 2 || l.Bootstrap != 8 ||
		l.Keep != 0.5 || l.Rows != n || l.DataHash != table.Hash() {
		t.Errorf("learning %+v", l)
	}
	if i := slices.IndexFunc(d.Separations, func(s Separation) bool {
		return s.A == "c" && s.B == "o"
	}); i < 0 || !slices.Equal(d.Separations[i].Given, []string{"m"}) {
		t.Errorf("separations %+v", d.Separations)
	}
	var a, b bytes.Buffer
	if err := d.Write(&a); err != nil {
		t.Fatal(err)
	}
	again, err := Learn(context.Background(), table, spec, LearnOptions{Bootstrap: 8, Seed: 1, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("learning again gave other bytes")
	}
	if _, err := ReadDocument(&a); err != nil {
		t.Errorf("what was written cannot be read: %v", err)
	}
}

// TestLearnHostile learns from data with outliers, duplicates, constants and rare
// categories.
func TestLearnHostile(t *testing.T) {
	const n = 200
	x, y, z := normals(1, n), normals(2, n), normals(3, n)
	effect := combine(n, func(i int) float64 { return x[i] + 0.3*y[i] })
	words := func(f func(i int) string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	letters := func(k int) func(i int) string { return func(i int) string { return strings.Repeat("x", 1+i%k) } }
	tests := []struct {
		name    string
		columns []Column
		want    string // edges
		warning string
	}{
		{"constant", []Column{{Name: "x", Values: x}, {Name: "flat", Values: combine(n, func(int) float64 {
			return 3
		})}, {Name: "e", Values: effect}}, "x o-o e\n", `"flat" is constant`},
		{"one level", []Column{{Name: "x", Values: x}, NewCategorical("one", words(letters(1))),
			{Name: "e", Values: effect}}, "x o-o e\n", `"one" is constant`},
		{"equal columns", []Column{{Name: "x", Values: x}, {Name: "twin", Values: combine(n, func(i int) float64 {
			return 5 - 2*x[i]
		})}, {Name: "e", Values: effect}}, "x o-o e\n", `"x" and "twin" carry the same information`},
		{"equal categories", []Column{NewCategorical("a", words(letters(3))),
			NewCategorical("b", words(func(i int) string {
				return "level" + string(rune('z'-i%3))
			})), {Name: "x", Values: x}}, "", `"b" is left out`},
		{"a sum", []Column{{Name: "x", Values: x}, {Name: "y", Values: y},
			{Name: "sum", Values: combine(n, func(i int) float64 {
				return x[i] + y[i]
			})}}, "x o-> sum\ny o-> sum\n", ""},
		{"huge", []Column{{Name: "x", Values: combine(n, func(i int) float64 {
			return 1e308 * math.Tanh(x[i])
		})}, {Name: "e", Values: effect}, {Name: "z", Values: z}}, "x o-o e\n", ""},
		{"tiny", []Column{{Name: "x", Values: combine(n, func(i int) float64 {
			return 1e-300 * x[i]
		})}, {Name: "e", Values: effect}, {Name: "z", Values: z}}, "x o-o e\n", ""},
		{"an outlier", []Column{{Name: "x", Values: x}, {Name: "e", Values: combine(n, func(i int) float64 {
			return effect[i] + 1e9*float64(btoi(i == 7))
		})}}, "", ""},
		{"a rare value", []Column{{Name: "x", Values: x}, {Name: "rare", Values: combine(n, func(i int) float64 {
			return float64(btoi(i == 7))
		})}, {Name: "e", Values: effect}}, "x o-o e\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Learn(context.Background(), mustTable(t, tt.columns...), nil, LearnOptions{Bootstrap: 3})
			if err != nil {
				t.Fatal(err)
			}
			all := strings.Join(d.Warnings, "\n")
			if !strings.Contains(all, tt.warning) {
				t.Errorf("warnings %q, want %q", all, tt.warning)
			}
			if got := edgeList(d); got != tt.want && tt.name != "an outlier" {
				t.Errorf("edges\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestLearnErrors(t *testing.T) {
	const n = 100
	x, y := Column{Name: "x", Values: normals(1, n)}, Column{Name: "y", Values: normals(2, n)}
	flat := Column{Name: "flat", Values: make([]float64, n)}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "job" + string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	many := make([]Column, 65)
	for i := range many {
		many[i] = Column{Name: "c" + string(rune('A'+i)), Values: normals(uint64(i), n)}
	}
	tests := []struct {
		name    string
		columns []Column
		spec    *Spec
		o       LearnOptions
		want    string
	}{
		{"few rows", []Column{{Name: "x", Values: normals(1, 19)}, {Name: "y", Values: normals(2, 19)}}, nil,
			LearnOptions{}, "19 rows are too few"},
		{"nothing varies", []Column{x, flat}, nil, LearnOptions{},
			`only 1 of 2 columns can be learned from: column "flat" is constant`},
		{"identifiers", []Column{x, NewCategorical("job", ids)}, nil, LearnOptions{},
			`column "job" has 100 categories in 100 rows`},
		{"wide", many, nil, LearnOptions{}, "65 columns are more than the 64"},
		{"alpha", []Column{x, y}, nil, LearnOptions{Alpha: 2}, "alpha 2"},
		{"no tier", []Column{x, y}, &Spec{Tiers: map[string]string{"x": TierConfig}}, LearnOptions{},
			`column "y" has no tier`},
		{"no tiers at all", []Column{x, y}, &Spec{Mode: ModeStrict3}, LearnOptions{}, `column "x" has no tier`},
		{"ignore none", []Column{x, y}, &Spec{Ignore: []string{"w"}}, LearnOptions{},
			`ignore: the data have no column "w"`},
		{"contradiction", []Column{x, y}, &Spec{Tiers: map[string]string{"x": TierConfig, "y": TierMetric},
			Required: [][2]string{{"y", "x"}}}, LearnOptions{}, "contradicts itself"},
		{"groups", []Column{x, y}, nil, LearnOptions{Bootstrap: 2, Groups: []int{1, 2}},
			"100 rows have 2 group numbers"},
		{"keep", []Column{x, y}, nil, LearnOptions{Keep: 1.5}, "keep 1.5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Learn(context.Background(), mustTable(t, tt.columns...), tt.spec, tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestLearnConflict has two objectives with a common cause that was not measured.
func TestLearnConflict(t *testing.T) {
	const n = 500
	hidden, a, b, c := normals(1, n), normals(2, n), normals(3, n), normals(4, n)
	table := mustTable(t, Column{Name: "c", Values: c},
		Column{Name: "o1", Values: combine(n, func(i int) float64 { return hidden[i] + 0.5*a[i] })},
		Column{Name: "o2", Values: combine(n, func(i int) float64 { return hidden[i] + 0.5*b[i] + c[i] })})
	spec := &Spec{Mode: ModeStrict3,
		Tiers: map[string]string{"c": TierConfig, "o1": TierObjective, "o2": TierObjective}}
	d, err := Learn(context.Background(), table, spec, LearnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range d.Conflicts {
		got = append(got, c.A+"-"+c.B+": "+c.Hint[:20])
	}
	want := []string{"c-o2: a direct effect bypa", "o1-o2: the objectives share"}
	if !slices.Equal(got, want) {
		t.Errorf("conflicts %q, want %q", got, want)
	}
	if len(d.Edges) != 0 || !strings.Contains(strings.Join(d.Warnings, "\n"), "contradict the knowledge in 2 pairs") {
		t.Errorf("edges %v, warnings %q", d.Edges, d.Warnings)
	}
}

// TestDependentInputs has two dependent context variables, which is reported but no
// conflict.
func TestDependentInputs(t *testing.T) {
	const n = 400
	load, more, c, noise := normals(1, n), normals(2, n), normals(3, n), normals(4, n)
	table := mustTable(t, Column{Name: "load", Values: load},
		Column{Name: "backlog", Values: combine(n, func(i int) float64 { return load[i] + more[i] })},
		Column{Name: "c", Values: c},
		Column{Name: "m", Values: combine(n, func(i int) float64 { return load[i] + c[i] + noise[i] })})
	spec := &Spec{Tiers: map[string]string{"load": TierContext, "backlog": TierContext, "c": TierConfig,
		"m": TierMetric}}
	d, err := Learn(context.Background(), table, spec, LearnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := edgeList(d), "load --> m\nc --> m\n"; got != want {
		t.Errorf("edges\n%swant\n%s", got, want)
	}
	if len(d.Conflicts) != 0 || len(d.DependentInputs) != 1 || d.DependentInputs[0].A != "load" ||
		d.DependentInputs[0].B != "backlog" ||
		!strings.Contains(strings.Join(d.Warnings, "\n"), "1 pairs of config or context") {
		t.Errorf("conflicts %v, dependent inputs %v, warnings %q", d.Conflicts, d.DependentInputs, d.Warnings)
	}
}

// TestLearnFewRows has more parameters than rows in most tests.
func TestLearnFewRows(t *testing.T) {
	table, spec := layered(3, 8, 6, 2, 24)
	d, err := Learn(context.Background(), table, spec, LearnOptions{MaxCond: 4, Alpha: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(d.Warnings, "\n"), "too few rows for their number of parameters") {
		t.Errorf("warnings %q", d.Warnings)
	}
}

// TestLearnWide bounds the time of learning with many variables.
func TestLearnWide(t *testing.T) {
	table, spec := layered(4, 20, 25, 5, 300)
	d, err := Learn(context.Background(), table, spec, LearnOptions{Budget: 300 * time.Millisecond, Bootstrap: 2})
	if err != nil {
		t.Fatal(err)
	}
	if d.Learning.Complete == strings.Contains(strings.Join(d.Warnings, "\n"), "time ran out") {
		t.Errorf("complete %v, warnings %q", d.Learning.Complete, d.Warnings)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Learn(ctx, table, spec, LearnOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestDropped drops a spurious edge by the bootstrap.
func TestDropped(t *testing.T) {
	for seed := range uint64(200) {
		table := mustTable(t, Column{Name: "x", Values: normals(2*seed, 60)},
			Column{Name: "y", Values: normals(2*seed+1, 60)})
		d, err := Learn(context.Background(), table, nil, LearnOptions{Alpha: 0.2, Bootstrap: 20, Keep: 0.95})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Dropped) == 1 {
			e := d.Dropped[0]
			if len(d.Edges) != 0 || len(d.DAG.Edges) != 0 || *e.BootFreq >= 0.95 ||
				!strings.Contains(strings.Join(d.Warnings, "\n"), "1 edges were found in fewer than 95 %") {
				t.Errorf("edges %v, dropped %+v, warnings %q", d.Edges, e, d.Warnings)
			}
			return
		}
	}
	t.Error("nothing was ever dropped")
}

// TestGroups resamples days instead of rows, which exposes chance correlations of a
// context with few days.
func TestGroups(t *testing.T) {
	rows := drawRows(rng.Stream("groups", 1), 6, []int{7, 7, 7, 3, 3, 9})
	count := map[int]int{}
	for _, r := range rows {
		count[r]++
	}
	if count[0] != count[1] || count[1] != count[2] || count[3] != count[4] || count[0]+count[3]+count[5] != 3 {
		t.Errorf("rows %v: groups are torn apart", rows)
	}
	const days, each = 8, 40
	chance, exposed := 0, 0
	for seed := range uint64(15) {
		load, effect, noise := normals(3*seed, days), normals(3*seed+1, days), normals(3*seed+2, days*each)
		groups := make([]int, days*each)
		x := combine(days*each, func(i int) float64 { groups[i] = i / each; return load[i/each] })
		y := combine(days*each, func(i int) float64 { return effect[i/each] + noise[i] })
		table := mustTable(t, Column{Name: "load", Values: x}, Column{Name: "delay", Values: y})
		frequency := func(groups []int) float64 {
			d, err := Learn(context.Background(), table, nil,
				LearnOptions{Bootstrap: 40, Keep: -1, Groups: groups})
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Edges) == 0 {
				return 0
			}
			return *d.Edges[0].BootFreq
		}
		if frequency(nil) == 1 { // an edge of chance that looks certain
			chance++
			if frequency(groups) < 1 {
				exposed++
			}
		}
	}
	if chance < 5 || 3*exposed < chance {
		t.Errorf("of %d edges of chance, draws of days expose %d", chance, exposed)
	}
}
