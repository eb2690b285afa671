package workload

import (
	"bytes"
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

func BenchmarkRead(b *testing.B) {
	for _, c := range benchDays {
		b.Run(c.name, func(b *testing.B) {
			w := benchWorkload(b, c.days)
			var csv bytes.Buffer
			if err := WriteCSV(&csv, w); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(csv.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Read(bytes.NewReader(csv.Bytes()), "b", ReadOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(w.Len()), "jobs")
		})
	}
}

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
