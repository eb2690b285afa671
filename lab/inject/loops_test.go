package inject

import (
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestFindLoop: jobs that end for lack of memory have failed; cancelled jobs have not.
func TestFindLoop(t *testing.T) {
	for status, want := range map[workload.Status]bool{workload.Failed: true, workload.OutOfMemory: true,
		workload.Cancelled: false} {
		var runs []*run
		for i := range loopFailures {
			at := time.Duration(i) * 2 * time.Minute
			runs = append(runs, &run{job: workload.Job{Status: status}, start: at, end: at + time.Minute})
		}
		if label, found := findLoop(runs); found != want {
			t.Errorf("%v: found %v, %+v", status, found, label)
		}
	}
}
