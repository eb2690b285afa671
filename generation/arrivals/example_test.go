package arrivals_test

import (
	"context"
	"fmt"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/workload/trace"
)

// Two futures of the sample trace from the morning of its third day on.
func Example() {
	trace, _, err := trace.Open(context.Background(), trace.SampleName, trace.Options{})
	if err != nil {
		panic(err)
	}
	at := 2*24*time.Hour + 9*time.Hour
	past, err := arrivals.FromJobs(trace.Zero(), trace.Jobs(), at, arrivals.Grid{})
	if err != nil {
		fmt.Println(err)
		return
	}
	method, err := arrivals.Parse("ridge")
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := arrivals.New(arrivals.Options{Method: method, Horizon: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	futures, err := f.Sample(context.Background(), past, 2, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, future := range futures {
		first := future.Arrivals[0]
		job := past.Jobs()[first.Source]
		fmt.Printf("%d arrivals, the first after %v: tenant %s, %d GPUs\n",
			len(future.Arrivals), (first.At - at).Round(time.Second), job.Tenant, job.GPUs.Whole())
	}
	// Output:
	// 12 arrivals, the first after 45s: tenant vc-f, 4 GPUs
	// 6 arrivals, the first after 3m57s: tenant vc-b, 1 GPUs
}
