package volcano_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
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
			want: "submitted 0, started 3 g0:4 g1:4, preempted 9, resumed 12 g0:4 g1:4, resized 20 g0:4"},
		{put: pod("j", "b-0", 12, 21),
			want: "submitted 0, started 3 g0:4 g1:4, preempted 9, resumed 12 g0:4 g1:4, resized 20 g0:4, finished 21"},
		{gone: podGroup("j"),
			want: "submitted 0, started 3 g0:4 g1:4, preempted 9, resumed 12 g0:4 g1:4, resized 20 g0:4, finished 21"},
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

// starting is a pod that has its node and runs no container yet.
func starting(group, name string, bound int) map[string]any {
	p := pod(group, name, bound, -1)
	p["status"].(map[string]any)["phase"] = "Pending"
	return p
}

// TestStartUp: a gang that is bound waits until the last of its pods runs, and the GPUs that it held since count.
func TestStartUp(t *testing.T) {
	var m volcano.Mapper
	running := func(name string, bound, began int) map[string]any {
		p := pod("j", name, bound, -1)
		p["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{"restartCount": int64(1),
			"state":     map[string]any{"running": map[string]any{"startedAt": at(began + 90)}},
			"lastState": map[string]any{"terminated": map[string]any{"startedAt": at(began)}}}}
		return p
	}
	for i, step := range []struct {
		put  map[string]any
		want string
	}{
		{podGroup("j"), "submitted 0"},
		{starting("j", "a-0", 3), "submitted 0"},
		{starting("j", "a-1", 4), "submitted 0"},
		{running("a-1", 4, 60), "submitted 0"},
		{running("a-0", 3, 40), "submitted 0, started 60 g0:4 g1:4"},
	} {
		events, err := m.Put(step.put)
		if got := lines(events); err != nil || got != step.want {
			t.Fatalf("step %d: %v, %s, want %s", i, err, got, step.want)
		}
		if last := events[len(events)-1]; last.Kind == workload.Started && last.StartUp != 56*time.Second {
			t.Errorf("start-up of %v", last.StartUp)
		}
	}
}

// TestElastic: a job that starts on the least of its pods grows and shrinks with the others, and stops without it.
func TestElastic(t *testing.T) {
	var m volcano.Mapper
	for _, o := range []map[string]any{podGroup("j"), pod("j", "a-0", 3, -1), pod("j", "a-1", 3, -1),
		pod("j", "a-2", 7, -1), pod("j", "a-3", -1, -1)} {
		if _, err := m.Put(o); err != nil {
			t.Fatal(err)
		}
	}
	began := "submitted 0, started 3 g0:4 g1:4, resized 7 g0:4 g1:4 g2:4"
	for i, step := range []struct {
		gone map[string]any
		want string
	}{
		{pod("j", "a-3", -1, -1), began},
		{pod("j", "a-0", 3, -1), began + ", resized 20 g1:4 g2:4"},
		{pod("j", "a-2", 7, -1), began + ", resized 20 g1:4 g2:4, preempted 20"},
		{pod("j", "a-1", 3, -1), began + ", resized 20 g1:4 g2:4, preempted 20"},
	} {
		events := m.Delete(step.gone, time.Unix(t0+20, 0))
		if got := lines(events); got != step.want {
			t.Fatalf("step %d: %s, want %s", i, got, step.want)
		}
		if events[0].Job.GPUs != workload.GPUs(8) || events[2].Job.GPUs != workload.GPUs(12) {
			t.Errorf("%+v", events)
		}
	}
}

