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
