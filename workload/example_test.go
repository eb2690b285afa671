package workload_test

import (
	"fmt"
	"time"

	"github.com/autosched/autosched/workload"
)

// The state of a cluster follows from its events, in whatever order they come.
func ExampleLedger() {
	l := workload.NewLedger(workload.Uniform(2, 8))
	for _, e := range []workload.Event{
		{ID: "2", Kind: workload.Started, Time: 90 * time.Second, Job: workload.Job{ID: "a"}},
		{ID: "1", Kind: workload.Submitted, Time: 60 * time.Second, Job: workload.Job{ID: "a", GPUs: workload.GPUs(4)}},
	} {
		if err := e.Validate(); err != nil {
			fmt.Println(err)
			return
		}
		l.Apply(e)
	}
	a := l.State(100 * time.Second).Jobs[0]
	fmt.Println(a.ID, a.Running, "waited", a.WaitTime, "received", a.Attained, "of GPU-time")
	// Output: a true waited 30s received 40s of GPU-time
}
