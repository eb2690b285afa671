package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestEvictions: an urgent job comes after a running one has held the cluster for an hour. Preemption evicts it once,
// and it begins anew; the answer says so in its first sentence.
func TestEvictions(t *testing.T) {
	urgent := workload.Job{ID: "urgent", Tenant: "a", Submit: time.Hour, Duration: time.Hour, GPUs: workload.GPUs(8),
		Requested: workload.Request{Priority: 10, Requeue: workload.RequeueRestarts}.Shared()}
	usual := workload.Job{ID: "usual", Tenant: "a", Duration: 3 * time.Hour, GPUs: workload.GPUs(8),
		Requested: workload.Request{Requeue: workload.RequeueRestarts}.Shared()}
	w, err := workload.New("t", time.Time{}, []workload.Job{usual, urgent})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedulers.Find("kueue")
	if err != nil {
		t.Fatal(err)
	}
	c := workload.Uniform(1, 8)
	c.VCs = []workload.VC{{Tenant: "a", GPUs: 8}}
	o := AskOptions{Trace: w, To: 2 * time.Hour, Cluster: c, Scheduler: s, InForce: s.Space.Default(), Site: "site"}
	to, err := s.Space.Parse(o.InForce, []string{"preemption.withinClusterQueue=LowerPriority"})
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := o.start(&sim, o.InForce); err != nil {
		t.Fatal(err)
	}
	e, err := o.evictions(t.Context(), &sim, to)
	if err != nil || e == nil || e.Before != (Evictions{}) || e.After.Number != 1 || e.After.GPUHours < 8 ||
		e.After.GPUHours > 8.5 {
		t.Fatalf("%+v, %v", e, err)
	}
	text := o.verdict(&round.Answer{Adopt: true, Config: to, Best: &round.Compared{}, Reason: "Better."}, e).Text
	if first, _, _ := strings.Cut(text, ". "); !strings.Contains(first, "=LowerPriority, which evicts jobs 1 time, "+
		"before 0, and loses 8") {
		t.Error(text)
	}
	if back := (&EvictionsChange{e.After, e.Before}).raised(); back != "" {
		t.Errorf("fewer evictions are a price: %s", back)
	}
	if wider := (&EvictionsChange{Evictions{3, 1}, Evictions{2, 9}}).raised(); !strings.Contains(wider, "loses 9.0") {
		t.Errorf("what fewer evictions lose is no price: %q", wider)
	}
}
