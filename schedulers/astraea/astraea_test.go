package astraea

import (
	"testing"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/workload"
)

// Tenant x has three jobs, y one, on two GPUs. At the end of the first term x
// has received twice its share. Between tenants, only y's job takes a place;
// between jobs, both waiting jobs do.
func TestTenantsOrJobs(t *testing.T) {
	var jobs []workload.Job
	for _, id := range []string{"x1", "x2", "x3", "y"} {
		j := tryout.Job(id, 0, 6000, 1)
		j.Tenant = id[:1]
		jobs = append(jobs, j)
	}
	for _, c := range []struct {
		weight string
		x3     bool // starts in the second term
	}{{"1", false}, {"0", true}} {
		out, _ := tryout.Trial{Params: Space(), New: New,
			Set: []string{"lease_term=600", "queues=20", "tenant_weight=" + c.weight}, GPUs: 2, Jobs: jobs}.Run(t)
		tryout.Near(t, "y starts", out[3].Start, 600)
		if got := out[2].Start == tryout.Seconds(600); got != c.x3 {
			t.Errorf("tenant weight %s: x3 starts at %v", c.weight, out[2].Start)
		}
	}
}

// With one queue no job is preempted.
func TestOneQueue(t *testing.T) {
	_, sum := tryout.Trial{Params: Space(), New: New, Set: []string{"lease_term=60", "queues=1"}, GPUs: 1,
		Jobs: []workload.Job{tryout.Job("a", 0, 6000, 1), tryout.Job("b", 0, 6000, 1)}}.Run(t)
	if sum.Preemptions != 0 {
		t.Errorf("%d preemptions", sum.Preemptions)
	}
}
