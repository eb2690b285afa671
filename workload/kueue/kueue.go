// Package kueue reads the life of jobs from Kueue's objects: the same events from saved lists and from watches.
package kueue

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
)

// Mapper makes events of Workloads, whose tenants are ClusterQueues by way of LocalQueues. Its zero value knows no
// object. The order of objects does not matter, and the ids of events are the same however often an object is seen.
//
// A job starts when all of its pods run, as far as Pods or the condition PodsReady are seen, and else when it is
// admitted, which is when its quota is held in any case: the time between is its start-up. Pods that are gone before
// their job ended leave its admission for its start.
//
// An object keeps the last transition of each condition: a list does not have the earlier stays of a job that was
// evicted, which a watch saw.
type Mapper struct {
	// Pods says that Pods are seen, too: a job that others than its user made pods for waits for them.
	Pods bool

	queues map[string]string          // ClusterQueues by namespace/LocalQueue
	jobs   map[string]*job            // by namespace/name of Workloads
	owned  map[string]string          // keys of jobs by UIDs of the objects that made their Workloads
	loose  map[string]map[string]bool // pods of Workloads that are not known, by the UIDs of their makers
	pods   map[string]*pod            // by UID
}

// pod is a Pod with the key of its job, empty while that is not known.
type pod struct {
	kube.Pod
	job, maker string
}

// change is the last transition of a condition.
type change struct {
	is, known bool
	at        time.Duration
	reason    string
}

// job is a Workload with its pods.
type job struct {
	workload.Job
	seen              bool // the Workload
	queue             string
	cluster           string // ClusterQueue that admitted it
	maker             string // UID of the object it was made for
	created           time.Duration
	hold              time.Duration
	count             int // pods
	evictions         int // before the present stay
	admitted, evicted change
	ready, finished   change
	ended             workload.Status
	resized           workload.Event // by reclaimable pods; of kind EventUnknown if it was not
	pods              map[string]bool

	stay  time.Duration    // admission of the stay that began
	began []workload.Event // its start
}

// Put takes an object as kubectl prints it, in place of an earlier one, and returns the events so far of the jobs that
// it concerns, in order of time since 1970. Objects of other kinds than LocalQueue, Workload and Pod, and Workloads
// without GPUs, have none.
func (m *Mapper) Put(o map[string]any) ([]workload.Event, error) { return m.Take(kubejson.Of(o)) }

// Take is Put of an object that was read.
func (m *Mapper) Take(o *kubejson.Object) ([]workload.Event, error) {
	if m.queues == nil {
		m.queues, m.jobs, m.owned = map[string]string{}, map[string]*job{}, map[string]string{}
		m.loose, m.pods = map[string]map[string]bool{}, map[string]*pod{}
	}
	switch o.Kind() {
	case "LocalQueue":
		key := o.Namespace() + "/" + o.Name()
		was, to := m.queues[key], o.Get("spec", "clusterQueue").Text()
		m.queues[key] = to
		var out []workload.Event
		if was != to {
			for _, j := range m.jobs {
				if j.queue == key {
					out = append(out, m.events(j)...)
				}
			}
		}
		slices.SortFunc(out, workload.CompareEvents)
		return out, o.Err()
	case "Workload":
		return m.workload(o)
	case "Pod":
		return m.pod(o)
	}
	return nil, nil
}

func (m *Mapper) of(key string) *job {
	if m.jobs[key] == nil {
		m.jobs[key] = &job{pods: map[string]bool{}}
	}
	return m.jobs[key]
}

// forget drops a job of which nothing is left.
func (m *Mapper) forget(key string) {
	if j := m.jobs[key]; j != nil && !j.seen && len(j.pods) == 0 {
		delete(m.jobs, key)
	}
}

// Delete returns the events of an object that is gone: a job that had not ended is cancelled then. at is the time where
// the object does not say. An object with its name alone has no events.
func (m *Mapper) Delete(o map[string]any, at time.Time) []workload.Event {
	x := kubejson.Of(o)
	switch x.Kind() {
	case "Workload":
		events, err := m.Take(x)
		key := x.Namespace() + "/" + x.Name()
		if j := m.jobs[key]; j != nil && j.ID == x.UID() {
			delete(m.owned, j.maker)
			*j = job{pods: j.pods}
		}
		m.forget(key)
		if err != nil {
			return nil
		}
		return kube.Cancelled(x.UID(), events, kube.Gone(x, at))
	case "Pod":
		p := m.pods[x.UID()]
		if p == nil {
			return nil
		}
		delete(m.pods, x.UID())
		if delete(m.loose[p.maker], x.UID()); len(m.loose[p.maker]) == 0 {
			delete(m.loose, p.maker)
		}
		if j := m.jobs[p.job]; j != nil {
			delete(j.pods, x.UID())
		}
		m.forget(p.job)
	}
	return nil
}

