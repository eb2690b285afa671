package inject

import (
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

func policyOf(t *testing.T, name string, set ...string) simulator.Policy {
	s, err := schedulers.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Space.Parse(s.Space.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	return s.New(c)
}

// TestUsed: a job that uses half of its GPUs has as many that idle, and one that works for a part of its run has no
// use after it, also where jobs are stopped meanwhile.
func TestUsed(t *testing.T) {
	const h = time.Hour
	o := options(t)
	o.Nodes, o.GPUsPerNode = 2, 4
	one := func(id string, submit, d time.Duration, gpus int) workload.Job {
		return workload.Job{ID: id, Tenant: "t" + id, Submit: submit, Duration: d, GPUs: workload.GPUs(gpus),
			Status: workload.Completed}
	}
	jobs := []workload.Job{one("half", 0, 10*h, 4), one("tail", 0, 12*h, 2)}
	for i := range 40 {
		jobs = append(jobs, one(fmt.Sprint(i), time.Duration(i)*30*time.Minute, 2*h, 2))
	}
	uses := map[string]Use{"half": {2, 10 * h}, "tail": {2, 3 * h}}
	s, err := NewUsed(o, jobs, uses, policyOf(t, "tiresias"))
	if err != nil {
		t.Fatal(err)
	}
	stops := 0
	for _, e := range s.Events() {
		switch e.Kind {
		case workload.Preempted:
			stops++
		case workload.Finished:
			restarts := s.Ran(e.Job.ID, e.Time) - e.Job.Duration
			if restarts < 0 || restarts > 2*time.Minute {
				t.Errorf("%s ran for %v more than %v", e.Job.ID, restarts, e.Job.Duration)
			}
		}
	}
	if stops == 0 {
		t.Error("no job was stopped")
	}
	idle, busy, after := map[time.Duration]int{}, map[time.Duration]int{}, 0
	for r := range s.Records() {
		if r.GPU == nil {
			continue
		}
		unused := r.GPU.Utilization < 1
		switch ran := s.Ran(r.GPU.Job, r.At); r.GPU.Job {
		case "half":
			if unused {
				idle[r.At]++
			} else {
				busy[r.At]++
			}
		case "tail":
			if unused != (ran >= uses["tail"].For) {
				t.Errorf("tail, after %v: utilisation %g", ran, r.GPU.Utilization)
			}
			if unused {
				after++
			}
		}
	}
	if after < 100 || len(busy) < 500 {
		t.Fatalf("%d samples without use, %d of half of the GPUs", after, len(busy))
	}
	for at, n := range busy {
		if idle[at] != 2 || n != 2 {
			t.Errorf("at %v %d GPUs are idle and %d busy", at, idle[at], n)
		}
	}
	if _, err := NewUsed(o, jobs, uses, policyOf(t, "gandiva", "packing_limit=2")); err == nil {
		t.Error("jobs share GPUs, and a sample has one of them")
	}
}
