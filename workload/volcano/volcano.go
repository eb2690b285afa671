// Package volcano reads the life of jobs from Volcano's objects: the same events from saved lists and from watches.
package volcano

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
)

// Mapper makes events of PodGroups, whose tenants are Queues, and of their Pods. Its zero value knows no object. The
// order of objects does not matter, and the ids of events are the same however often an object is seen.
//
// A job starts when minMember of its pods run, and holds their GPUs from when as many had nodes: the time between is
// its start-up. It is resized where more pods run later, or pods end before the others; of changes in one second a list
// has the last.
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
	pods    map[string]kube.Pod
	gone    map[string]bool  // UIDs of pods of earlier stays
	earlier []workload.Event // of earlier stays
	resizes []workload.Event // of the present one, by pods that are gone
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
		p, err := kube.ReadPod(o)
		if err != nil {
			return nil, err
		}
		g := m.of(name)
		g.pods[o.UID()] = p
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
		m.groups[name] = &group{pods: map[string]kube.Pod{}}
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
// cancelled. Without a pod that held GPUs it is stopped, or resized where as many as it needs are left. at is the time
// where the object does not say.
func (m *Mapper) Delete(o map[string]any, at time.Time) []workload.Event {
	x := kubejson.Of(o)
	when := kube.Gone(x, at)
	switch x.Kind() {
	case "PodGroup":
		name := x.Namespace() + "/" + x.Name()
		g := m.groups[name]
		if g == nil || g.object == nil || g.object.UID() != x.UID() {
			return nil
		}
		events, err := m.events(g)
		delete(m.groups, name)
		if err != nil {
			return events
		}
		return kube.Cancelled(x.UID(), events, when)
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
		if g == nil {
			return nil
		}
		if p, known := g.pods[x.UID()]; !known || p.Ended < kube.Never {
			return nil
		}
		g.lose(m, x.UID(), when)
		events, _ := m.events(g)
		return events
	}
	return nil
}

// lose takes a pod that is gone off a job.
func (g *group) lose(m *Mapper, uid string, at time.Duration) {
	events, err := m.events(g)
	last := len(events) - 1
	pod := g.pods[uid]
	stays := err == nil && last > len(g.earlier) && events[last].Kind != workload.Finished
	left := 0
	for other, p := range g.pods {
		if other != uid && !g.gone[other] && p.Began < kube.Never {
			left++
		}
	}
	switch id := g.object.UID(); {
	case !stays, pod.Began == kube.Never && left >= g.least():
	case left >= g.least():
		at = max(at, events[last].Time)
		delete(g.pods, uid)
		pods := g.present()
		to := kube.SizeAt(pods, at)
		if to.GPUs > 0 && pod.GPUs > 0 {
			g.resizes = append(events[len(g.earlier)+1:len(events):len(events)], kube.Resize(id, to.GPUs+pod.GPUs, to))
		}
	default:
		e := kube.Event(id, workload.Preempted, max(at, events[last].Time))
		e.Lost = true
		g.earlier, g.resizes = append(g.earlier, append(events[len(g.earlier)+1:], e)...), nil
		if g.gone == nil {
			g.gone = map[string]bool{}
		}
		for uid := range g.pods {
			g.gone[uid] = true
		}
	}
	delete(g.pods, uid)
}

// events derives the events of a job, none while its GPUs are not known.
func (m *Mapper) events(g *group) ([]workload.Event, error) {
	o := g.object
	if o == nil {
		return nil, nil
	}
	created, err := kube.Check(o)
	if err != nil {
		return nil, err
	}
	pods := g.present()
	job, err := m.job(g, pods)
	if err != nil || job.GPUs == 0 {
		return nil, err
	}
	submitted := kube.Event(job.ID, workload.Submitted, created)
	submitted.Job = job
	out := append([]workload.Event{submitted}, g.earlier...)
	live := kube.Live(pods, g.least())
	last := out[len(out)-1].Time
	switch {
	case len(g.resizes) > 0: // the pods that it began with may be gone
		out = append(out, g.resizes...)
		for _, e := range live.Resizes(job.ID, live.Ended) {
			if e.Time > g.resizes[len(g.resizes)-1].Time {
				out = append(out, e)
			}
		}
	case len(live.Sizes) > 0:
		kind := workload.Started
		if len(g.earlier) > 0 {
			kind = workload.Resumed
		}
		out = append(out, live.Start(job.ID, kind, last, max(live.Held, last)))
		out = append(out, live.Resizes(job.ID, live.Ended)...)
	}
	last = out[len(out)-1].Time
	if len(pods) > 0 && live.Ended < kube.Never {
		status := workload.Completed
		if live.Failed {
			status = workload.Failed
		}
		out = append(out, kube.End(job.ID, status, max(live.Ended, last)))
	}
	return out, o.Err()
}

// least is the number of pods that start together.
func (g *group) least() int { return max(1, g.object.Get("spec", "minMember").Whole()) }

// present are the pods of the present stay, in order of name.
func (g *group) present() (pods []kube.Pod) {
	for _, uid := range slices.Sorted(maps.Keys(g.pods)) {
		if !g.gone[uid] {
			pods = append(pods, g.pods[uid])
		}
	}
	slices.SortStableFunc(pods, func(a, b kube.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// job describes a job by the least of its pods together, or by the least resources of its PodGroup where it has other
// pods or not all of them yet; its GPUs are 0 if it asks for none or they are not known.
func (m *Mapper) job(g *group, pods []kube.Pod) (workload.Job, error) {
	o := g.object
	var asks workload.Request
	least := g.least()
	gpus, members, priority := kubejson.ListGPUs(o.Get("spec", "minResources")), least, int64(math.MinInt64)
	if len(pods) >= least {
		sum, with := 0, 0
		for i := range pods[:least] {
			p := &pods[i]
			sum += p.GPUs
			if p.GPUs > 0 {
				with++
			}
			asks.MilliCPUs = min(asks.MilliCPUs+p.MilliCPUs, workload.MaxMilliCPUs)
			asks.Memory = min(asks.Memory+p.Memory, workload.MaxMemory)
			priority = max(priority, p.Priority)
		}
		if gpus == 0 || len(pods) == least {
			gpus, members = sum, with
		}
	}
	if priority == math.MinInt64 {
		priority = 0
	}
	if class, known := m.classes[o.Get("spec", "priorityClassName").Text()]; known {
		priority = class
	}
	asks.Priority = min(max(priority, -workload.MaxPriority), workload.MaxPriority)
	if members > 1 && members <= workload.MaxPlaces && gpus%members == 0 {
		asks.NodeCount = int32(members)
	}
	return kube.Job(o, cmp.Or(o.Get("spec", "queue").Text(), "default"), gpus, asks)
}
