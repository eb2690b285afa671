// Package events derives events from the objects of a cluster: those of jobs by the mapping of their scheduler, those
// of nodes by its own. A watch and a list of the same objects give the same events, with the same ids, so that nothing
// has to be kept on disk.
package events

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
)

// Mapper derives the events of jobs from the objects of a scheduler, in any order of their kinds. Times are since the
// Unix epoch.
type Mapper interface {
	// Put takes an object, new or changed, and returns all events of the jobs concerned that it can derive, in order of
	// time. The id of a job is the UID of its object, that of an event has the instant of the change.
	Put(object map[string]any) ([]workload.Event, error)
	// Delete forgets an object that was seen to be gone at an instant. Of the object, name, namespace and UID count.
	Delete(object map[string]any, at time.Time) []workload.Event
}

// Tracker keeps which events of the active jobs and the nodes were derived. Its methods are called from one goroutine
// at a time.
type Tracker struct {
	Mapper Mapper
	// KeepProgress: evicted jobs go on where they were, as they write checkpoints.
	KeepProgress bool

	jobs  map[string]*job
	held  kube.Derived     // events of jobs that are not to be reported yet
	nodes map[string]*node // by name
}

// job is the reported state of a job whose object is there.
type job struct {
	submission workload.Event // of kind Submitted, unless the job is over
	seen       map[string]bool
	over       bool
	running    bool
	started    bool // a start was seen
	stopped    bool // and its end
	placement  []workload.NodeShare
	since      time.Duration // when the stay began, while it runs
	attained   time.Duration // GPU-time before that, as far as it counts
	unknown    bool          // the GPU-time before the stay was not seen
}

// Hold keeps the events of jobs until Release, as of objects that are part of a list: the last ones of a job count.
func (t *Tracker) Hold() {
	if t.held == nil {
		t.held = kube.Derived{}
	}
}

// Release returns the events of the objects since Hold.
func (t *Tracker) Release() []workload.Event {
	all := t.held.Events()
	t.held = nil
	return t.fresh(all)
}

// Put returns the events that an object adds.
func (t *Tracker) Put(object map[string]any) ([]workload.Event, error) {
	if isNode(object) {
		return t.putNode(&unstructured.Unstructured{Object: object}), nil
	}
	all, err := t.Mapper.Put(object)
	return t.fresh(all), err
}

// Delete returns the events that the end of an object adds.
func (t *Tracker) Delete(object map[string]any, at time.Time) []workload.Event {
	o := &unstructured.Unstructured{Object: object}
	if end := o.GetDeletionTimestamp(); end != nil {
		at = end.Time
	}
	if isNode(object) {
		if n := t.nodes[o.GetName()]; n == nil || n.uid != string(o.GetUID()) {
			return nil // another of its name is there
		}
		return t.deleteNode(o.GetName(), at)
	}
	out := t.fresh(t.Mapper.Delete(object, at))
	id := string(o.GetUID())
	if j := t.jobs[id]; j != nil && !j.over { // of an object that is not understood, or known by its name alone
		when := max(time.Duration(at.UnixNano()), j.submission.Time, j.since)
		out = append(out, t.fresh([]workload.Event{{ID: fmt.Sprintf("%s/%v/%d", id, workload.Finished,
			when/time.Second), Kind: workload.Finished, Time: when,
			Job: workload.Job{ID: id, Status: workload.Cancelled}}})...)
	}
	delete(t.jobs, id)
	return out
}

// fresh returns the events that were not derived before.
func (t *Tracker) fresh(all []workload.Event) (out []workload.Event) {
	if t.held != nil {
		t.held.Put(all)
		return nil
	}
	if t.jobs == nil {
		t.jobs = map[string]*job{}
	}
	for _, e := range all {
		j := t.jobs[e.Job.ID]
		if j == nil && e.Kind != workload.Submitted {
			continue // of a job that is forgotten
		}
		if j == nil {
			j = &job{seen: map[string]bool{}}
			t.jobs[e.Job.ID] = j
		}
		if j.over || j.seen[e.ID] {
			continue
		}
		if j.seen[e.ID] = true; e.Kind == workload.Started && j.running {
			continue // pods that came later
		}
		if e.Kind == workload.Resumed && (j.running || !j.stopped) { // the end of the stay before was not seen
			out = append(out, t.take(j, workload.Event{ID: e.ID + "/before", Kind: workload.Preempted,
				Time: e.Time - time.Millisecond, Job: workload.Job{ID: e.Job.ID}, Lost: true}))
		}
		out = append(out, t.take(j, e))
	}
	return out
}

// take follows the state of a job, and returns the event as it is reported.
func (t *Tracker) take(j *job, e workload.Event) workload.Event {
	switch e.Kind {
	case workload.Submitted:
		if q := e.Job.Request(); t.KeepProgress && q.Requeue != workload.RequeueResumes {
			q.Requeue = workload.RequeueResumes
			e.Job.Requested = q.Shared()
		}
		j.submission = e
	case workload.Started, workload.Resumed:
		j.running, j.since, j.placement, j.started = true, e.Time, e.Placement, true
	case workload.Preempted:
		e.Lost = e.Lost && !t.KeepProgress
		j.stop(e.Time)
		if j.stopped, j.unknown = true, j.unknown || !j.started; e.Lost {
			j.attained, j.unknown = 0, false
			e.HasAttained = true
		}
	case workload.Resized:
		j.stop(e.Time)
		j.running, j.since, j.placement = true, e.Time, e.Placement
		j.submission.Job.GPUs = e.Job.GPUs
	case workload.Finished:
		*j = job{seen: j.seen, over: true}
	}
	return e
}

// stop ends a stay.
func (j *job) stop(at time.Duration) {
	j.attained = j.attainedAt(at)
	j.running, j.placement = false, nil
}

// mostAttained is the GPU-time that the API takes.
const mostAttained = math.MaxInt64 - 1<<10

func (j *job) attainedAt(at time.Duration) time.Duration {
	if !j.running {
		return j.attained
	}
	had := float64(j.attained) + float64(max(0, at-j.since))/1000*float64(j.submission.Job.GPUs)
	return time.Duration(min(had, mostAttained))
}

// Snapshot returns the active jobs and the nodes at an instant, which lies so far back that no event before it is still
// to come.
func (t *Tracker) Snapshot(now time.Time) workload.Event {
	at := time.Duration(now.UnixNano())
	out := workload.Event{Kind: workload.TakenSnapshot, Time: at}
	for _, id := range slices.Sorted(maps.Keys(t.jobs)) {
		j := t.jobs[id]
		if j.submission.ID == "" || j.submission.Time > at {
			continue
		}
		e := j.submission
		e.Job.Submit = e.Time
		if j.running && j.since <= at {
			e.Kind, e.Placement = workload.Started, j.placement
		}
		if !j.unknown {
			e.Attained, e.HasAttained = j.attainedAt(at), true
		}
		out.Active = append(out.Active, e)
	}
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		if n := t.nodes[name]; n.state != workload.NodeDown {
			out.Active = append(out.Active, workload.Event{Kind: n.state, Node: name, NodeGPUs: n.gpus})
		}
	}
	return out
}

// byTime orders events as they happened.
func byTime(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) }
