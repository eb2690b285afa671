package trace

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
	"github.com/autosched/autosched/workload/kueue"
	"github.com/autosched/autosched/workload/volcano"
)

// kueueFormat is saved lists of Kueue's Workloads, with the LocalQueues that name their ClusterQueues in the same or
// another file. A job ran from its last admission: earlier ones are not in the objects. Saved Pods say how long it then
// took to start. Jobs that run or wait do until the last time of any.
var kueueFormat = Format{
	Name: "kueue", About: "Kueue, kubectl get workloads,localqueues -A -o json",
	Header: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"kueue.x-k8s.io/v1beta2",...},...]}`,
	detect: func(head []byte) bool { return detectObjects(head, `"kueue.x-k8s.io/`) },
	read: func(in *input) error {
		return readObjects(in, "Workload", func() *savedObjects {
			m := &kueue.Mapper{}
			return &savedObjects{mapper: m, leftOut: m.Waiting,
				why: "the ClusterQueue of its LocalQueue is not among the objects"}
		})
	},
	finish: finishObjects,
}

// volcanoFormat is saved lists of Volcano's PodGroups with their Pods, in the same or another file. A job ran from the
// start of the pods that are there. Jobs that run or wait do until the last time of any.
var volcanoFormat = Format{
	Name: "volcano", About: "Volcano, kubectl get podgroups,pods -A -o json",
	Header: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"scheduling.volcano.sh/v1beta1",...},...]}`,
	detect: func(head []byte) bool { return detectObjects(head, `"scheduling.volcano.sh/`) },
	read: func(in *input) error {
		return readObjects(in, "PodGroup", func() *savedObjects {
			m := &volcano.Mapper{}
			return &savedObjects{mapper: m, leftOut: m.Unknown,
				why: "it asks for no GPUs, or its pods are not among the objects"}
		})
	},
	finish: finishObjects,
}

func detectObjects(head []byte, group string) bool {
	return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte{'{'}) && bytes.Contains(head, []byte(`"items"`)) &&
		bytes.Contains(head, []byte(group))
}

// savedObjects is the state after the objects of Kubernetes that were read.
type savedObjects struct {
	mapper interface {
		Take(*kubejson.Object) ([]workload.Event, error)
	}
	leftOut func() int // jobs without events, and why
	why     string
	events  kube.Derived
}

// readObjects reads lists of objects, of which one kind is the jobs.
func readObjects(in *input, jobs string, begin func() *savedObjects) error {
	in.wallClock, in.hasKeys = true, true
	if in.state == nil {
		k := begin()
		k.events = kube.Derived{}
		in.state = k
	}
	k := in.state.(*savedObjects)
	s := jsonElements{in: in, text: in.source.Text, line: 1}
	if err := s.enter("items"); err != nil {
		return fmt.Errorf("line %d: %w", s.line, err)
	}
	return s.each(func(element []byte, long bool) {
		if long {
			in.reject("object", "is longer than the limit", element)
			return
		}
		all, err := kubejson.Read("", element)
		if err != nil || len(all) != 1 {
			in.reject("object", "is not an object of Kubernetes in JSON", element)
			return
		}
		events, err := k.mapper.Take(all[0])
		if kind := all[0].Kind(); kind != jobs {
			in.report.Rows--
		} else if err == nil && kind == "Workload" && kueue.GPUs(all[0]) == 0 {
			in.report.leaveOut("it asks for no GPUs")
		}
		if err != nil {
			_, text, _ := strings.Cut(err.Error(), ": ")
			field, reason, _ := strings.Cut(text, ": ")
			in.reject(field, reason, []byte(all[0].String()))
			return
		}
		k.events.Put(events)
	})
}

func finishObjects(in *input) error {
	k := in.state.(*savedObjects)
	s := &recordedEvents{ledger: workload.NewLedger(workload.Cluster{}), submitted: map[string]bool{},
		evicted: map[string]bool{}}
	for range k.leftOut() {
		in.report.leaveOut(k.why)
	}
	for _, e := range k.events.Events() {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("job %s: %w", e.Job.ID, err)
		}
		if in.opts.Events != nil {
			in.opts.Events(&e)
		}
		s.submitted[e.Job.ID] = true
		s.evicted[e.Job.ID] = s.evicted[e.Job.ID] || e.Kind == workload.Resumed
		s.ledger.Apply(e)
		s.last = max(s.last, e.Time)
	}
	in.state = s
	return finishEvents(in)
}
