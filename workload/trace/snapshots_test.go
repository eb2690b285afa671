package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// A job whose end was lost is left out, by name of the cause, and one that only a snapshot knows
// is there.
func TestEventsWithSnapshots(t *testing.T) {
	var b bytes.Buffer
	w, err := NewEventWriter(&b, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), false)
	if err != nil {
		t.Fatal(err)
	}
	job := func(kind workload.EventKind, id string, at time.Duration) workload.Event {
		return workload.Event{ID: fmt.Sprint(id, kind, at), Kind: kind, Time: at, Job: workload.Job{ID: id, GPUs: 1000}}
	}
	snapshot := workload.Event{ID: "s", Kind: workload.TakenSnapshot, Time: time.Hour, Active: []workload.Event{
		{Kind: workload.Started, Job: workload.Job{ID: "new", GPUs: 2000, Submit: 5 * time.Minute},
			Placement: []workload.NodeShare{{Node: "n", GPUs: 2}}},
		{Kind: workload.NodeUp, Node: "n", NodeGPUs: 8},
	}}
	for _, e := range []workload.Event{
		job(workload.Submitted, "lost", 0), job(workload.Started, "lost", time.Minute), snapshot,
		job(workload.Finished, "new", 2*time.Hour), {ID: "h", Kind: workload.Heartbeat, Time: 3 * time.Hour},
	} {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	got, report, err := Read(t.Context(), &b, "events", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Len() != 1 || got.Jobs()[0].ID != "new" || got.Jobs()[0].Duration != time.Hour || report.LeftOut != 1 ||
		report.Rejected != 0 {
		t.Errorf("%d jobs, %+v", got.Len(), report)
	}
}

// Requests of jobs and the time that a preemption lost, survive events.
func TestEventsKeepRequests(t *testing.T) {
	var b bytes.Buffer
	w, err := NewEventWriter(&b, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), false)
	if err != nil {
		t.Fatal(err)
	}
	asks := workload.Request{GPUModel: "A100", Partition: "train", MilliCPUs: 5, Memory: 6, TimeLimit: time.Hour + 1,
		NodeCount: 2, Nice: -7, Priority: 8, QOS: "high", Account: "lab", Requeue: workload.RequeueRestarts,
		HoldOff: 121 * time.Second}.Shared()
	at := func(kind workload.EventKind, at time.Duration) workload.Event {
		e := workload.Event{ID: fmt.Sprint(kind, at), Kind: kind, Time: at, Job: workload.Job{ID: "a", GPUs: 8000}}
		if kind == workload.Submitted {
			e.Job.Requested, e.HoldUntil = asks, time.Minute
		}
		if kind == workload.Preempted {
			e.Lost, e.HoldUntil = true, 3*time.Minute
		}
		if kind == workload.Started {
			e.StartUp = 2 * time.Second
		}
		if kind == workload.Finished {
			e.Job.Status = workload.TimedOut
		}
		return e
	}
	for _, e := range []workload.Event{at(workload.Submitted, 0), at(workload.Started, time.Minute),
		at(workload.Preempted, 2*time.Minute), at(workload.Resumed, 4*time.Minute),
		at(workload.Finished, 9*time.Minute)} {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(b.String(), `"progressLost":true,"holdUntilTime":"2024-01-01T00:03:00Z"`) {
		t.Errorf("no hold-off in %s", &b)
	}
	got, report, err := Read(t.Context(), &b, "events", Options{})
	if err != nil || got.Len() != 1 {
		t.Fatalf("%v, %+v", err, report)
	}
	j := got.Jobs()[0]
	if j.Requested != asks || j.Status != workload.TimedOut || j.Duration != 5*time.Minute || j.HasWait {
		t.Errorf("%+v asks for %+v", j, j.Request())
	}
}

// An event that a revision took effect says of which instance, with which values and in which epoch.
func TestWriteAppliedEvents(t *testing.T) {
	var b bytes.Buffer
	w, err := NewEventWriter(&b, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&workload.Event{ID: "c", Kind: workload.ConfigApplied, Revision: "3", Instance: "a", Hash: "h",
		Epoch: workload.Epoch{ID: "e", Counter: 7}}); err != nil {
		t.Fatal(err)
	}
	const want = `"configurationRevision":3,"instanceId":"a","contentHash":"h","epoch":{"id":"e","counter":7}`
	if !strings.Contains(b.String(), want) {
		t.Errorf("%swant %s", &b, want)
	}
}

// eventOf reads an event from a line of a log.
func eventOf(line []byte) (workload.Event, error) {
	var x eventLine
	if err := json.Unmarshal(line, &x); err != nil {
		return workload.Event{}, fmt.Errorf("JSON: %w", err)
	}
	return x.event()
}

// An event is the same after it was written and read.
func TestEventOf(t *testing.T) {
	zero := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	at := time.Duration(zero.UnixNano())
	job := workload.Job{ID: "a", User: "u", Tenant: "t", Key: "k", GPUs: 2000}
	for _, e := range []workload.Event{
		{ID: "1", Kind: workload.Submitted, Time: time.Hour, Job: job, Labels: "debug,hoard-ok"},
		{ID: "2", Kind: workload.Started, Time: time.Hour, Job: job,
			Placement: []workload.NodeShare{{Node: "n", GPUs: 1, Indexes: "7"}, {Node: "m", GPUs: 1}}},
		{ID: "3", Kind: workload.Preempted, Job: workload.Job{ID: "a"}, Lost: true},
		{ID: "4", Kind: workload.Finished, Job: workload.Job{ID: "a", Status: workload.TimedOut}},
		{ID: "4", Kind: workload.Finished, Job: workload.Job{ID: "a", Status: workload.Completed}},
		{ID: "4", Kind: workload.Finished, Job: workload.Job{ID: "a", Status: workload.Cancelled}},
		{ID: "4", Kind: workload.Finished, Job: workload.Job{ID: "a", Status: workload.Failed}},
		{ID: "4", Kind: workload.Finished, Job: workload.Job{ID: "a", Status: workload.OutOfMemory}},
		{ID: "5", Kind: workload.NodeUp, Node: "n", NodeGPUs: 8},
		{ID: "6", Kind: workload.ConfigApplied, Revision: "3", Instance: "i", Hash: "h",
			Epoch: workload.Epoch{ID: "e", Counter: 7}},
		{ID: "7", Kind: workload.TakenSnapshot, Active: []workload.Event{
			{Kind: workload.NodeDrained, Node: "n", NodeGPUs: 8}}},
	} {
		var b bytes.Buffer
		w, err := NewEventWriter(&b, zero, false)
		if err != nil {
			t.Fatal(err)
		}
		b.Reset()
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
		e.Time += at
		if got, err := eventOf(b.Bytes()); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s is read as %+v, %v", b.Bytes(), got, err)
		}
	}
	for line, want := range map[string]string{
		"no": "JSON",
		`{"eventId":"1","kind":"NODE_UP","schedulerTime":"2026-01-01T00:00:00Z"}`: "node.node_id: is required",
		`{"eventId":"1","kind":"STARTED","schedulerTime":"2026-01-01T00:00:00Z","job":{"jobId":"a"},` +
			`"placement":[{"nodeId":"n","gpus":0}]}`: "placement[0].gpus: 0 is not",
	} {
		if _, err := eventOf([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
