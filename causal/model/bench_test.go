package model

import (
	"context"
	"fmt"
	"testing"

	"github.com/autosched/autosched/causal"
)

// first returns the first n rows of a table, repeated if there are not enough.
func first(t *causal.Table, rows int) *causal.Table {
	at := make([]int, rows)
	for r := range at {
		at[r] = r % t.Rows()
	}
	return t.Select(at)
}

// BenchmarkFit fits a quadratic model with 20 bootstrap fits.
func BenchmarkFit(b *testing.B) {
	table, s := load(b, "sched15_tiresias_ctx")
	for _, rows := range []int{40, 500, 1000, 2000, 10000} {
		t := first(table, rows)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fit(b, t, s, Options{})
			}
		})
	}
}

// BenchmarkFitBoosted includes trees in the families.
func BenchmarkFitBoosted(b *testing.B) {
	table, s := load(b, "sched15_tiresias_ctx")
	for _, rows := range []int{500, 1000} {
		t := first(table, rows)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fit(b, t, s, Options{Families: []Family{Linear, Quadratic, Boosted}})
			}
		})
	}
}

// BenchmarkPredict predicts 1,000 points: means, and means with intervals.
func BenchmarkPredict(b *testing.B) {
	table, s := load(b, "sched15_tiresias_ctx")
	m := fit(b, table, s, Options{})
	points := make([]Point, 1000)
	for r := range points {
		points[r] = row(table, r)
	}
	out := make([]float64, len(points))
	b.Run("means", func(b *testing.B) {
		buf := m.buffer()
		b.ReportAllocs()
		for b.Loop() {
			for i, p := range points {
				out[i] = m.mean(&m.all, 0, p, buf)
			}
		}
	})
	b.Run("intervals", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Predict("avg_jct", points); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUpdate adds rows to a model of 2,000.
func BenchmarkUpdate(b *testing.B) {
	table, s := load(b, "sched15_tiresias_ctx")
	for _, rows := range []int{1, 40, 1000} {
		more := first(table, rows)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			m := fit(b, table, s, Options{MaxRows: 2000})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Update(context.Background(), more); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEffects ranks the parameters.
func BenchmarkEffects(b *testing.B) {
	table, s := load(b, "sched15_tiresias_ctx")
	m := fit(b, table, s, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Effects("avg_jct"); err != nil {
			b.Fatal(err)
		}
	}
}
