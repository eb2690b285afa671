package durations

import (
	"context"
	"fmt"
	"testing"
)

// sizes of histories: about a day, a week, two and a half.
var sizes = []int{2_000, 14_000, 35_000}

func someof(b *testing.B, n int) ([]Record, []Question) {
	history, _ := philly(b, "", "")
	history = Known(history[:n], history[n].Submit)
	asked := kindNamed("arrival").Ask(history, 1)
	inTime(asked)
	return history, asked
}

// BenchmarkFeatures is the rows of all jobs at their submission, in one pass.
func BenchmarkFeatures(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			history, asked := someof(b, n)
			row := make([]float64, len(Features))
			b.ReportAllocs()
			for b.Loop() {
				t, err := NewTracker(history)
				if err != nil {
					b.Fatal(err)
				}
				for _, q := range asked {
					t.Advance(q.At)
					t.Row(row, q.Job)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(len(asked))*1000, "s/1000")
		})
	}
}

// BenchmarkInference is features and probabilities of 1,000 jobs.
func BenchmarkInference(b *testing.B) {
	history, asked := someof(b, 3_000)
	_, zero := philly(b, "", "")
	m, err := Train(context.Background(), history, zero, "", LearnOptions{Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	row, p := make([]float64, len(Features)), make([]float64, Classes)
	c := m.Classifier()
	t, err := NewTracker(history)
	if err != nil {
		b.Fatal(err)
	}
	t.Advance(asked[len(asked)-1].At)
	b.ReportAllocs()
	for b.Loop() {
		for i := len(history) - 1000; i < len(history); i++ {
			t.Row(row, i)
			c.Probabilities(p, row)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/1000")
}

// BenchmarkOutlook is a controller's round: the history is new, about 1,000 jobs
// are active.
func BenchmarkOutlook(b *testing.B) {
	history, _ := someof(b, 14_000)
	_, zero := philly(b, "", "")
	m, err := Train(context.Background(), history[:3000], zero, "", LearnOptions{Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	at := history[len(history)-1].Submit
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewOutlook(m, history, at); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTrain learns a model from a history, features and scores included.
func BenchmarkTrain(b *testing.B) {
	for _, n := range sizes[:2] {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			history, _ := someof(b, n)
			_, zero := philly(b, "", "")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Train(context.Background(), history, zero, "", LearnOptions{Seed: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
