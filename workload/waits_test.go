package workload

import (
	"context"
	"testing"
	"time"
)

// TestWaits: a job waits for a full cluster, then for a whole node, then behind one of a higher priority; it is
// preempted and held, which says nothing of its first waiting, and waits behind that job again.
func TestWaits(t *testing.T) {
	l := NewLedger(Uniform(2, 8))
	apply := func(kind EventKind, minute int, j Job, on ...NodeShare) {
		l.Apply(Event{ID: j.ID + kind.String(), Kind: kind, Time: time.Duration(minute) * time.Minute, Job: j,
			Placement: on})
	}
	job := func(id string, gpus int) Job { return Job{ID: id, GPUs: GPUs(gpus)} }
	x, full := job("x", 8), job("full", 16)
	apply(Submitted, 0, full)
	apply(Started, 0, full, NodeShare{Node: "n1", GPUs: 8}, NodeShare{Node: "n2", GPUs: 8})
	apply(Submitted, 1, x)
	first := job("first", 100)
	first.Requested = Request{Priority: 1}.Shared()
	last := job("last", 100)
	last.Requested = Request{Priority: -1}.Shared()
	apply(Submitted, 0, last)
	apply(Submitted, 5, first)
	apply(Finished, 11, full)
	for _, half := range []string{"n1", "n2"} {
		j := job("half-"+half, 4)
		apply(Submitted, 2, j)
		apply(Started, 11, j, NodeShare{Node: half, GPUs: 4})
		apply(Finished, 21, j)
	}
	apply(Started, 31, x, NodeShare{Node: "n1", GPUs: 8})
	l.Apply(Event{ID: "stop", Kind: Preempted, Time: 41 * time.Minute, Job: x, HoldUntil: 51 * time.Minute})
	at := 61 * time.Minute
	h, _ := l.Job("x", at)
	w, err := l.Waits(t.Context(), &h, at)
	want := [waitCauses]time.Duration{WaitHeld: 10 * time.Minute, WaitBusy: 10 * time.Minute,
		WaitFragmented: 10 * time.Minute, WaitOthers: 20 * time.Minute}
	if err != nil || w.By != want || w.Samples != waitSamples || w.Passed != 2 {
		t.Errorf("%+v, %v; want %v", w, err, want)
	}
	h, _ = l.Job("half-n1", at)
	if w, err := l.Waits(t.Context(), &h, at); err != nil || w.By[WaitBusy] != 9*time.Minute || w.Passed != 0 {
		t.Errorf("%+v, %v", w, err)
	}
	h, _ = l.Job("last", at)
	if w, err := l.Waits(t.Context(), &h, at); err != nil || w.By[WaitBusy] != at {
		t.Errorf("%+v, %v", w, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := l.Waits(ended, &h, at); err == nil {
		t.Error("a call that has ended gets an answer")
	}
	// A node that drains has no GPUs for jobs that wait.
	l.Apply(Event{ID: "drain", Kind: NodeDrained, Time: at, Node: "n2", NodeGPUs: 8})
	one, y := job("one", 8), job("y", 8)
	apply(Submitted, 61, one)
	apply(Started, 61, one, NodeShare{Node: "n1", GPUs: 8})
	apply(Submitted, 62, y)
	h, _ = l.Job("y", 70*time.Minute)
	if w, err := l.Waits(t.Context(), &h, 70*time.Minute); err != nil || w.By[WaitBusy] != 8*time.Minute {
		t.Errorf("%+v, %v", w, err)
	}
}
