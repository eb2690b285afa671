package volcano_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/volcano"
)

const t0 = 1767225600 // 2026-01-01T00:00:00Z

func at(s int) string { return time.Unix(t0+int64(s), 0).UTC().Format(time.RFC3339) }

// podGroup is a PodGroup of two pods.
func podGroup(name string) map[string]any {
	return map[string]any{"kind": "PodGroup", "metadata": map[string]any{"name": name, "namespace": "n",
		"uid": "uid-" + name, "creationTimestamp": at(0)}, "spec": map[string]any{"queue": "q", "minMember": int64(2),
		"minResources": map[string]any{"nvidia.com/gpu": "8"}}}
}

// pod is one of 4 GPUs that began and ended at seconds after t0; below 0 is not yet.
func pod(group, name string, began, ended int) map[string]any {
	status := map[string]any{"phase": "Pending"}
	spec := map[string]any{"containers": []any{map[string]any{"resources": map[string]any{
		"requests": map[string]any{"nvidia.com/gpu": int64(4), "cpu": "500m"}}}}}
	if began >= 0 {
		status["phase"], status["startTime"] = "Running", at(began)
		spec["nodeName"] = "g" + name[len(name)-1:]
	}
	if ended >= 0 {
		status["phase"] = "Succeeded"
		status["containerStatuses"] = []any{map[string]any{"state": map[string]any{
			"terminated": map[string]any{"finishedAt": at(ended)}}}}
	}
	return map[string]any{"kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "n",
		"uid": "uid-" + name, "annotations": map[string]any{"scheduling.k8s.io/group-name": group}}, "spec": spec, "status": status}
}

