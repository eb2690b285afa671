package calibrate

import (
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestModelsByHand reports events of recurring jobs: 100 s undisturbed, 130 s with
// a stop, 150 s spread.
func TestModelsByHand(t *testing.T) {
	p := Collector{PerNode: 4}
	tell := func(id string, kind workload.EventKind, at int, nodes int) {
		e := workload.Event{Kind: kind, Time: time.Duration(at) * time.Second,
			Job: workload.Job{ID: id, Key: "k", Model: "vgg19", GPUs: workload.GPUs(2)}}
		for n := range nodes {
			e.Placement = append(e.Placement, workload.NodeShare{Node: string(rune('0' + n)), GPUs: 2 / nodes})
		}
		p.Add(e)
	}
	for i := range minRuns {
		id := string(rune('a' + i))
		tell("plain"+id, workload.Submitted, 0, 0)
		tell("plain"+id, workload.Started, 5, 1)
		tell("plain"+id, workload.Finished, 105, 0)
		tell("stopped"+id, workload.Submitted, 0, 0)
		tell("stopped"+id, workload.Started, 0, 1)
		tell("stopped"+id, workload.Preempted, 60, 0)
		tell("stopped"+id, workload.Resumed, 500, 1)
		tell("stopped"+id, workload.Finished, 570, 0)
		tell("spread"+id, workload.Submitted, 0, 0)
		tell("spread"+id, workload.Started, 0, 2)
		tell("spread"+id, workload.Finished, 150, 0)
		tell("lost"+id, workload.Finished, 9, 0) // never heard of
		tell("resized"+id, workload.Submitted, 0, 0)
		tell("resized"+id, workload.Started, 0, 1)
		tell("resized"+id, workload.Resized, 50, 1)
		tell("resized"+id, workload.Finished, 9000, 0)
	}
	if len(p.Runs) != 3*minRuns {
		t.Fatalf("%d runs", len(p.Runs))
	}
	spec, learned, left, err := Models(p.Runs)
	if err != nil {
		t.Fatal(err)
	}
	m := spec.Models()
	if got := m.Restart(2, 0); got != 30*time.Second || m.Restart(1, 0) != 18*time.Second {
		t.Errorf("a restart on 2 GPUs costs %v", got)
	}
	if c := m.Classes[0]; c.Name != "vgg19" || c.Slowdown != 1.5 || m.Classes[1].Slowdown != 2 {
		t.Errorf("%+v", m.Classes[:2])
	}
	if len(learned) != 2 || learned[0].Runs != minRuns || spec.Validate() != nil {
		t.Errorf("%+v %v", learned, spec.Validate())
	}
	if left != (LeftOut{}) {
		t.Errorf("%v", left)
	}
	if _, _, left, err := Models(p.Runs[:3]); err == nil || left.FewPlain != 3 {
		t.Errorf("from three runs: %v, %v", err, left)
	}
}
