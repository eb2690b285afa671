// Package volcano reads the life of jobs from Volcano's objects: the same events from saved lists and from watches.
package volcano

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
)

// Mapper makes events of PodGroups, whose tenants are Queues, and of their Pods. Its zero value knows no object. The
// order of objects does not matter, and the ids of events are the same however often an object is seen.
//
// An evicted job gets other pods: the stays before are known to a watch that saw the pods go, not to a list.
type Mapper struct {
	groups  map[string]*group // by namespace/name
	pods    map[string]string // names of their groups by UID
	classes map[string]int64  // values of PriorityClasses
}

// group is a PodGroup with its pods.
type group struct {
	object  *kubejson.Object // nil until it is seen
	pods    map[string]*kubejson.Object
	gone    map[string]bool  // UIDs of pods of earlier stays
	earlier []workload.Event // of earlier stays
}

// Put takes an object as kubectl prints it, in place of an earlier one, and returns the events so far of the job that
// it concerns, in order of time since 1970. Objects of other kinds than PodGroup and Pod, and PodGroups without GPUs,
// have none.
func (m *Mapper) Put(o map[string]any) ([]workload.Event, error) { return m.Take(kubejson.Of(o)) }

// Take is Put of an object that was read.
func (m *Mapper) Take(o *kubejson.Object) ([]workload.Event, error) {
	switch o.Kind() {
	case "PriorityClass":
		if m.classes == nil {
			m.classes = map[string]int64{}
		}
		m.classes[o.Name()] = o.Get("value").Int()
		return nil, o.Err()
	case "PodGroup":
		g := m.of(o.Namespace() + "/" + o.Name())
		if g.object != nil && g.object.UID() != o.UID() { // another one of the same name
			*g = group{pods: g.pods}
		}
		g.object = o
		return m.events(g)
	case "Pod":
		name := groupOf(o)
		if name == "" {
			return nil, o.Err()
		}
		g := m.of(name)
		g.pods[o.UID()] = o
		if m.pods == nil {
			m.pods = map[string]string{}
		}
		m.pods[o.UID()] = name
		return m.events(g)
	}
	return nil, nil
}

// Unknown is the number of PodGroups without events: they ask for no GPUs, or their pods were not seen.
func (m *Mapper) Unknown() int {
	n := 0
	for _, g := range m.groups {
		if g.object == nil {
			continue
		}
		if events, err := m.events(g); err == nil && len(events) == 0 {
			n++
		}
	}
	return n
}

func (m *Mapper) of(name string) *group {
	if m.groups == nil {
		m.groups = map[string]*group{}
	}
	if m.groups[name] == nil {
		m.groups[name] = &group{pods: map[string]*kubejson.Object{}}
	}
	return m.groups[name]
}

// groupOf is the PodGroup of a pod, with its namespace; empty if it has none.
func groupOf(pod *kubejson.Object) string {
	annotations := pod.Get("metadata", "annotations")
	name := cmp.Or(annotations.Get("scheduling.k8s.io/group-name").Text(),
		annotations.Get("scheduling.volcano.sh/group-name").Text())
	if name == "" {
		return ""
	}
	return pod.Namespace() + "/" + name
}

// Delete returns the events of a job of which an object is gone: with its PodGroup a job that had not ended is
// cancelled, with a pod that held GPUs it is stopped. at is the time where the object does not say.
func (m *Mapper) Delete(o map[string]any, at time.Time) []workload.Event {
	x := kubejson.Of(o)
	when := time.Duration(at.UnixNano())
	if t, ok := x.Get("metadata", "deletionTimestamp").Time(); ok {
		when = t
	}
	switch x.Kind() {
	case "PodGroup":
		name := x.Namespace() + "/" + x.Name()
		g := m.groups[name]
		if g == nil || g.object == nil || g.object.UID() != x.UID() {
			return nil
		}
		events, err := m.events(g)
		delete(m.groups, name)
		if err != nil || len(events) == 0 || events[len(events)-1].Kind == workload.Finished {
			return events
		}
		return append(events, g.end(workload.Cancelled, max(when, events[len(events)-1].Time)))
	case "Pod":
		name := m.pods[x.UID()]
		delete(m.pods, x.UID())
		g := m.groups[name]
		if g != nil && g.object == nil { // its PodGroup went before
			if delete(g.pods, x.UID()); len(g.pods) == 0 {
				delete(m.groups, name)
			}
			return nil
		}
		if g == nil || g.pods[x.UID()] == nil || ended(g.pods[x.UID()]) {
			return nil
		}
		g.stop(m, x.UID(), when)
		events, _ := m.events(g)
		return events
	}
	return nil
}

