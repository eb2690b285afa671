package kueue_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
	"github.com/autosched/autosched/workload/kueue"
)

const t0 = 1767225600 // 2026-01-01T00:00:00Z

// object is a Workload of 4 GPUs with conditions, by type: its status and the seconds since t0.
func object(uid string, conditions map[string]string) map[string]any {
	at := func(s string) string {
		var n int64
		_, _ = fmt.Sscan(s, &n)
		return time.Unix(t0+n, 0).UTC().Format(time.RFC3339)
	}
	var list []any
	for _, name := range slices.Sorted(maps.Keys(conditions)) {
		var status, s string
		_, _ = fmt.Sscan(conditions[name], &status, &s)
		list = append(list, map[string]any{"type": name, "status": status, "lastTransitionTime": at(s),
			"reason": "Succeeded"})
	}
	return map[string]any{"kind": "Workload", "metadata": map[string]any{"name": "job-" + uid, "namespace": "n",
		"uid": uid, "creationTimestamp": at("0")},
		"spec": map[string]any{"queueName": "q", "priority": int64(7), "podSets": []any{map[string]any{
			"count": int64(2), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": int64(2)}}}}}}}}},
		"status": map[string]any{"conditions": list}}
}

func localQueue() map[string]any {
	return map[string]any{"kind": "LocalQueue", "metadata": map[string]any{"name": "q", "namespace": "n"},
		"spec": map[string]any{"clusterQueue": "a"}}
}

// TestLife: a job that is evicted, and a watch that sees each change.
func TestLife(t *testing.T) {
	var m kueue.Mapper
	ledger, seen := workload.NewLedger(workload.Cluster{}), map[string]bool{}
	take := func(events []workload.Event, err error) (out []string) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := e.Validate(); err != nil {
				t.Fatal(err)
			}
			ledger.Apply(e)
			if !seen[e.ID] {
				out = append(out, e.ID)
			}
			seen[e.ID] = true
		}
		return out
	}
	check := func(got []string, want ...string) {
		t.Helper()
		for i := range want {
			var kind string
			var at int64
			_, _ = fmt.Sscan(want[i], &kind, &at)
			want[i] = fmt.Sprintf("u/%s/%d", kind, t0+at)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	check(take(m.Put(object("u", nil))))
	check(take(m.Put(localQueue())), "submitted 0")
	check(take(m.Put(object("u", map[string]string{"Admitted": "True 5"}))), "started 5")
	check(take(m.Put(object("u", map[string]string{"Admitted": "True 5", "Evicted": "True 9"}))), "preempted 9")
	check(take(m.Put(object("u", map[string]string{"Admitted": "False 9", "Evicted": "True 9"}))))
	check(take(m.Put(object("u", map[string]string{"Admitted": "True 12", "Evicted": "False 12"}))), "resumed 12")
	end := object("u", map[string]string{"Admitted": "True 12", "Evicted": "False 12", "Finished": "True 20"})
	check(take(m.Put(end)), "finished 20")
	check(take(m.Delete(end, time.Unix(t0+30, 0)), nil))
	ended := ledger.Finishes(0, time.Duration(t0+100)*time.Second)
	if len(ended) != 1 || ended[0].Starts != 2 || ended[0].LostStarts != 1 || ended[0].Job.GPUs != workload.GPUs(4) ||
		ended[0].Job.Tenant != "a" || ended[0].Job.Request().Priority != 7 || ended[0].Status != workload.Completed {
		t.Errorf("%+v", ended)
	}
	if cancelled := m.Delete(object("v", nil), time.Unix(t0+30, 0)); len(cancelled) != 2 ||
		cancelled[1].Job.Status != workload.Cancelled || cancelled[1].Time != (t0+30)*time.Second {
		t.Errorf("%+v", cancelled)
	}
}

// pod is one of two of job-u, of 2 GPUs on a node of its own, that was bound and began at seconds after t0; below 0 is
// not yet.
func pod(name string, bound, began, ended int) map[string]any {
	at := func(s int) string { return time.Unix(t0+int64(s), 0).UTC().Format(time.RFC3339) }
	spec := map[string]any{"containers": []any{map[string]any{"resources": map[string]any{
		"limits": map[string]any{"nvidia.com/gpu": int64(2)}}}}}
	status, state := map[string]any{"phase": "Pending"}, map[string]any{}
	if bound >= 0 {
		spec["nodeName"] = "node-" + name
		status["conditions"] = []any{map[string]any{"type": "PodScheduled", "lastTransitionTime": at(bound)}}
	}
	if began >= 0 {
		status["phase"], state["running"] = "Running", map[string]any{"startedAt": at(began)}
	}
	if ended >= 0 {
		status["phase"] = "Succeeded"
		state = map[string]any{"terminated": map[string]any{"startedAt": at(began), "finishedAt": at(ended)}}
	}
	status["containerStatuses"] = []any{map[string]any{"state": state}}
	return map[string]any{"kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "n",
		"uid": "pod-" + name, "annotations": map[string]any{"kueue.x-k8s.io/workload": "job-u"}}, "spec": spec, "status": status}
}

func lines(events []workload.Event) (out []string) {
	for _, e := range events {
		line := fmt.Sprintf("%v %d", e.Kind, int64(e.Time/time.Second)-t0)
		if e.StartUp > 0 {
			line += fmt.Sprint(" after ", e.StartUp)
		}
		if e.Kind == workload.Resized {
			line += fmt.Sprint(" to ", e.Job.GPUs.Whole())
		}
		out = append(out, line)
	}
	return out
}

// made is a Workload that a Job was made into.
func made(conditions map[string]string) map[string]any {
	o := object("u", conditions)
	o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "Job", "name": "job", "uid": "maker",
		"controller": true}}
	return o
}

