package workload

import (
	"io"
	"testing"
	"time"
)

func benchWorkload(b *testing.B, days int) *Workload {
	b.Helper()
	w, err := Synthesize(SynthOptions{Days: days, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

var benchDays = []struct {
	name string
	days int
}{{"day", 1}, {"month", 30}, {"philly", 137}}

func BenchmarkWriteCSV(b *testing.B) {
	w := benchWorkload(b, 30)
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteCSV(io.Discard, w); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSynthesize(b *testing.B) {
	for _, c := range benchDays {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchWorkload(b, c.days)
			}
		})
	}
}

func BenchmarkDescribe(b *testing.B) {
	w := benchWorkload(b, 30)
	b.ReportAllocs()
	for b.Loop() {
		Describe(w, nil)
	}
}

func BenchmarkWindow(b *testing.B) {
	w := benchWorkload(b, 30)
	b.ReportAllocs()
	for b.Loop() {
		w.Window(24*time.Hour, 48*time.Hour)
	}
}
