package events

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kueue"
	"github.com/autosched/autosched/workload/volcano"
)

// plain maps objects of a kind Job with the fields of a queueing system, whose conditions have the time of their last
// change alone.
type plain struct{}

// Put implements [Mapper].
func (plain) Put(o map[string]any) (out []workload.Event, err error) {
	meta, status := o["metadata"].(map[string]any), o["status"].(map[string]any)
	uid := meta["uid"].(string)
	emit := func(kind workload.EventKind, key string) {
		if at, ok := status[key]; ok {
			e := workload.Event{ID: fmt.Sprintf("%s/%v/%d", uid, kind, instant(at)/time.Second), Kind: kind,
				Time: instant(at), Job: workload.Job{ID: uid, GPUs: workload.GPUs(4)}, Lost: kind == workload.Preempted}
			if kind == workload.Finished {
				e.Job.Status = workload.Completed
			}
			out = append(out, e)
		}
	}
	emit(workload.Submitted, "created")
	start := workload.Started
	if status["evictions"].(int) > 0 {
		start = workload.Resumed
	}
	emit(start, "admitted")
	emit(workload.Preempted, "evicted")
	emit(workload.Finished, "finished")
	return out, nil
}

// Delete implements [Mapper].
func (plain) Delete(o map[string]any, at time.Time) []workload.Event {
	uid := o["metadata"].(map[string]any)["uid"].(string)
	return []workload.Event{{ID: uid + "/deleted", Kind: workload.Finished, Time: time.Duration(at.UnixNano()),
		Job: workload.Job{ID: uid, Status: workload.Cancelled}}}
}

// change is a version of an object, or its end.
type change struct {
	object map[string]any
	gone   bool
	at     time.Time
}

// uid returns the UID of an object.
func uid(o map[string]any) string { return o["metadata"].(map[string]any)["uid"].(string) }

var begin0 = time.Unix(1_700_000_000, 0).UTC()

// drawHistory draws the changes of jobs and nodes, in order of time.
func drawHistory(t *rapid.T) []change {
	var out []change
	for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		at := begin0
		later := func() string {
			at = at.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "later")) * 2 * lag)
			return at.Format(time.RFC3339)
		}
		id := fmt.Sprint("u", i)
		status := map[string]any{"created": later(), "evictions": 0}
		put := func() {
			out = append(out, change{object: map[string]any{"apiVersion": "x/v1", "kind": "Job",
				"metadata": map[string]any{"uid": id, "name": id}, "status": maps.Clone(status)}, at: at})
		}
		put()
		for range rapid.IntRange(0, 3).Draw(t, "stays") {
			status["admitted"] = later()
			put()
			delete(status, "admitted")
			status["evicted"], status["evictions"] = later(), status["evictions"].(int)+1
			put()
			delete(status, "evicted")
		}
		end := rapid.IntRange(0, 3).Draw(t, "end")
		if end > 0 {
			status["admitted"] = later()
			put()
		}
		if end > 1 {
			status["finished"] = later()
			put()
		}
		if end > 2 {
			later()
			out = append(out, change{object: out[len(out)-1].object, gone: true, at: at})
		}
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "nodes") {
		at, name := begin0, fmt.Sprint("n", i)
		for range rapid.IntRange(1, 5).Draw(t, "turns") {
			at = at.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "later")) * 2 * lag)
			out = append(out, change{at: at, object: nodeObject(name, at, rapid.Bool().Draw(t, "ready"),
				rapid.Bool().Draw(t, "cordoned"), rapid.SampledFrom([]int{0, 4, 8}).Draw(t, "gpus"))})
		}
	}
	slices.SortStableFunc(out, func(a, b change) int { return a.at.Compare(b.at) })
	return out
}

func nodeObject(name string, at time.Time, ready, cordoned bool, gpus int) map[string]any {
	status, text := "False", at.Format(time.RFC3339)
	if ready {
		status = "True"
	}
	return map[string]any{"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"uid": "uid-" + name, "name": name, "creationTimestamp": begin0.Format(time.RFC3339),
			"managedFields": []any{map[string]any{"manager": "kubelet", "time": text}}},
		"spec": map[string]any{"unschedulable": cordoned},
		"status": map[string]any{"allocatable": map[string]any{cluster.GPU: fmt.Sprint(gpus)}, "conditions": []any{
			map[string]any{"type": "Ready", "status": status, "lastTransitionTime": text}}}}
}

// feed has a tracker see changes as a watch does.
func feed(t *rapid.T, tracker *Tracker, changes []change) (out []workload.Event) {
	for _, c := range changes {
		events, err := tracker.Put(c.object)
		if c.gone {
			events = tracker.Delete(c.object, c.at)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, events...)
	}
	return out
}

