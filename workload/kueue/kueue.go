// Package kueue reads the life of jobs from Kueue's objects: the same events from saved lists and from watches.
package kueue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
)

// Mapper makes events of Workloads, whose tenants are ClusterQueues by way of LocalQueues. Its zero value knows no
// object. The order of objects does not matter, and the ids of events are the same however often an object is seen.
//
// An object keeps the last transition of each condition: a list does not have the earlier stays of a job that was
// evicted, which a watch saw.
type Mapper struct {
	queues  map[string]string           // ClusterQueues by namespace/LocalQueue
	waiting map[string]*kubejson.Object // Workloads by UID, until their LocalQueues are known
}

// Put takes an object as kubectl prints it, in place of an earlier one, and returns the events so far of the jobs that
// it concerns, in order of time since 1970. Objects of other kinds than LocalQueue and Workload, and Workloads without
// GPUs, have none.
func (m *Mapper) Put(o map[string]any) ([]workload.Event, error) { return m.Take(kubejson.Of(o)) }

// Take is Put of an object that was read.
func (m *Mapper) Take(o *kubejson.Object) ([]workload.Event, error) {
	if m.queues == nil {
		m.queues = map[string]string{}
	}
	switch o.Kind() {
	case "LocalQueue":
		key := o.Namespace() + "/" + o.Name()
		m.queues[key] = o.Get("spec", "clusterQueue").Text()
		var out []workload.Event
		for _, w := range m.waiting {
			if queueOf(w) == key {
				events, _ := m.events(w) // without errors, as it waits
				out = append(out, events...)
			}
		}
		slices.SortFunc(out, workload.CompareEvents)
		return out, o.Err()
	case "Workload":
		return m.events(o)
	}
	return nil, nil
}

// Delete returns the events of an object that is gone: a job that had not ended is cancelled then. at is the time where
// the object does not say. An object with its name alone has no events.
func (m *Mapper) Delete(o map[string]any, at time.Time) []workload.Event {
	x := kubejson.Of(o)
	if x.Kind() != "Workload" {
		return nil
	}
	events, err := m.events(x)
	delete(m.waiting, x.UID())
	if err != nil || len(events) == 0 || events[len(events)-1].Kind == workload.Finished {
		return events
	}
	when := time.Duration(at.UnixNano())
	if t, ok := x.Get("metadata", "deletionTimestamp").Time(); ok {
		when = t
	}
	end := event(x, workload.Finished, max(when, events[len(events)-1].Time))
	end.Job.Status = workload.Cancelled
	return append(events, end)
}

// Waiting is the number of Workloads whose LocalQueue is not known.
func (m *Mapper) Waiting() int { return len(m.waiting) }

// queueOf is the LocalQueue of a Workload, with its namespace.
func queueOf(o *kubejson.Object) string {
	return o.Namespace() + "/" + o.Get("spec", "queueName").Text()
}

// events derives the events of a Workload, none while its tenant is not known.
func (m *Mapper) events(o *kubejson.Object) ([]workload.Event, error) {
	delete(m.waiting, o.UID())
	job, err := Job(o)
	if err != nil || job.GPUs == 0 {
		return nil, err
	}
	job.Tenant = cmp.Or(m.queues[queueOf(o)], o.Get("status", "admission", "clusterQueue").Text())
	created, ok := o.Get("metadata", "creationTimestamp").Time()
	if !ok {
		return nil, fmt.Errorf("%s: metadata.creationTimestamp: is not there", o)
	}
	submitted := event(o, workload.Submitted, created)
	submitted.Job = job
	out := []workload.Event{submitted}
	conditions := map[string]kubejson.Value{}
	for _, c := range o.Get("status", "conditions").Items() {
		conditions[c.Get("type").Text()] = c
	}
	add := func(kind workload.EventKind, condition string) {
		c := conditions[condition]
		if !c.Has() || c.Get("status").Text() != "True" {
			return
		}
		at, known := c.Get("lastTransitionTime").Time()
		if !known {
			c.Fail("has no lastTransitionTime")
			return
		}
		e := event(o, kind, max(at, created))
		switch kind {
		case workload.Preempted:
			e.Lost = true
			if until, held := o.Get("status", "requeueState", "requeueAt").Time(); held {
				e.HoldUntil = workload.DeadlineAt(until)
			}
		case workload.Finished:
			e.Job.Status = status(c.Get("reason").Text(), c.Get("message").Text())
		}
		out = append(out, e)
	}
	if evictions(o, conditions["Evicted"]) == 0 {
		add(workload.Started, "Admitted")
	} else {
		add(workload.Resumed, "Admitted")
	}
	add(workload.Preempted, "Evicted")
	add(workload.Finished, "Finished")
	switch {
	case o.Err() != nil:
		return nil, o.Err()
	case job.Tenant == "":
		if m.waiting == nil {
			m.waiting = map[string]*kubejson.Object{}
		}
		m.waiting[o.UID()] = o
		return nil, nil
	}
	slices.SortFunc(out, workload.CompareEvents)
	return out, nil
}

// evictions is how often a Workload had been evicted before it was admitted last.
func evictions(o *kubejson.Object, last kubejson.Value) int {
	n := 0
	for _, e := range o.Get("status", "schedulingStats", "evictions").Items() {
		n += e.Get("count").Whole()
	}
	switch {
	case !last.Has():
		return n
	case last.Get("status").Text() == "True": // since then
		return max(0, n-1)
	}
	return max(1, n)
}

// event is one of a Workload, whose id is the same whenever it is derived.
func event(o *kubejson.Object, kind workload.EventKind, at time.Duration) workload.Event {
	return workload.Event{ID: fmt.Sprintf("%s/%v/%d", o.UID(), kind, int64(at/time.Second)), Kind: kind, Time: at,
		Job: workload.Job{ID: o.UID()}}
}

// status is how a Workload finished.
func status(reason, message string) workload.Status {
	switch {
	case reason == "Succeeded":
		return workload.Completed
	case reason == "Failed" || strings.Contains(strings.ToLower(message), "fail"):
		return workload.Failed
	case reason == "JobFinished":
		return workload.Completed
	}
	return workload.Unknown
}

// Job describes a Workload but for its tenant: all of its pods together. Its GPUs are 0 if it asks for none.
func Job(o *kubejson.Object) (workload.Job, error) {
	uid := o.UID()
	if uid == "" {
		return workload.Job{}, fmt.Errorf("%s: metadata.uid: is not there", o)
	}
	gpus := GPUs(o)
	asks := workload.Request{Priority: max(0, o.Get("spec", "priority").Int()), Requeue: workload.RequeueRestarts}
	if o.Err() != nil {
		return workload.Job{}, o.Err()
	}
	return workload.Job{ID: uid, Key: kubejson.Key(o), GPUs: workload.GPUs(gpus), Requested: asks.Shared()}, nil
}

// GPUs is the number of GPUs of all pods of a Workload.
func GPUs(o *kubejson.Object) int {
	gpus := 0
	for _, set := range o.Get("spec", "podSets").Items() {
		count := 1
		if n := set.Get("count"); n.Has() {
			count = n.Whole()
		}
		if count < 0 {
			set.Get("count").Fail("is negative")
		}
		gpus += max(0, count) * min(kubejson.PodGPUs(set.Get("template", "spec")), workload.MaxGPUs+1)
		if gpus > workload.MaxGPUs {
			set.Fail("asks for more than %d GPUs", workload.MaxGPUs)
			break
		}
	}
	return gpus
}
