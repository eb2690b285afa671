package stats

import (
	"testing"

	"github.com/autosched/autosched/workload/synth"
)

func BenchmarkDescribe(b *testing.B) {
	w, err := synth.Generate(b.Context(), synth.Options{Days: 30, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Describe(w, nil)
	}
}
