package trace

import (
	"io"
	"testing"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
)

func BenchmarkWriteCSV(b *testing.B) {
	w := month(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteCSV(io.Discard, w); err != nil {
			b.Fatal(err)
		}
	}
}

// month is thirty days as the Philly trace has them.
func month(b *testing.B) *workload.Workload {
	b.Helper()
	w, err := synth.Generate(b.Context(), synth.Options{Days: 30, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	return w
}
