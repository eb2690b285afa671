package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kueue"
)

// kueueFormat is saved lists of Kueue's Workloads, with the LocalQueues that name their ClusterQueues in the same or
// another file. A job ran from its last admission: earlier ones are not in the objects. Jobs that run or wait do until
// the last time of any.
var kueueFormat = Format{
	Name: "kueue", About: "Kueue, kubectl get workloads,localqueues -A -o json",
	Header: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"kueue.x-k8s.io/v1beta2",...},...]}`,
	detect: func(head []byte) bool {
		return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte{'{'}) && bytes.Contains(head, []byte(`"items"`)) &&
			bytes.Contains(head, []byte(`"kueue.x-k8s.io/`))
	},
	read:   readKueue,
	finish: finishKueue,
}

// savedKueue is the state after the objects read.
type savedKueue struct {
	mapper kueue.Mapper
	events []workload.Event
}

func readKueue(in *input) error {
	in.wallClock, in.hasKeys = true, true
	if in.state == nil {
		in.state = &savedKueue{}
	}
	k := in.state.(*savedKueue)
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
		if all[0].Kind() != "Workload" {
			in.report.Rows--
		} else if err == nil && kueue.GPUs(all[0]) == 0 {
			in.report.leaveOut("it asks for no GPUs")
		}
		if err != nil {
			_, text, _ := strings.Cut(err.Error(), ": ")
			field, reason, _ := strings.Cut(text, ": ")
			in.reject(field, reason, []byte(all[0].String()))
			return
		}
		k.events = append(k.events, events...)
	})
}

func finishKueue(in *input) error {
	k := in.state.(*savedKueue)
	s := &recordedEvents{ledger: workload.NewLedger(workload.Cluster{}), submitted: map[string]bool{},
		evicted: map[string]bool{}}
	for range k.mapper.Waiting() {
		in.report.leaveOut("the ClusterQueue of its LocalQueue is not among the objects")
	}
	slices.SortStableFunc(k.events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	for _, e := range k.events {
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