// Waiting is the number of Workloads whose LocalQueue is not known.
func (m *Mapper) Waiting() int {
	n := 0
	for _, j := range m.jobs {
		if j.seen && j.GPUs > 0 && m.tenant(j) == "" {
			n++
		}
	}
	return n
}

func (m *Mapper) tenant(j *job) string { return cmp.Or(m.queues[j.queue], j.cluster) }

// makerOf is the UID of the object that controls another one, empty if there is none.
func makerOf(o *kubejson.Object) string {
	for _, owner := range o.Get("metadata", "ownerReferences").Items() {
		if owner.Get("controller").Bool() {
			return owner.Get("uid").Text()
		}
	}
	return ""
}

// pod takes a Pod, whose job its annotation names, or else the object that made both.
func (m *Mapper) pod(o *kubejson.Object) ([]workload.Event, error) {
	read, err := kube.ReadPod(o)
	if err != nil || o.UID() == "" {
		return nil, err
	}
	p := &pod{Pod: read, maker: makerOf(o)}
	if name := o.Get("metadata", "annotations").Get("kueue.x-k8s.io/workload").Text(); name != "" {
		p.job = o.Namespace() + "/" + name
	} else if p.job = m.owned[p.maker]; p.job == "" {
		if p.maker == "" {
			return nil, o.Err()
		}
		if m.loose[p.maker] == nil {
			m.loose[p.maker] = map[string]bool{}
		}
		m.loose[p.maker][o.UID()] = true
	}
	if m.pods[o.UID()] = p; p.job == "" {
		return nil, o.Err()
	}
	j := m.of(p.job)
	j.pods[o.UID()] = true
	return m.events(j), o.Err()
}

// workload takes a Workload.
func (m *Mapper) workload(o *kubejson.Object) ([]workload.Event, error) {
	read, err := read(o)
	if err != nil || read.GPUs == 0 {
		return nil, err
	}
	key := o.Namespace() + "/" + o.Name()
	j := m.of(key)
	if read.pods = j.pods; j.ID == read.ID {
		read.stay, read.began = j.stay, j.began
	}
	*j = read
	if j.maker != "" {
		m.owned[j.maker] = key
		for uid := range m.loose[j.maker] {
			m.pods[uid].job, j.pods[uid] = key, true
		}
		delete(m.loose, j.maker)
	}
	return m.events(j), nil
}

// read reads a Workload.
func read(o *kubejson.Object) (j job, err error) {
	if j.Job, err = Job(o); err != nil || j.GPUs == 0 {
		return j, err
	}
	j.created, _ = kube.Check(o)
	j.seen, j.queue, j.maker = true, queueOf(o), makerOf(o)
	j.cluster = o.Get("status", "admission", "clusterQueue").Text()
	if admitted := o.Get("status", "admission", "podSetAssignments").Items(); len(admitted) > 0 {
		for _, a := range admitted {
			j.count += a.Get("count").Whole()
		}
	} else {
		for _, set := range sets(o) {
			j.count += set.count
		}
	}
	for _, c := range o.Get("status", "conditions").Items() {
		to := map[string]*change{"Admitted": &j.admitted, "Evicted": &j.evicted, "Finished": &j.finished,
			"PodsReady": &j.ready}[c.Get("type").Text()]
		if to == nil {
			continue
		}
		*to = change{is: c.Get("status").Text() == "True", known: true, reason: c.Get("reason").Text()}
		at, known := c.Get("lastTransitionTime").Time()
		if to.at = max(at, j.created); to.is && !known {
			c.Fail("has no lastTransitionTime")
		}
		if to == &j.finished {
			j.ended = status(to.reason, c.Get("message").Text())
		}
	}
	for _, e := range o.Get("status", "schedulingStats", "evictions").Items() {
		j.evictions += e.Get("count").Whole()
	}
	switch {
	case j.evicted.is: // since then
		j.evictions = max(0, j.evictions-1)
	case j.evicted.known:
		j.evictions = max(1, j.evictions)
	}
	if until, held := o.Get("status", "requeueState", "requeueAt").Time(); held {
		j.hold = workload.DeadlineAt(until)
	}
	j.reclaim(o)
	return j, o.Err()
}

// reclaim reads when the quota of pods that had ended was given back, which the fields of their manager say.
func (j *job) reclaim(o *kubejson.Object) {
	gone := map[string]int{}
	for _, r := range o.Get("status", "reclaimablePods").Items() {
		gone[r.Get("name").Text()] = r.Get("count").Whole()
	}
	left := 0
	for _, set := range sets(o) {
		left += max(0, set.count-gone[set.name]) * set.gpus
	}
	if len(gone) == 0 || left == 0 {
		return
	}
	for _, f := range o.Get("metadata", "managedFields").Items() {
		if at, ok := f.Get("time").Time(); ok && f.Get("manager").Text() == "kueue-reclaimable-pods" {
			j.resized = kube.Resize(j.ID, j.GPUs.Whole(), kube.Size{At: at, GPUs: left})
		}
	}
}

