package workload_test

import (
	"testing"
	"time"

	"github.com/autosched/autosched/workload/synth"
)

func BenchmarkWindow(b *testing.B) {
	w, err := synth.Generate(b.Context(), synth.Options{Days: 30, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.Window(24*time.Hour, 48*time.Hour)
	}
}
