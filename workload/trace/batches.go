package trace

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// assignKeys gives recurrence keys to the jobs of a trace without names, where
// they have none: a hash of tenant, user, GPUs and batch, where a batch is jobs
// of one tenant and user with the same GPUs and gaps of at most BatchGap. The
// batch is known by its first submission on the wall clock, so that a window
// keeps its keys. Jobs are in order of submission.
func assignKeys(jobs []workload.Job, zero time.Time) {
	type stream struct {
		tenant, user string
		gpus         workload.MilliGPU
	}
	type batch struct {
		last time.Duration
		key  string
	}
	open := map[stream]batch{}
	for i := range jobs {
		j := &jobs[i]
		if j.Key != "" {
			continue
		}
		s := stream{j.Tenant, j.User, j.GPUs}
		b, ok := open[s]
		if !ok || j.Submit-b.last > workload.BatchGap {
			first := zero.Add(j.Submit)
			owner := j.Tenant
			if j.User != "" {
				owner += "\x00" + j.User
			}
			b.key = workload.KeyOf(owner, int64(j.GPUs), first.Unix(), int64(first.Nanosecond()))
		}
		b.last = j.Submit
		open[s] = b
		j.Key = b.key
	}
}