// relist has a tracker see the objects that are there after changes, and that the others are gone.
func relist(t *rapid.T, tracker *Tracker, known []change, changes []change) (out []workload.Event) {
	there, last := map[string]change{}, map[string]change{}
	for _, c := range changes {
		last[uid(c.object)] = c
		if there[uid(c.object)] = c; c.gone {
			delete(there, uid(c.object))
		}
	}
	ids := slices.Sorted(maps.Keys(there))
	for _, i := range rapid.Permutation(ids).Draw(t, "order of the list") {
		out = append(out, feed(t, tracker, []change{there[i]})...)
	}
	for _, c := range known {
		if l := last[uid(c.object)]; l.gone {
			out = append(out, tracker.Delete(c.object, l.at)...)
		}
	}
	return out
}

func ids(events []workload.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

// state is the service's view of the jobs at the end of a history.
func state(events []workload.Event, at time.Time) any {
	l := workload.NewLedger(workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 8}}})
	for _, e := range events {
		if err := e.Validate(); err != nil {
			panic(err)
		}
		l.Apply(e)
	}
	type job struct {
		id       string
		submit   time.Duration
		running  bool
		since    time.Duration
		attained time.Duration
	}
	var jobs []job
	for _, j := range l.State(time.Duration(at.UnixNano())).Jobs {
		one := job{id: j.ID, submit: j.Submit, running: j.Running, attained: j.Attained}
		if j.Running {
			one.since = j.Since
		}
		jobs = append(jobs, one)
	}
	return jobs
}

// TestCuts: whenever a watch is cut and the objects are listed again, by the same process or another, the events are of
// the whole watch, and the jobs and nodes are in the same state.
func TestCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := drawHistory(t)
		end := changes[len(changes)-1].at.Add(time.Minute)
		whole := &Tracker{Mapper: plain{}}
		all := feed(t, whole, changes)
		from := rapid.IntRange(0, len(changes)).Draw(t, "cut")
		to := rapid.IntRange(from, len(changes)).Draw(t, "listed")
		cut := &Tracker{Mapper: plain{}}
		events := feed(t, cut, changes[:from])
		restart := rapid.Bool().Draw(t, "restart")
		known := changes[:from]
		if restart {
			cut, known = &Tracker{Mapper: plain{}}, nil
		}
		events = append(events, relist(t, cut, known, changes[:to])...)
		again := relist(t, cut, changes[:to], changes[:to])
		if len(again) > 0 {
			t.Fatalf("the list again gives %+v", again)
		}
		if restart { // the client sends a snapshot
			s := cut.Snapshot(changes[max(0, to-1)].at.Add(-lag))
			s.ID = "snapshot"
			events = append(events, s)
		}
		events = append(events, feed(t, cut, changes[to:])...)
		if a, b := whole.Snapshot(end), cut.Snapshot(end); !reflect.DeepEqual(a, b) {
			t.Fatalf("snapshots differ:\n%+v\n%+v", a, b)
		}
		if a, b := state(all, end), state(events, end); !reflect.DeepEqual(a, b) {
			t.Fatalf("states differ:\n%+v\n%+v", a, b)
		}
		for _, e := range events {
			gap := e.Kind == workload.Preempted || strings.HasSuffix(e.ID, "/deleted") // the true end was not seen
			if e.Kind.OfJob() && !gap && !slices.Contains(ids(all), e.ID) {
				t.Fatalf("%s is not of the watch: %v", e.ID, ids(all))
			}
		}
	})
}

// TestKeepProgress: jobs that keep their progress resume, and their GPU-time adds up; that of a stay before the first
// list is not known.
func TestKeepProgress(t *testing.T) {
	at := func(s int) string { return begin0.Add(time.Duration(s) * time.Second).Format(time.RFC3339) }
	version := func(status map[string]any) map[string]any {
		return map[string]any{"kind": "Job", "metadata": map[string]any{"uid": "u"}, "status": status}
	}
	history := []map[string]any{{"created": at(0), "evictions": 0},
		{"created": at(0), "evictions": 0, "admitted": at(10)},
		{"created": at(0), "evictions": 1, "evicted": at(30)}, {"created": at(0), "evictions": 1, "admitted": at(40)}}
	whole := &Tracker{Mapper: plain{}, KeepProgress: true}
	var events []workload.Event
	for _, h := range history {
		new, _ := whole.Put(version(h))
		events = append(events, new...)
	}
	if q := events[0].Job.Request(); q.Requeue != workload.RequeueResumes || events[2].Lost {
		t.Errorf("%+v", events)
	}
	s := whole.Snapshot(begin0.Add(50 * time.Second))
	if a := s.Active[0]; !a.HasAttained || a.Attained != 120*time.Second {
		t.Errorf("%+v", a)
	}
	late := &Tracker{Mapper: plain{}, KeepProgress: true}
	if _, err := late.Put(version(history[3])); err != nil {
		t.Fatal(err)
	}
	if a := late.Snapshot(begin0.Add(50 * time.Second)).Active[0]; a.HasAttained || a.Kind != workload.Started {
		t.Errorf("%+v", a)
	}
}

