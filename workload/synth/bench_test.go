package synth

import (
	"testing"

	"github.com/autosched/autosched/workload"
)

func benchWorkload(b *testing.B, days int) *workload.Workload {
	b.Helper()
	w, err := Generate(b.Context(), Options{Days: days, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

var benchDays = []struct {
	name string
	days int
}{{"day", 1}, {"month", 30}, {"philly", 137}}

func BenchmarkGenerate(b *testing.B) {
	for _, c := range benchDays {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchWorkload(b, c.days)
			}
		})
	}
}
