package arrivals

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// sixWeeks is a history of 50 jobs an hour.
func sixWeeks(b *testing.B) *History {
	h, err := FromJobs(time.Time{}, busy(1, 42), 42*day, Grid{})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// BenchmarkSample draws the futures of an hour from six weeks of history, as
// every tuning round does.
func BenchmarkSample(b *testing.B) {
	h := sixWeeks(b)
	for _, method := range []string{"repeat", "paper", "ridge", "ensemble"} {
		f := forecaster(b, method, time.Hour)
		if err := f.Learn(context.Background(), h); err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{4, 20, 100} {
			b.Run(fmt.Sprintf("%s/futures=%d", method, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					sample(b, f, h, n, uint64(i))
				}
			})
		}
	}
}

// BenchmarkLearn learns a history from its beginning, as a service does when it
// starts, and a day more, as it does at midnight.
func BenchmarkLearn(b *testing.B) {
	h := sixWeeks(b)
	for _, method := range []string{"ridge", "boosted", "ensemble"} {
		for _, days := range []int{7, 42} {
			h := h.Until(time.Duration(days) * day)
			b.Run(fmt.Sprintf("%s/days=%d", method, days), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if err := forecaster(b, method, time.Hour).Learn(context.Background(), h); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkHistory counts the jobs of six weeks.
func BenchmarkHistory(b *testing.B) {
	jobs := busy(1, 42)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromJobs(time.Time{}, jobs, 42*day, Grid{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(jobs)), "jobs")
}