// TestStart: a job that is admitted waits until all of its pods run, and holds its quota meanwhile.
func TestStart(t *testing.T) {
	admitted := made(map[string]string{"Admitted": "True 5"})
	byMaker := pod("b", 7, 40, -1)
	byMaker["metadata"].(map[string]any)["annotations"] = map[string]any{}
	byMaker["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"uid": "maker", "controller": true}}
	ended := made(map[string]string{"Admitted": "True 5", "Finished": "True 95"})
	started := []string{"submitted 0", "started 40 after 35s"}
	for name, x := range map[string]struct {
		pods    bool
		objects []map[string]any
		want    []string
	}{
		"no pods are seen": {false, []map[string]any{admitted}, []string{"submitted 0", "started 5"}},
		"without a maker": {true, []map[string]any{object("u", map[string]string{"Admitted": "True 5"})},
			[]string{"submitted 0", "started 5"}},
		"no pod yet": {true, []map[string]any{admitted}, []string{"submitted 0"}},
		"one of two": {true, []map[string]any{admitted, pod("a", 6, 10, -1)}, []string{"submitted 0"}},
		"the other is bound": {true, []map[string]any{admitted, pod("a", 6, 10, -1), pod("b", 7, -1, -1)},
			[]string{"submitted 0"}},
		"both":            {true, []map[string]any{admitted, pod("a", 6, 10, -1), pod("b", 7, 40, -1)}, started},
		"by their maker":  {true, []map[string]any{byMaker, admitted, pod("a", 6, 10, -1)}, started},
		"saved with pods": {false, []map[string]any{pod("a", 6, 10, -1), pod("b", 7, 40, -1), admitted}, started},
		"one has ended": {true, []map[string]any{admitted, pod("a", 6, 10, 80), pod("b", 7, 40, -1)},
			append(slices.Clone(started), "resized 80 to 2")},
		"both have": {true, []map[string]any{ended, pod("a", 6, 10, 94), pod("b", 7, 40, 94)},
			append(slices.Clone(started), "finished 95")},
		"pods are gone": {true, []map[string]any{ended}, []string{"submitted 0", "started 5", "finished 95"}},
		"evicted before it ran": {true, []map[string]any{made(map[string]string{"Admitted": "False 50",
			"Evicted": "True 50"}), pod("a", 6, 10, -1)}, []string{"submitted 0", "preempted 50"}},
		"pods of the stay before": {true, []map[string]any{made(map[string]string{"Admitted": "True 200",
			"Evicted": "False 200"}), pod("a", 6, 10, -1), pod("b", 7, 40, -1)}, []string{"submitted 0"}},
		"PodsReady": {false, []map[string]any{reason(object("u", map[string]string{"Admitted": "True 5",
			"PodsReady": "True 33"}), "Started")}, []string{"submitted 0", "started 33 after 28s"}},
		"not PodsReady": {false, []map[string]any{reason(object("u", map[string]string{"Admitted": "True 5",
			"PodsReady": "False 1"}), "WaitForStart")}, []string{"submitted 0"}},
		"reclaimed": {false, []map[string]any{reclaimed(60)}, []string{"submitted 0", "started 5", "resized 60 to 2"}},
	} {
		m := kueue.Mapper{Pods: x.pods}
		derived := kube.Derived{}
		for _, o := range append([]map[string]any{localQueue()}, x.objects...) {
			events, err := m.Put(o)
			if err != nil {
				t.Fatal(err)
			}
			derived.Put(events)
		}
		if got := lines(derived.Events()); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// reason sets the reasons of conditions.
func reason(o map[string]any, to string) map[string]any {
	for _, c := range o["status"].(map[string]any)["conditions"].([]any) {
		c.(map[string]any)["reason"] = to
	}
	return o
}

// reclaimed is a Workload of which the quota of one pod was given back.
func reclaimed(at int64) map[string]any {
	o := object("u", map[string]string{"Admitted": "True 5"})
	o["status"].(map[string]any)["reclaimablePods"] = []any{map[string]any{"name": "main", "count": int64(1)}}
	o["spec"].(map[string]any)["podSets"].([]any)[0].(map[string]any)["name"] = "main"
	o["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "kueue-reclaimable-pods",
		"time": time.Unix(t0+at, 0).UTC().Format(time.RFC3339)}}
	return o
}

// TestPodsCome: a job that runs goes on where a pod is made again, and nothing is left of what is gone.
func TestPodsCome(t *testing.T) {
	m := kueue.Mapper{Pods: true}
	put := func(o map[string]any) []workload.Event {
		events, err := m.Put(o)
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	put(localQueue())
	put(made(map[string]string{"Admitted": "True 5"}))
	put(pod("a", 6, 10, -1))
	want := lines(put(pod("b", 7, 40, -1)))
	m.Delete(pod("a", 6, 10, -1), time.Unix(t0+50, 0))
	if got := lines(put(pod("c", 51, 60, -1))); !slices.Equal(got, want) || len(want) != 2 {
		t.Errorf("%v, want %v", got, want)
	}
	for _, o := range []map[string]any{made(nil), pod("b", 7, 40, -1), pod("c", 51, 60, -1)} {
		m.Delete(o, time.Unix(t0+70, 0))
	}
	if jobs, pods := m.Kept(); jobs+pods > 0 {
		t.Errorf("%d jobs and %d pods are left", jobs, pods)
	}
}

// TestWithoutQueue: a Workload may go, change its LocalQueue or be wrong before that is known.
func TestWithoutQueue(t *testing.T) {
	var m kueue.Mapper
	if got := m.Delete(object("u", nil), time.Unix(t0, 0)); len(got) > 0 || m.Waiting() != 0 {
		t.Errorf("%+v, %d wait", got, m.Waiting())
	}
	wrong, moved := object("w", nil), object("u", nil)
	delete(wrong["metadata"].(map[string]any), "creationTimestamp")
	if _, err := m.Put(wrong); err == nil {
		t.Error("a Workload without the time of its creation is no error")
	}
	moved["spec"].(map[string]any)["queueName"] = "other"
	for _, o := range []map[string]any{object("u", nil), moved} {
		if got, err := m.Put(o); err != nil || len(got) > 0 || m.Waiting() != 1 {
			t.Errorf("%v, %v, %d wait", got, err, m.Waiting())
		}
	}
	if got, err := m.Put(localQueue()); err != nil || len(got) > 0 {
		t.Errorf("a LocalQueue that it left has %v, %v", got, err)
	}
}

// TestTooLarge: GPUs beyond 64 bits are too many.
func TestTooLarge(t *testing.T) {
	var containers []any
	for range 10 {
		containers = append(containers, map[string]any{"resources": map[string]any{"limits": map[string]any{
			"nvidia.com/gpu": int64(1e9)}}})
	}
	o := object("u", nil)
	o["spec"].(map[string]any)["podSets"] = []any{map[string]any{"count": int64(1e9), "template": map[string]any{
		"spec": map[string]any{"containers": containers}}}}
	if j, err := kueue.Job(kubejson.Of(o)); err == nil {
		t.Errorf("%v GPUs", j.GPUs)
	}
}

// TestOrder: any order of objects, each seen any number of times, gives the same events, and each job ends once.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := []map[string]any{localQueue()}
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			conditions, at := map[string]string{}, 0
			for _, name := range []string{"Admitted", "Evicted", "Finished"} {
				if rapid.Bool().Draw(t, name) {
					at += rapid.IntRange(0, 3).Draw(t, "seconds")
					status := []string{"True", "False"}[rapid.IntRange(0, 1).Draw(t, "status")]
					conditions[name] = fmt.Sprint(status, " ", at)
				}
			}
			objects = append(objects, object(fmt.Sprint("u", i), conditions))
		}
		events := func(order []map[string]any) []string {
			var m kueue.Mapper
			ids, ends := map[string]bool{}, map[string]bool{}
			for _, o := range order {
				got, err := m.Put(o)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range got {
					request := e.Job.Request()
					e.Job.Requested = workload.Requested{} // an address
					ids[fmt.Sprintf("%+v %+v", e, request)] = true
					if e.Kind == workload.Finished {
						ends[e.Job.ID+e.ID] = true
					}
				}
			}
			if m.Waiting() > 0 || len(ends) > len(objects)-1 {
				t.Fatalf("%d wait, %d ends of %d jobs", m.Waiting(), len(ends), len(objects)-1)
			}
			return slices.Sorted(maps.Keys(ids))
		}
		want := events(objects)
		other := append(rapid.Permutation(objects).Draw(t, "order"), rapid.Permutation(objects).Draw(t, "again")...)
		if got := events(other); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestKeys(t *testing.T) {
	key := func(name string) string {
		o := object("u", nil)
		o["metadata"].(map[string]any)["name"] = name
		j, err := kueue.Job(kubejson.Of(o))
		if err != nil {
			t.Fatal(err)
		}
		return j.Key
	}
	if key("job-train-7fx2k") != key("job-train-b4c6d") || key("nightly-28391") != key("nightly-28392") ||
		key("job-train") == key("job-infer") {
		t.Error("runs of one job have different keys, or other jobs the same")
	}
}

// FuzzTake reads any JSON as objects: errors name the object, and events are valid.
func FuzzTake(f *testing.F) {
	// A long text takes the fuzzer minutes to make smaller.
	for _, o := range []map[string]any{object("u", map[string]string{"Admitted": "True 5", "Evicted": "True 9"}),
		object("u", map[string]string{"Finished": "True 9"}), localQueue()} {
		text, err := json.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"items":[{"kind":"LocalQueue"},{"kind":"Workload","metadata":{"uid":"u"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := kubejson.Read("f.json", text)
		if err != nil {
			return
		}
		var m kueue.Mapper
		for _, o := range objects {
			events, err := m.Take(o)
			if err != nil && err.Error() == "" {
				t.Fatal("an error that says nothing")
			}
			for _, e := range events {
				if err := e.Validate(); err != nil && len(e.ID) < 200 {
					t.Fatalf("%+v: %v", e, err)
				}
			}
		}
	})
}
