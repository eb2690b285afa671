// Package kube is common to the mappings from the objects of Kubernetes' schedulers to events: jobs, pods and nodes.
package kube

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
)

// Check returns the error of an object of a job that lacks its UID or the time of its creation.
func Check(o *kubejson.Object) (created time.Duration, err error) {
	created, ok := o.Get("metadata", "creationTimestamp").Time()
	switch {
	case o.UID() == "":
		return 0, fmt.Errorf("%s: metadata.uid: is not there", o)
	case o.Err() != nil:
		return 0, o.Err()
	case !ok:
		return 0, fmt.Errorf("%s: metadata.creationTimestamp: is not there", o)
	}
	return created, nil
}

// Job describes the job of an object, which begins anew after an eviction.
func Job(o *kubejson.Object, tenant string, gpus int, asks workload.Request) (workload.Job, error) {
	if gpus > workload.MaxGPUs {
		return workload.Job{}, fmt.Errorf("%s: spec: asks for more than %d GPUs", o, workload.MaxGPUs)
	}
	asks.Requeue = workload.RequeueRestarts
	return workload.Job{ID: o.UID(), Tenant: tenant, Key: kubejson.Key(o), GPUs: workload.GPUs(gpus),
		Requested: asks.Shared()}, o.Err()
}

// Event is an event of a job by the UID of its object, with the same id whenever it is derived.
func Event(uid string, kind workload.EventKind, at time.Duration) workload.Event {
	return workload.Event{ID: fmt.Sprintf("%s/%v/%d", uid, kind, int64(at/time.Second)), Kind: kind, Time: at,
		Job: workload.Job{ID: uid}}
}

// End is the end of a job.
func End(uid string, status workload.Status, at time.Duration) workload.Event {
	e := Event(uid, workload.Finished, at)
	e.Job.Status = status
	return e
}

// Cancelled adds the end of a job to its events: its object is gone. Jobs without events, and ones that ended before,
// are as they were.
func Cancelled(uid string, events []workload.Event, at time.Duration) []workload.Event {
	last := len(events) - 1
	if last < 0 || events[last].Kind == workload.Finished {
		return events
	}
	return append(events, End(uid, workload.Cancelled, max(at, events[last].Time)))
}

// Gone is when an object ended that was seen to be gone at an instant.
func Gone(o *kubejson.Object, seen time.Time) time.Duration {
	if at, ok := o.Get("metadata", "deletionTimestamp").Time(); ok {
		return at
	}
	return time.Duration(seen.UnixNano())
}

// Start is the start of a gang's job at an instant at the earliest, which held its GPUs from another one on.
func (g *Gang) Start(uid string, kind workload.EventKind, earliest, held time.Duration) workload.Event {
	e := Event(uid, kind, max(g.Began, earliest))
	e.Placement, e.StartUp = g.Sizes[0].Placement, max(0, e.Time-held)
	return e
}

// Resizes are the changes of a gang's size before an instant.
func (g *Gang) Resizes(uid string, before time.Duration) (out []workload.Event) {
	for i := 1; i < len(g.Sizes) && g.Sizes[i].At < before; i++ {
		out = append(out, Resize(uid, g.Sizes[i-1].GPUs, g.Sizes[i]))
	}
	return out
}

// Resize is the change of a job's size from a number of GPUs. Of several in one second the last one has the last id.
func Resize(uid string, from int, to Size) workload.Event {
	e := Event(uid, workload.Resized, to.At)
	e.Placement, e.Job.GPUs = to.Placement, workload.GPUs(to.GPUs)
	order := to.GPUs
	if to.GPUs < from {
		order = workload.MaxGPUs - to.GPUs
	}
	e.ID += fmt.Sprintf("/%07d", order)
	return e
}

// Derived has the events of each job as they were derived last, by its id.
type Derived map[string][]workload.Event

// Put takes all events of some jobs, in place of earlier ones of theirs.
func (d Derived) Put(events []workload.Event) {
	for i := range events {
		if id := events[i].Job.ID; events[i].Kind == workload.Submitted {
			d[id] = nil
		}
	}
	for i := range events {
		d[events[i].Job.ID] = append(d[events[i].Job.ID], events[i])
	}
}

// Events are all events in order of time.
func (d Derived) Events() []workload.Event {
	out := slices.Concat(slices.Collect(maps.Values(d))...)
	slices.SortFunc(out, workload.CompareEvents)
	return out
}
