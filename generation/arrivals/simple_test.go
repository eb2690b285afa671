package arrivals_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/workload"
)

// TestRepeatOfAShortHistory: a part of the last hour goes on from the first minute on, at its own rate; a burst
// that is all there is comes again once in a quarter of an hour.
func TestRepeatOfAShortHistory(t *testing.T) {
	const begin = 100 * time.Hour
	for _, c := range []struct {
		jobs    int
		every   time.Duration
		horizon time.Duration
		least   int
		most    int
	}{
		{20, time.Minute, 10 * time.Minute, 8, 12},
		{20, time.Minute, time.Hour, 55, 65},
		{90, time.Minute, time.Hour, 60, 60},
		{50, time.Second, time.Hour, 200, 200},
	} {
		var jobs []workload.Job
		for i := range c.jobs {
			jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: begin + time.Duration(i)*c.every,
				Duration: time.Minute, GPUs: workload.GPUs(1)})
		}
		at := begin + time.Duration(c.jobs)*c.every
		past, err := arrivals.FromJobs(time.Time{}, jobs, at, arrivals.Grid{})
		if err != nil {
			t.Fatal(err)
		}
		method, err := arrivals.Parse(arrivals.Repeat)
		if err != nil {
			t.Fatal(err)
		}
		f, err := arrivals.New(arrivals.Options{Method: method, Horizon: c.horizon})
		if err != nil {
			t.Fatal(err)
		}
		futures, err := f.Sample(t.Context(), past, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(futures[0].Arrivals); n < c.least || n > c.most {
			t.Errorf("%d jobs, one every %v: %d arrivals in %v, want %d to %d", c.jobs, c.every, n, c.horizon, c.least,
				c.most)
		}
	}
}