// TestPriority: priorities below 0 count as they are.
func TestPriority(t *testing.T) {
	var m volcano.Mapper
	g := podGroup("j")
	g["spec"].(map[string]any)["priorityClassName"] = "low"
	for _, o := range []map[string]any{{"kind": "PriorityClass", "metadata": map[string]any{"name": "low"},
		"value": int64(-5)}, g} {
		events, err := m.Put(o)
		if err != nil || len(events) > 0 && (events[0].Validate() != nil || events[0].Job.Request().Priority != -5) {
			t.Fatalf("%v, %v", events, err)
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
			for k := range rapid.IntRange(2, 3).Draw(t, "pods") {
				ended := -1
				if began >= 0 && rapid.Bool().Draw(t, "ended") {
					ended = began + rapid.IntRange(0, 50).Draw(t, "ran")
				}
				objects = append(objects, pod(name, fmt.Sprint(name, "-", k), began, ended))
			}
		}
		run := func(objects []map[string]any) string {
			var m volcano.Mapper
			derived := kube.Derived{}
			for _, o := range objects {
				all, err := m.Put(o)
				if err != nil {
					t.Fatal(err)
				}
				derived.Put(all)
			}
			events := map[string]workload.Event{}
			for _, e := range derived.Events() {
				events[e.ID] = e
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

// TestRelist: at any point of a watch, a list of the objects gives events of the watch alone, and the same view of the
// jobs to a ledger.
func TestRelist(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			at     int
			object map[string]any
		}
		var history []version
		for j := range rapid.IntRange(1, 3).Draw(t, "jobs") {
			name := fmt.Sprint("j", j)
			history = append(history, version{0, podGroup(name)})
			for k := range rapid.IntRange(2, 3).Draw(t, "pods") {
				member := fmt.Sprint(name, "-", k)
				pod := func(began, ended int) map[string]any { return pod(name, member, began, ended) }
				now := 1
				then := func(o map[string]any) {
					history = append(history, version{now, o})
					now += rapid.IntRange(1, 20).Draw(t, "later")
				}
				then(pod(-1, -1))
				bound := now
				then(starting(name, member, bound))
				began := now
				with := func(o map[string]any, ended ...int) map[string]any {
					state := map[string]any{"running": map[string]any{"startedAt": at(began)}}
					if len(ended) > 0 {
						state = map[string]any{"terminated": map[string]any{"startedAt": at(began),
							"finishedAt": at(ended[0])}}
					}
					o["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{"state": state}}
					return o
				}
				then(with(pod(bound, -1)))
				if rapid.Bool().Draw(t, "ends") {
					then(with(pod(bound, now), now))
				}
			}
		}
		slices.SortStableFunc(history, func(a, b version) int { return a.at - b.at })
		cut := rapid.IntRange(1, len(history)).Draw(t, "cut")
		for cut < len(history) && history[cut].at == history[cut-1].at {
			cut++
		}
		var watch, list volcano.Mapper
		seen, there, reported := kube.Derived{}, map[string]map[string]any{}, map[string]bool{}
		for _, v := range history[:cut] {
			events, err := watch.Put(v.object)
			if err != nil {
				t.Fatal(err)
			}
			seen.Put(events)
			for _, e := range events {
				reported[e.ID] = true
			}
			there[v.object["kind"].(string)+v.object["metadata"].(map[string]any)["name"].(string)] = v.object
		}
		listed := kube.Derived{}
		for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(there))).Draw(t, "order") {
			events, err := list.Put(there[name])
			if err != nil {
				t.Fatal(err)
			}
			listed.Put(events)
		}
		for _, e := range listed.Events() {
			delete(reported, e.ID)
		}
		changes := map[string]int{}
		for _, v := range history {
			changes[fmt.Sprint("/resized/", t0+v.at, "/")]++
		}
		for id := range reported {
			for second, n := range changes {
				if n > 1 && strings.Contains(id, second) { // a watch sees them one by one
					delete(reported, id)
				}
			}
		}
		if len(reported) > 0 {
			t.Fatalf("the watch reported %v as well", reported)
		}
		if a, b := fmt.Sprintf("%+v", lines(seen.Events())), fmt.Sprintf("%+v", lines(listed.Events())); a != b {
			t.Fatalf("the watch gives\n%s\nthe list\n%s", a, b)
		}
	})
}
