package workload_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
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

// BenchmarkLedger applies the events of jobs, in order.
func BenchmarkLedger(b *testing.B) {
	const jobs = 10_000
	var events []workload.Event
	for i := range jobs {
		job := workload.Job{ID: fmt.Sprint("job", i), User: "u", GPUs: workload.GPUs(1)}
		at := time.Duration(i) * time.Minute
		for k, kind := range []workload.EventKind{workload.Submitted, workload.Started, workload.Finished} {
			events = append(events, workload.Event{ID: fmt.Sprint(i, "-", k), Kind: kind, Job: job,
				Time: at + time.Duration(k)*time.Hour})
		}
	}
	slices.SortStableFunc(events, workload.CompareEvents)
	b.ReportAllocs()
	for b.Loop() {
		l := workload.NewLedger(workload.Uniform(1, 8))
		for _, e := range events {
			l.Apply(e)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
}