func lines(events []workload.Event) string {
	var out []string
	for _, e := range events {
		line := fmt.Sprintf("%v %d", e.Kind, int64(e.Time/time.Second)-t0)
		for _, p := range e.Placement {
			line += fmt.Sprintf(" %s:%d", p.Node, p.GPUs)
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

// TestLife: a gang whose pods are evicted and come again, seen by a watch.
func TestLife(t *testing.T) {
	var m volcano.Mapper
	for i, step := range []struct {
		put, gone map[string]any
		want      string
	}{
		{put: pod("j", "a-0", -1, -1)},
		{put: podGroup("j"), want: "submitted 0"},
		{put: pod("j", "a-1", 3, -1), want: "submitted 0"},
		{put: pod("j", "a-0", 2, -1), want: "submitted 0, started 3 g0:4 g1:4"},
		{gone: pod("j", "a-0", 2, -1), want: "submitted 0, started 3 g0:4 g1:4, preempted 9"},
		{gone: pod("j", "a-1", 3, -1), want: "submitted 0, started 3 g0:4 g1:4, preempted 9"},
		{put: pod("j", "b-0", 12, -1), want: "submitted 0, started 3 g0:4 g1:4, preempted 9"},
		{put: pod("j", "b-1", 11, -1), want: "submitted 0, started 3 g0:4 g1:4, preempted 9, resumed 12 g0:4 g1:4"},
		{put: pod("j", "b-1", 11, 20),
			want: "submitted 0, started 3 g0:4 g1:4, preempted 9, resumed 12 g0:4 g1:4"},
		{put: pod("j", "b-0", 12, 21),
			want: "submitted 0, started 3 g0:4 g1:4, preempted 9, resumed 12 g0:4 g1:4, finished 21"},
		{gone: podGroup("j"),
			want: "submitted 0, started 3 g0:4 g1:4, preempted 9, resumed 12 g0:4 g1:4, finished 21"},
		{put: podGroup("k"), want: "submitted 0"},
		{gone: podGroup("k"), want: "submitted 0, finished 9"},
	} {
		var events []workload.Event
		var err error
		if step.put != nil {
			events, err = m.Put(step.put)
		} else {
			events = m.Delete(step.gone, time.Unix(t0+9, 0))
		}
		if got := lines(events); err != nil || got != step.want {
			t.Fatalf("step %d: %v, %s, want %s", i, err, got, step.want)
		}
		for _, e := range events {
			if err := e.Validate(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	}
}

// TestOrder: whatever the order of objects and however often they come, a ledger is the same, and each job ends once.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var objects []map[string]any
		for j := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			name := fmt.Sprint("j", j)
			objects = append(objects, podGroup(name))
			began := rapid.IntRange(-5, 50).Draw(t, "began")
			for k := range 2 {
				ended := -1
				if began >= 0 && rapid.Bool().Draw(t, "ended") {
					ended = began + rapid.IntRange(0, 50).Draw(t, "ran")
				}
				objects = append(objects, pod(name, fmt.Sprint(name, "-", k), began, ended))
			}
		}
		run := func(objects []map[string]any) string {
			var m volcano.Mapper
			events := map[string]workload.Event{}
			for _, o := range objects {
				all, err := m.Put(o)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range all {
					events[e.ID] = e
				}
			}
			finished := map[string]int{}
			var out []string
			for id, e := range events {
				out = append(out, id+" "+lines([]workload.Event{e})+" "+fmt.Sprint(e.Job.GPUs, e.Job.Request()))
				if e.Kind == workload.Finished {
					finished[e.Job.ID]++
				}
			}
			for id, n := range finished {
				if n > 1 {
					t.Fatalf("%s ends %d times", id, n)
				}
			}
			slices.Sort(out)
			return strings.Join(out, "\n")
		}
		want := run(objects)
		other := rapid.Permutation(append(slices.Clone(objects), objects...)).Draw(t, "order")
		if got := run(other); got != want {
			t.Fatalf("in another order:\n%s\nwant\n%s", got, want)
		}
	})
}

// TestTooLarge: requests beyond 64 bits are the most that a job asks for.
func TestTooLarge(t *testing.T) {
	var m volcano.Mapper
	p := pod("j", "a-0", -1, -1)
	requests := map[string]any{"nvidia.com/gpu": int64(8), "cpu": "1e999", "memory": "9Ei"}
	p["spec"] = map[string]any{"containers": []any{map[string]any{"resources": map[string]any{"requests": requests}}}}
	g := podGroup("j")
	g["spec"].(map[string]any)["minMember"] = int64(1)
	if _, err := m.Put(p); err != nil {
		t.Fatal(err)
	}
	events, err := m.Put(g)
	if err != nil || len(events) != 1 {
		t.Fatalf("%v, %v", events, err)
	}
	if r := events[0].Job.Request(); r.MilliCPUs != workload.MaxMilliCPUs || r.Memory != workload.MaxMemory {
		t.Errorf("%+v", r)
	}
}

// FuzzTake: whatever an object says, there are valid events or an error that names it.
func FuzzTake(f *testing.F) {
	f.Add(`{"kind":"PodGroup","metadata":{"name":"a","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"},` +
		`"spec":{"minMember":1,"minResources":{"nvidia.com/gpu":"8"}}}`)
	f.Add(`{"items":[{"kind":"Pod","metadata":{"name":"a","uid":"u","annotations":{"scheduling.k8s.io/group-name":"a"}},` +
		`"spec":{"nodeName":"n","containers":[{"resources":{"limits":{"nvidia.com/gpu":"1e3"}}}]},` +
		`"status":{"startTime":"2026-01-01T00:00:00Z"}},{"kind":"PriorityClass","metadata":{"name":"p"},"value":1.5}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := kubejson.Read("x", []byte(text))
		if err != nil {
			return
		}
		var m volcano.Mapper
		for _, o := range objects {
			events, err := m.Take(o)
			if err != nil && !strings.Contains(err.Error(), o.Kind()) && !strings.Contains(err.Error(), "PodGroup") &&
				!strings.Contains(err.Error(), "Pod ") {
				t.Fatalf("the error names no object: %v", err)
			}
			for _, e := range events {
				if err := e.Validate(); err != nil {
					t.Fatalf("%v: %v", e.Kind, err)
				}
			}
		}
	})
}

// TestLate: pods that outlive their PodGroup leave nothing behind.
func TestLate(t *testing.T) {
	var m volcano.Mapper
	for _, name := range []string{"a", "b"} {
		if _, err := m.Put(podGroup(name)); err != nil {
			t.Fatal(err)
		}
		m.Delete(podGroup(name), time.Unix(t0+9, 0))
		for _, ended := range []int{-1, 5} {
			p := pod(name, fmt.Sprint("pod", ended), 1, ended)
			if _, err := m.Put(p); err != nil {
				t.Fatal(err)
			}
			m.Delete(p, time.Unix(t0+9, 0))
		}
	}
	if n := m.Groups(); n > 0 {
		t.Errorf("%d groups are left", n)
	}
}
