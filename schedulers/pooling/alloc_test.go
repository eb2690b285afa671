package pooling_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/pooling"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestNoAllocation: once warm, a run under quotas with reports on allocates
// nothing, however many jobs there are.
func TestNoAllocation(t *testing.T) {
	jobs := make([]workload.Job, 600)
	for i := range jobs {
		jobs[i] = workload.Job{ID: fmt.Sprint(i), Tenant: string(rune('a' + i%3)),
			Submit:   time.Duration(i*37%5000) * time.Second,
			Duration: time.Duration(100+i*7919%9000) * time.Second, GPUs: workload.GPUs(1 + i%5), Model: "resnet50"}
	}
	w, err := workload.New("test", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	s, err := space.New(pooling.Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := pooling.New(s.Default())
	c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 20, GPUsPerNode: 8}},
		VCs: []workload.VC{{Tenant: "a", GPUs: 100}, {Tenant: "b", GPUs: 40}, {Tenant: "c", GPUs: 10}}}
	var sim simulator.Sim
	preemptions := 0
	run := func() {
		if err := sim.Start(c, w, p,
			simulator.Options{Quota: simulator.QuotaBorrow, PerTenant: true, Attribute: true}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	for _, o := range sim.Outcomes(nil) {
		preemptions += o.Preemptions
	}
	if preemptions == 0 {
		t.Error("nothing was reclaimed: the test says little")
	}
	if n := testing.AllocsPerRun(5, run); n > 0 {
		t.Errorf("%g allocations", n)
	}
}
