package recommend

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

func policy(t *testing.T, name string) func() simulator.Policy {
	s, err := schedulers.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return func() simulator.Policy { return s.New(s.Space.Default()) }
}

func job(id, tenant string, submit, run time.Duration, gpus int) Job {
	return Job{Job: workload.Job{ID: id, Tenant: tenant, Submit: submit, Duration: run, GPUs: workload.GPUs(gpus)},
		Used: float64(gpus), Useful: run}
}

// TestPair: one node of two GPUs. A job works for an hour and idles for nine more; another waits.
func TestPair(t *testing.T) {
	idle, next := job("idle", "a", 0, 10*time.Hour, 2), job("next", "b", 0, 4*time.Hour, 2)
	idle.Useful = time.Hour
	idle.Acted = &Change{Duration: 2 * time.Hour, GPUs: workload.GPUs(2), Used: 2, Useful: time.Hour}
	w := &Window{To: 10 * time.Hour, Jobs: []Job{idle, next}}
	before, after, err := Pair(context.Background(), workload.Uniform(1, 2), w, simulator.Options{}, policy(t, "fifo"))
	if err != nil {
		t.Fatal(err)
	}
	// 2 of 20 GPU-hours, and 2 + 8 of them; the second job waits for ten hours, and for two.
	testshared.Near(t, "utilisation before", before.Utilization, .1, 1e-9)
	testshared.Near(t, "utilisation after", after.Utilization, .5, 1e-9)
	testshared.Near(t, "mean wait before", before.WaitS, 5*3600, 1e-6)
	testshared.Near(t, "mean wait after", after.WaitS, 3600, 1e-6)

	held := idle
	held.Acted = &Change{Drop: true}
	w.Jobs[0] = held
	_, after, err = Pair(context.Background(), workload.Uniform(1, 2), w, simulator.Options{}, policy(t, "fifo"))
	if err != nil {
		t.Fatal(err)
	}
	testshared.Near(t, "utilisation without the job", after.Utilization, .4, 1e-9)
}

func TestCompare(t *testing.T) {
	var before, after []Result
	for i := range 20 {
		before = append(before, Result{Utilization: .5 + .01*float64(i%3), WaitS: 10})
		after = append(after, Result{Utilization: .6 + .01*float64(i%3), WaitS: 5})
	}
	e := Compare(before, after, 1)
	if e.P > 1e-4 || e.Hurt != 0 || e.Longer != 0 || e.Low <= .15 || e.High >= .25 {
		t.Errorf("%+v", e)
	}
	if e := Compare(before, before, 1); e.P != 1 || e.Gain != 0 {
		t.Errorf("nothing changed: %+v", e)
	}
}
