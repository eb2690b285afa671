package kube_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
)

// text is a Pod as an API server has it, with fields that do not matter.
func text(name string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"ns","uid":"uid-` + name + `",
"resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"kueue.x-k8s.io/podset":"main"},
"annotations":{"kueue.x-k8s.io/workload":"w-` + name + `","scheduling.k8s.io/group-name":"g","other":"` +
		strings.Repeat("x", 3000) + `"},"managedFields":[{"manager":"kubelet","fieldsV1":{"f:status":{"f:phase":{}}}}],
"ownerReferences":[{"kind":"Job","name":"j","uid":"maker","controller":true}]},
"spec":{"nodeName":"n","priority":-3,"initContainers":[
{"name":"first","resources":{"limits":{"amd.com/gpu":"1"}}},
{"name":"side","restartPolicy":"Always","resources":{"limits":{"amd.com/gpu":"2"}}}],
"containers":[{"name":"main","image":"` + strings.Repeat("y", 3000) + `","resources":{"requests":{"amd.com/gpu":"4",
"cpu":"1500m","memory":"2Gi"}}}]},"status":{"phase":"Succeeded","startTime":"2026-01-01T00:00:05Z",
"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-01T00:00:04Z"}],
"containerStatuses":[{"name":"main","restartCount":1,
"lastState":{"terminated":{"startedAt":"2026-01-01T00:00:20Z","finishedAt":"2026-01-01T00:00:30Z"}},
"state":{"terminated":{"startedAt":"2026-01-01T00:00:31Z","finishedAt":"2026-01-01T00:01:00Z"}}}]}}`
}

func read(t *testing.T, text string) *kubejson.Object {
	t.Helper()
	all, err := kubejson.Read("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// object is a value of a text as the dynamic client has it.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func field(v any, path []string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// TestTrim: the fields that are kept are all that matter.
func TestTrim(t *testing.T) {
	whole := object(t, text("a"))
	want, err := kube.ReadPod(kubejson.Of(whole))
	if err != nil {
		t.Fatal(err)
	}
	second := func(s int) time.Duration { return time.Duration(1767225600+s) * time.Second }
	if full := (kube.Pod{Name: "a", Node: "n", GPUs: 6, Priority: -3, MilliCPUs: 1500, Memory: 2 << 30,
		Bound: second(4), Began: second(20), Ended: second(60)}); want != full {
		t.Errorf("%+v, want %+v", want, full)
	}
	trimmed := kube.Trim(whole)
	got, err := kube.ReadPod(kubejson.Of(trimmed))
	if err != nil || got != want || len(fmt.Sprint(trimmed)) > 1200 {
		t.Errorf("%+v, %v, want %+v; %d bytes", got, err, want, len(fmt.Sprint(trimmed)))
	}
	for _, path := range [][]string{{"metadata", "annotations", "kueue.x-k8s.io/workload"}, {"metadata", "ownerReferences"},
		{"metadata", "annotations", "scheduling.k8s.io/group-name"}, {"metadata", "resourceVersion"}} {
		a, b := field(whole, path), field(trimmed, path)
		if a == nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%v: %v, want %v", path, b, a)
		}
	}
	if other := map[string]any{"kind": "Job", "spec": map[string]any{"x": "y"}}; !reflect.DeepEqual(kube.Trim(other),
		map[string]any{"kind": "Job", "spec": map[string]any{"x": "y"}}) {
		t.Error("an object of another kind is changed")
	}
}

// TestMemory: a pod that is kept takes less than half a kibibyte, where the object has seven.
func TestMemory(t *testing.T) {
	const n = 4_000
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	kept := make(map[string]kube.Pod, n)
	for i := range n {
		o := read(t, text(fmt.Sprint("pod-of-a-job-with-a-long-name-", i)))
		p, err := kube.ReadPod(o)
		if err != nil {
			t.Fatal(err)
		}
		kept[o.UID()] = p
	}
	if each := (used() - before) / n; each > 512 {
		t.Errorf("%d bytes a pod", each)
	}
	runtime.KeepAlive(kept)
}

// TestNode: of GPUs of any vendor, and equal nodes whose memory differs a little are of one group.
func TestNode(t *testing.T) {
	var groups []workload.NodeGroup
	for _, memory := range []string{"527951296Ki", "527951280Ki"} {
		n := kube.ReadNode(read(t, `{"kind":"Node","metadata":{"name":"n"},"spec":{"unschedulable":true},"status":{
"allocatable":{"amd.com/gpu":"8","cpu":"64","memory":"`+memory+`"},"conditions":[{"type":"Ready","status":"True",
"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))
		if !n.Ready || !n.Cordoned || n.GPUs != 8 || n.CPUs != 64 || n.Since != 1767225600*time.Second {
			t.Errorf("%+v", n)
		}
		groups = n.Count(groups)
	}
	if want := []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 8, CPUs: 64, Memory: 503 << 30}}; !slices.EqualFunc(groups,
		want, func(a, b workload.NodeGroup) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("%+v", groups)
	}
}