// stop ends the present stay of a job, of which a pod is gone.
func (g *group) stop(m *Mapper, pod string, at time.Duration) {
	events, err := m.events(g)
	if last := len(events) - 1; err == nil && last > 0 &&
		(events[last].Kind == workload.Started || events[last].Kind == workload.Resumed) {
		e := g.event(workload.Preempted, max(at, events[last].Time))
		e.Lost = true
		g.earlier = append(g.earlier, events[last], e)
		if g.gone == nil {
			g.gone = map[string]bool{}
		}
		for uid := range g.pods {
			g.gone[uid] = true
		}
	}
	delete(g.pods, pod)
}

// events derives the events of a job, none while its GPUs are not known.
func (m *Mapper) events(g *group) ([]workload.Event, error) {
	o := g.object
	if o == nil {
		return nil, nil
	}
	if o.UID() == "" {
		return nil, fmt.Errorf("%s: metadata.uid: is not there", o)
	}
	created, ok := o.Get("metadata", "creationTimestamp").Time()
	if !ok {
		return nil, cmp.Or(o.Err(), fmt.Errorf("%s: metadata.creationTimestamp: is not there", o))
	}
	job, pods, err := m.job(g)
	if err != nil || job.GPUs == 0 {
		return nil, err
	}
	submitted := g.event(workload.Submitted, created)
	submitted.Job = job
	out := append([]workload.Event{submitted}, g.earlier...)
	start, end := time.Duration(math.MinInt64), time.Duration(math.MinInt64)
	running, over, failed := 0, 0, false
	var at []workload.NodeShare
	for _, p := range pods {
		if t, ok := begun(p); ok {
			running, start = running+1, max(start, t)
			at = append(at, workload.NodeShare{Node: p.Get("spec", "nodeName").Text(),
				GPUs: kubejson.PodGPUs(p.Get("spec"))})
		}
		if ended(p) {
			over, end = over+1, max(end, endOf(p))
			failed = failed || p.Get("status", "phase").Text() == "Failed"
		}
		if p.Err() != nil {
			return nil, p.Err()
		}
	}
	last := out[len(out)-1].Time
	if running > 0 && running >= g.least() {
		kind := workload.Started
		if len(g.earlier) > 0 {
			kind = workload.Resumed
		}
		e := g.event(kind, max(start, last))
		e.Placement = merged(at)
		out, last = append(out, e), e.Time
	}
	if over > 0 && over == len(pods) && over >= g.least() {
		status := workload.Completed
		if failed {
			status = workload.Failed
		}
		out = append(out, g.end(status, max(end, last)))
	}
	return out, o.Err()
}

// least is the number of pods that start together.
func (g *group) least() int { return max(1, g.object.Get("spec", "minMember").Whole()) }

