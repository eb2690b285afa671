package kube

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
)

// Pod is a Pod as far as events depend on it.
type Pod struct {
	Name, Node string
	GPUs       int
	Priority   int64
	MilliCPUs  int64
	Memory     int64 // bytes
	// Bound is when the pod got its node, Began when its containers ran, Ended when it came to its end, or Never.
	Bound, Began, Ended time.Duration
	Failed              bool
}

// Never is the time of a pod's change that did not happen.
const Never = time.Duration(math.MaxInt64)

// ReadPod reads a Pod. A container that the kubelet started again has its last two starts: with more of them the pod
// counts as running from when the kubelet took it.
func ReadPod(o *kubejson.Object) (Pod, error) {
	spec, status := o.Get("spec"), o.Get("status")
	p := Pod{Name: o.Name(), Node: spec.Get("nodeName").Text(), GPUs: kubejson.PodGPUs(spec),
		Priority: spec.Get("priority").Int(), Bound: Never, Began: Never, Ended: Never}
	for _, c := range spec.Get("containers").Items() {
		requests := c.Get("resources", "requests")
		p.MilliCPUs = sum(p.MilliCPUs, math.Ceil(1000*requests.Get("cpu").Float()), workload.MaxMilliCPUs)
		p.Memory = sum(p.Memory, requests.Get("memory").Float(), workload.MaxMemory)
	}
	phase := status.Get("phase").Text()
	p.Failed = phase == "Failed"
	conditions := map[string]time.Duration{}
	for _, c := range status.Get("conditions").Items() {
		if at, ok := c.Get("lastTransitionTime").Time(); ok {
			conditions[c.Get("type").Text()] = at
		}
	}
	taken, known := status.Get("startTime").Time() // by the kubelet
	bound, is := conditions["PodScheduled"]
	if !known {
		taken, known = bound, is
	}
	if p.Node != "" && known {
		if p.Bound = taken; is {
			p.Bound = bound
		}
	}
	over := phase == "Succeeded" || p.Failed
	began, ended := max(taken, p.Bound), time.Duration(math.MinInt64)
	for _, c := range status.Get("containerStatuses").Items() {
		at := Never
		for _, state := range []kubejson.Value{c.Get("lastState", "terminated"), c.Get("state", "running"),
			c.Get("state", "terminated")} {
			if t, ok := state.Get("startedAt").Time(); ok {
				at = min(at, t)
			}
			if t, ok := state.Get("finishedAt").Time(); ok {
				ended = max(ended, t)
			}
		}
		if at < Never && c.Get("restartCount").Int() < 2 {
			began = max(began, at)
		}
	}
	if over || phase == "Running" {
		p.Began = began
	}
	if at, is := conditions["Ready"]; over && ended < 0 && is {
		ended = at
	}
	if over {
		p.Ended = ended
	}
	return p, o.Err()
}

// fields are fields of an object that are kept: all below one that is nil. Those of a list are of each element.
type fields map[string]fields

var podFields = fields{"apiVersion": nil, "kind": nil, "metadata": {"name": nil, "namespace": nil, "uid": nil,
	"resourceVersion": nil, "creationTimestamp": nil, "deletionTimestamp": nil, "ownerReferences": nil,
	"annotations": {"scheduling.k8s.io/group-name": nil, "scheduling.volcano.sh/group-name": nil,
		"kueue.x-k8s.io/workload": nil}},
	"spec": {"nodeName": nil, "priority": nil, "containers": {"resources": nil},
		"initContainers": {"resources": nil, "restartPolicy": nil}},
	"status": {"phase": nil, "startTime": nil, "conditions": {"type": nil, "lastTransitionTime": nil},
		"containerStatuses": {"state": nil, "lastState": nil, "restartCount": nil}}}

// Trim returns the part of an object on which events depend: pods are large and many, and other objects are as they
// were.
func Trim(o map[string]any) map[string]any {
	if o["kind"] != "Pod" || o["apiVersion"] != "v1" {
		return o
	}
	m, _ := podFields.of(o).(map[string]any)
	return m
}

func (f fields) of(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if f == nil {
			return x
		}
		out := make(map[string]any, len(f))
		for name, below := range f {
			if v, has := x[name]; has {
				out[name] = below.of(v)
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = f.of(x[i])
		}
		return out
	}
	return v
}

// sum adds an amount, which may be infinite, up to a limit.
func sum(a int64, more float64, most int64) int64 {
	return int64(min(float64(a)+max(0, more), float64(most)))
}

// Place adds the GPUs of a pod to a placement.
func (p *Pod) Place(at []workload.NodeShare) []workload.NodeShare {
	if i := slices.IndexFunc(at, func(o workload.NodeShare) bool { return o.Node == p.Node }); i >= 0 {
		at[i].GPUs += p.GPUs
	} else if p.GPUs > 0 && p.Node != "" {
		at = append(at, workload.NodeShare{Node: p.Node, GPUs: p.GPUs})
	}
	return at
}

// Size is what a gang's running pods hold from an instant on.
type Size struct {
	At        time.Duration
	GPUs      int
	Placement []workload.NodeShare
}

// SizeAt is the size of the pods that run at an instant.
func SizeAt(pods []Pod, at time.Duration) Size {
	s := Size{At: at}
	for i := range pods {
		if p := &pods[i]; p.Began <= at && at < p.Ended {
			s.add(p)
		}
	}
	return s
}

func (s *Size) add(p *Pod) { s.GPUs, s.Placement = s.GPUs+p.GPUs, p.Place(s.Placement) }

// Gang is the life of a gang's pods: when as many as must run together were bound and ran, the sizes since, from the
// first of these instants on, and the end of the last pod.
type Gang struct {
	Held, Began, Ended time.Duration // never otherwise
	Sizes              []Size
	Failed             bool
}

// Live returns the life of pods, in order of name, of which some must run together.
func Live(pods []Pod, together int) Gang {
	g := Gang{Held: Never, Began: Never, Ended: Never}
	together = max(1, together)
	if len(pods) < together {
		return g
	}
	g.Ended = math.MinInt64
	for i := range pods {
		g.Ended, g.Failed = max(g.Ended, pods[i].Ended), g.Failed || pods[i].Failed
	}
	nth := func(of func(*Pod) time.Duration) time.Duration {
		times := make([]time.Duration, len(pods))
		for i := range pods {
			times[i] = of(&pods[i])
		}
		slices.Sort(times)
		return times[together-1]
	}
	if g.Began = nth(func(p *Pod) time.Duration { return p.Began }); g.Began == Never {
		return g
	}
	g.Held = min(nth(func(p *Pod) time.Duration { return p.Bound }), g.Began)
	first := slices.Clone(pods)
	slices.SortStableFunc(first, func(a, b Pod) int { return cmp.Compare(a.Began, b.Began) })
	g.Sizes = []Size{{At: g.Began}}
	first = first[:together]
	slices.SortStableFunc(first, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range first {
		g.Sizes[0].add(&first[i])
	}
	changes := []time.Duration{g.Began}
	for i := range pods {
		p := &pods[i]
		for _, at := range []time.Duration{p.Began, p.Ended} {
			if at > g.Began && at < Never {
				changes = append(changes, at)
			}
		}
	}
	slices.Sort(changes)
	for _, at := range slices.Compact(changes) {
		s := SizeAt(pods, at)
		if s.GPUs > 0 && s.GPUs != g.Sizes[len(g.Sizes)-1].GPUs {
			g.Sizes = append(g.Sizes, s)
		}
	}
	return g
}
