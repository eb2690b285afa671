package causal

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/autosched/autosched/internal/rng"
)

// layered generates a three-layer data set: configurations (a third of them
// categorical), metrics and objectives, with nonlinear effects, products and a hidden
// load that affects the metrics.
func layered(seed uint64, configs, metrics, objectives, rows int) (*Table, *Spec) {
	r := rng.Stream("causal test data", seed)
	names := []string{"las", "fifo", "gittins", "srtf"}
	var columns []Column
	spec := &Spec{Tiers: map[string]string{}}
	add := func(tier string, c Column) {
		c.Name = fmt.Sprintf("%s%d", tier[:1], len(columns))
		spec.Tiers[c.Name] = tier
		columns = append(columns, c)
	}
	for i := range configs {
		if i%3 == 0 {
			values := make([]string, rows)
			for k := range values {
				values[k] = names[r.IntN(len(names))]
			}
			add(TierConfig, NewCategorical("", values))
			continue
		}
		values := make([]float64, rows)
		for k := range values {
			values[k] = math.Floor(r.Float64() * 40)
		}
		add(TierConfig, Column{Kind: Integer, Values: values})
	}
	load := make([]float64, rows)
	for k := range load {
		load[k] = r.NormFloat64()
	}
	effect := func(tier string, from, to int, hidden float64) {
		values := make([]float64, rows)
		for k := range values {
			values[k] = hidden*load[k] + 0.7*r.NormFloat64()
		}
		for range 3 {
			c := columns[from+r.IntN(to-from)]
			z, _ := standardised(c.Values)
			lin, square := 0.4+r.Float64(), 0.5*r.Float64()
			for k, v := range z {
				values[k] += lin*v + square*v*v
			}
		}
		add(tier, Column{Values: values})
	}
	for i := range metrics {
		effect(TierMetric, 0, configs+i, float64(i%2)*0.8)
	}
	for range objectives {
		effect(TierObjective, configs, configs+metrics, 0)
	}
	t, err := NewTable(columns...)
	if err != nil {
		panic(err)
	}
	return t, spec
}

func BenchmarkDiscover(b *testing.B) {
	for _, c := range []struct{ configs, metrics, objectives, rows int }{{5, 3, 2, 500}, {6, 5, 3, 2000},
		{10, 7, 3, 10_000}, {10, 7, 3, 100_000}} {
		p := c.configs + c.metrics + c.objectives
		table, spec := layered(1, c.configs, c.metrics, c.objectives, c.rows)
		know, err := spec.Bind(table.Names())
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("p=%d/rows=%d", p, c.rows), func(b *testing.B) {
			b.ReportAllocs()
			tests := 0
			for b.Loop() {
				test, _, err := NewTest(table)
				if err != nil {
					b.Fatal(err)
				}
				r, err := Discover(context.Background(), p, know, test, SearchOptions{MaxCond: 4, PDSMax: 2})
				if err != nil {
					b.Fatal(err)
				}
				tests = r.Tests
			}
			b.ReportMetric(float64(tests), "tests")
		})
	}
}

// BenchmarkTest runs tests on one table, with conditioning sets of several sizes; the
// cost of the shared correlations is excluded.
func BenchmarkTest(b *testing.B) {
	table, _ := layered(1, 10, 7, 3, 10_000)
	test, _, err := NewTest(table)
	if err != nil {
		b.Fatal(err)
	}
	for _, given := range [][]int{nil, {1, 11}, {0, 3, 11, 12}} {
		b.Run(fmt.Sprintf("given=%d", len(given)), func(b *testing.B) {
			run := test.Worker()
			run(10, 18, given)
			b.ReportAllocs()
			for b.Loop() {
				run(10, 18, given)
			}
		})
	}
}

func BenchmarkLearn(b *testing.B) {
	for _, samples := range []int{0, 20} {
		table, spec := layered(1, 6, 5, 3, 2000)
		b.Run(fmt.Sprintf("p=14/rows=2000/bootstrap=%d", samples), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Learn(context.Background(), table, spec, LearnOptions{Bootstrap: samples}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