// queueOf is the LocalQueue of a Workload, with its namespace.
func queueOf(o *kubejson.Object) string {
	return o.Namespace() + "/" + o.Get("spec", "queueName").Text()
}

// events derives the events of a Workload, none while its tenant is not known.
func (m *Mapper) events(j *job) []workload.Event {
	tenant := m.tenant(j)
	if !j.seen || tenant == "" {
		return nil
	}
	submitted := kube.Event(j.ID, workload.Submitted, j.created)
	submitted.Job = j.Job
	submitted.Job.Tenant = tenant
	out := append([]workload.Event{submitted}, m.stays(j)...)
	if j.evicted.is {
		e := kube.Event(j.ID, workload.Preempted, j.evicted.at)
		e.Lost, e.HoldUntil = true, j.hold
		out = append(out, e)
	}
	if j.finished.is {
		out = append(out, kube.End(j.ID, j.ended, j.finished.at))
	}
	slices.SortFunc(out, workload.CompareEvents)
	return out
}

// stays derives the events of the present stay, none until its pods run.
func (m *Mapper) stays(j *job) (out []workload.Event) {
	if !j.admitted.is {
		return nil
	}
	end := time.Duration(math.MaxInt64)
	if j.finished.is {
		end = j.finished.at
	}
	pods := make([]kube.Pod, 0, len(j.pods))
	for _, uid := range slices.Sorted(maps.Keys(j.pods)) {
		if p := m.pods[uid].Pod; p.Bound >= j.admitted.at-time.Minute { // not of an earlier stay, by clocks that differ
			pods = append(pods, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b kube.Pod) int { return cmp.Compare(a.Name, b.Name) })
	live := kube.Live(pods, j.count)
	if j.began != nil && j.stay == j.admitted.at { // pods that come and go later do not change it
		out = slices.Clone(j.began)
	} else if out = m.start(j, &live); live.Began < kube.Never {
		j.began, j.stay = out[:1:1], j.admitted.at
	}
	if out != nil {
		out = append(out, live.Resizes(j.ID, end)...)
	}
	if len(pods) == 0 && out != nil && j.resized.Kind == workload.Resized && j.resized.Time > out[0].Time &&
		j.resized.Time < end {
		out = append(out, j.resized)
	}
	return out
}

// start derives the start of the present stay, none until its pods run.
func (m *Mapper) start(j *job, live *kube.Gang) []workload.Event {
	kind, at := workload.Started, j.admitted.at
	if j.evictions > 0 {
		kind = workload.Resumed
	}
	e := kube.Event(j.ID, kind, at)
	over := j.finished.is || j.evicted.is
	switch {
	case live.Began < kube.Never:
		return []workload.Event{live.Start(j.ID, kind, at, at)}
	case len(j.pods) > 0 && !over:
		return nil
	case len(j.pods) == 0 && j.ready.is && j.ready.reason == "Started" && j.ready.at >= at:
		e = kube.Event(j.ID, kind, j.ready.at)
	case len(j.pods) == 0 && j.ready.known && !j.ready.is && j.ready.reason == "WaitForStart" && !over:
		return nil
	case m.Pods && j.maker != "" && !over && !j.ready.known:
		return nil
	}
	e.StartUp = e.Time - at
	return []workload.Event{e}
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
	if _, err := kube.Check(o); err != nil {
		return workload.Job{}, err
	}
	priority := min(max(o.Get("spec", "priority").Int(), -workload.MaxPriority), workload.MaxPriority)
	return kube.Job(o, "", GPUs(o), workload.Request{Priority: priority})
}

// set is a PodSet: pods with GPUs each.
type set struct {
	name        string
	count, gpus int
}

// sets are the PodSets as they were submitted.
func sets(o *kubejson.Object) (out []set) {
	for _, s := range o.Get("spec", "podSets").Items() {
		x := set{name: s.Get("name").Text(), count: 1,
			gpus: min(kubejson.PodGPUs(s.Get("template", "spec")), workload.MaxGPUs+1)}
		if n := s.Get("count"); n.Has() {
			if x.count = n.Whole(); x.count < 0 {
				n.Fail("is negative")
			}
		}
		x.count = max(0, x.count)
		out = append(out, x)
	}
	return out
}

// GPUs is the number of GPUs of all pods of a Workload.
func GPUs(o *kubejson.Object) int {
	gpus := 0
	for _, s := range sets(o) {
		if gpus += s.count * s.gpus; gpus > workload.MaxGPUs {
			o.Get("spec", "podSets").Fail("asks for more than %d GPUs", workload.MaxGPUs)
			break
		}
	}
	return gpus
}