// TestNamesAlone: of an object that a list lacks only names and UID are known, and the jobs of both schedulers end.
func TestNamesAlone(t *testing.T) {
	at := begin0.Format(time.RFC3339)
	gpus := map[string]any{"containers": []any{map[string]any{"resources": map[string]any{
		"limits": map[string]any{cluster.GPU: "4"}}}}, "nodeName": "n"}
	meta := func(name string, more ...string) map[string]any {
		out := map[string]any{"name": name, "namespace": "ns", "uid": "uid-" + name, "creationTimestamp": at}
		if len(more) > 0 {
			out["annotations"] = map[string]any{"scheduling.k8s.io/group-name": more[0]}
		}
		return out
	}
	workloads := []map[string]any{
		{"kind": "LocalQueue", "metadata": meta("q"), "spec": map[string]any{"clusterQueue": "c"}},
		{"kind": "Workload", "metadata": meta("w"), "spec": map[string]any{"queueName": "q", "podSets": []any{
			map[string]any{"template": map[string]any{"spec": gpus}}}}}}
	pods := []map[string]any{{"kind": "PodGroup", "metadata": meta("g"), "spec": map[string]any{"queue": "q",
		"minResources": map[string]any{cluster.GPU: "4"}}},
		{"kind": "Pod", "metadata": meta("p", "g"), "spec": gpus,
			"status": map[string]any{"phase": "Running", "startTime": at}}}
	for name, x := range map[string]struct {
		mapper  Mapper
		objects []map[string]any
		want    []string
	}{
		"kueue":   {&kueue.Mapper{}, workloads, []string{"finished"}},
		"volcano": {&volcano.Mapper{}, pods, []string{"preempted", "finished"}},
	} {
		tracker := &Tracker{Mapper: x.mapper}
		for _, o := range x.objects {
			if _, err := tracker.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, o := range slices.Backward(x.objects) {
			m := o["metadata"].(map[string]any)
			for _, e := range tracker.Delete(map[string]any{"kind": o["kind"], "metadata": map[string]any{
				"name": m["name"], "namespace": m["namespace"], "uid": m["uid"]}}, begin0.Add(time.Minute)) {
				if got = append(got, e.Kind.String()); e.Validate() != nil {
					t.Errorf("%s: %v", name, e.Validate())
				}
			}
		}
		if !slices.Equal(got, x.want) || len(tracker.jobs) > 0 {
			t.Errorf("%s: %v, want %v; %d jobs are left", name, got, x.want, len(tracker.jobs))
		}
	}
}

// TestNodeAgain: a node that took another's name outlives the report that the other is gone.
func TestNodeAgain(t *testing.T) {
	tracker := &Tracker{Mapper: plain{}}
	before, now := nodeObject("n", begin0, true, false, 8), nodeObject("n", begin0, true, false, 8)
	before["metadata"].(map[string]any)["uid"] = "another"
	var got []string
	for _, e := range slices.Concat(tracker.putNode(&unstructured.Unstructured{Object: before}),
		tracker.putNode(&unstructured.Unstructured{Object: now}), tracker.Delete(before, begin0.Add(time.Minute))) {
		got = append(got, e.Kind.String())
	}
	there := tracker.Snapshot(begin0.Add(time.Hour)).Active
	if strings.Join(got, " ") != "node_up node_down node_up" || len(there) != 1 {
		t.Error(got)
	}
}

// TestGPUs: quantities are read as Kubernetes writes them.
func TestGPUs(t *testing.T) {
	for text, want := range map[any]int{"8": 8, int64(8): 8, "1k": 1000, "1e30": 0, "1M": workload.MaxGPUsPerNode,
		"2.5": 0, "-1": 0, "many": 0, nil: 0} {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "Node", "status": map[string]any{
			"allocatable": map[string]any{cluster.GPU: text}}}}
		if _, got, since := stateOf(o); got != want || since != 0 {
			t.Errorf("%v: %d, want %d; since %v", text, got, want, since)
		}
	}
}
