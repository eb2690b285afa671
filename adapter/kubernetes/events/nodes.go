package events

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
)

// node is the reported state of a node that has been up.
type node struct {
	uid   string
	state workload.EventKind
	gpus  int
	at    time.Duration // of the last event
}

func isNode(object map[string]any) bool {
	return object["kind"] == "Node" && object["apiVersion"] == "v1"
}

// stateOf returns the state of a node, its GPUs, and since when it is Ready or is not. Wrong fields count as missing.
func stateOf(o *unstructured.Unstructured) (state workload.EventKind, gpus int, since time.Duration) {
	n := kube.ReadNode(kubejson.Of(o.Object))
	switch {
	case !n.Ready || n.GPUs <= 0:
		return workload.NodeDown, n.GPUs, n.Since
	case n.Cordoned:
		return workload.NodeDrained, n.GPUs, n.Since
	}
	return workload.NodeUp, n.GPUs, n.Since
}

// instant reads a time of the API; 0 for none.
func instant(v any) time.Duration {
	text, _ := v.(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0
	}
	return time.Duration(at.UnixNano())
}

// changed is when a field of a node changed that has no time of its own: the taint of a cordon, or the last change of
// the object.
func changed(o *unstructured.Unstructured) (at time.Duration) {
	taints, _, _ := unstructured.NestedSlice(o.Object, "spec", "taints")
	for _, taint := range taints {
		taint, _ := taint.(map[string]any)
		if taint["key"] == "node.kubernetes.io/unschedulable" && instant(taint["timeAdded"]) > 0 {
			return instant(taint["timeAdded"])
		}
	}
	for _, f := range o.GetManagedFields() {
		if f.Time != nil {
			at = max(at, time.Duration(f.Time.UnixNano()))
		}
	}
	return at
}

// putNode returns the events of a node's change.
func (t *Tracker) putNode(o *unstructured.Unstructured) (out []workload.Event) {
	state, gpus, since := stateOf(o)
	name, uid := o.GetName(), string(o.GetUID())
	n := t.nodes[name]
	if n != nil && n.uid != uid { // replaced by another of its name
		out = t.deleteNode(name, o.GetCreationTimestamp().Time)
		n = nil
	}
	if n == nil {
		if state == workload.NodeDown {
			return out
		}
		n = &node{uid: uid, state: workload.NodeDown}
		if t.nodes == nil {
			t.nodes = map[string]*node{}
		}
		t.nodes[name] = n
	}
	before := *n
	if state != workload.NodeDown && (before.state == workload.NodeDown || before.gpus != gpus) {
		at := since
		if before.state != workload.NodeDown {
			at = max(since, changed(o))
		}
		out = append(out, n.turn(name, workload.NodeUp, gpus, at))
	}
	switch {
	case state == n.state:
	case state == workload.NodeDown && gpus > 0:
		out = append(out, n.turn(name, state, gpus, since))
	default: // cordoned, uncordoned, or without its GPUs
		out = append(out, n.turn(name, state, gpus, max(since, changed(o))))
	}
	return out
}

// turn changes the state, behind the last change.
func (n *node) turn(name string, state workload.EventKind, gpus int, at time.Duration) workload.Event {
	if at <= n.at {
		at = n.at + time.Millisecond
	}
	n.state, n.at = state, at
	e := workload.Event{ID: fmt.Sprintf("%s/%v/%d/%d", n.uid, state, at/time.Millisecond, gpus), Kind: state, Time: at,
		Node: name}
	if state != workload.NodeDown {
		n.gpus = gpus
	}
	if state == workload.NodeUp {
		e.NodeGPUs = gpus
	}
	return e
}

// deleteNode returns the event of a node's end.
func (t *Tracker) deleteNode(name string, at time.Time) (out []workload.Event) {
	n := t.nodes[name]
	delete(t.nodes, name)
	if n == nil || n.state == workload.NodeDown {
		return nil
	}
	return []workload.Event{n.turn(name, workload.NodeDown, n.gpus, time.Duration(at.UnixNano()))}
}