// job describes a job by its pods together, or before there are all of them by the least resources of its PodGroup; its
// GPUs are 0 if it asks for none or they are not known. pods are the ones of the present stay, in order of name.
func (m *Mapper) job(g *group) (job workload.Job, pods []*kubejson.Object, err error) {
	o := g.object
	asks := workload.Request{Requeue: workload.RequeueRestarts}
	gpus, members, priority := 0, g.least(), int64(0)
	for _, uid := range slices.Sorted(maps.Keys(g.pods)) {
		if !g.gone[uid] {
			pods = append(pods, g.pods[uid])
		}
	}
	slices.SortStableFunc(pods, func(a, b *kubejson.Object) int { return cmp.Compare(a.Name(), b.Name()) })
	if len(pods) >= members {
		members = 0
		for _, p := range pods {
			if n := kubejson.PodGPUs(p.Get("spec")); n > 0 {
				gpus, members = gpus+n, members+1
			}
			priority = max(priority, p.Get("spec", "priority").Int())
			for _, c := range p.Get("spec", "containers").Items() {
				requests := c.Get("resources", "requests")
				asks.MilliCPUs = sum(asks.MilliCPUs, math.Ceil(1000*requests.Get("cpu").Float()), workload.MaxMilliCPUs)
				asks.Memory = sum(asks.Memory, requests.Get("memory").Float(), workload.MaxMemory)
			}
			if p.Err() != nil {
				return job, nil, p.Err()
			}
		}
	} else {
		gpus = kubejson.ListGPUs(o.Get("spec", "minResources"))
	}
	if class, known := m.classes[o.Get("spec", "priorityClassName").Text()]; known {
		priority = class
	}
	asks.Priority = min(max(0, priority), workload.MaxPriority)
	if members > 1 && gpus%members == 0 {
		asks.NodeCount = int32(members)
	}
	if gpus > workload.MaxGPUs {
		return job, nil, fmt.Errorf("%s: spec: asks for more than %d GPUs", o, workload.MaxGPUs)
	}
	return workload.Job{ID: o.UID(), Tenant: cmp.Or(o.Get("spec", "queue").Text(), "default"), Key: kubejson.Key(o),
		GPUs: workload.GPUs(gpus), Requested: asks.Shared()}, pods, o.Err()
}

// sum adds an amount, which may be infinite, up to a limit.
func sum(a int64, more float64, most int64) int64 {
	return int64(min(float64(a)+max(0, more), float64(most)))
}

// begun is when a pod on a node began.
func begun(pod *kubejson.Object) (at time.Duration, ok bool) {
	if pod.Get("spec", "nodeName").Text() == "" {
		return 0, false
	}
	if at, ok = pod.Get("status", "startTime").Time(); ok {
		return at, true
	}
	for _, c := range pod.Get("status", "conditions").Items() {
		if c.Get("type").Text() == "PodScheduled" && c.Get("status").Text() == "True" {
			return c.Get("lastTransitionTime").Time()
		}
	}
	return 0, false
}

// ended reports whether a pod came to its end, which endOf is.
func ended(pod *kubejson.Object) bool {
	phase := pod.Get("status", "phase").Text()
	return phase == "Succeeded" || phase == "Failed"
}

func endOf(pod *kubejson.Object) time.Duration {
	end := time.Duration(math.MinInt64)
	for _, c := range pod.Get("status", "containerStatuses").Items() {
		if t, ok := c.Get("state", "terminated", "finishedAt").Time(); ok {
			end = max(end, t)
		}
	}
	for _, c := range pod.Get("status", "conditions").Items() {
		if t, ok := c.Get("lastTransitionTime").Time(); ok && end == math.MinInt64 && c.Get("type").Text() == "Ready" {
			end = t
		}
	}
	return end
}

// merged adds up the GPUs on each node.
func merged(at []workload.NodeShare) []workload.NodeShare {
	var out []workload.NodeShare
	for _, n := range at {
		if i := slices.IndexFunc(out, func(o workload.NodeShare) bool { return o.Node == n.Node }); i >= 0 {
			out[i].GPUs += n.GPUs
		} else if n.GPUs > 0 {
			out = append(out, n)
		}
	}
	return out
}

// event is one of a job, whose id is the same whenever it is derived.
func (g *group) event(kind workload.EventKind, at time.Duration) workload.Event {
	uid := g.object.UID()
	return workload.Event{ID: fmt.Sprintf("%s/%v/%d", uid, kind, int64(at/time.Second)), Kind: kind, Time: at,
		Job: workload.Job{ID: uid}}
}

func (g *group) end(status workload.Status, at time.Duration) workload.Event {
	e := g.event(workload.Finished, at)
	e.Job.Status = status
	return e
}
