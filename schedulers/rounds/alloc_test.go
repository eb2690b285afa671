package rounds_test

import (
	"context"
	"testing"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// Policies on this base and on package elastic reuse their memory in a second run.
func TestRunsReuseMemory(t *testing.T) {
	c := workload.Uniform(2, 8) // too small, so that jobs wait
	var jobs []workload.Job
	sample, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range sample.Jobs() {
		if j.GPUs.Whole() <= c.TotalGPUs() && len(jobs) < 200 {
			jobs = append(jobs, j)
		}
	}
	w, err := workload.New("sample", sample.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"astraea", "chronus", "gandiva", "gavel", "optimus", "pollux"} {
		s, err := schedulers.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		p := s.New(s.Space.Default())
		var sim simulator.Sim
		run := func() {
			if err := sim.Start(c, w, p, simulator.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if sim.Summarize().AvgQueue == 0 {
			t.Fatal("no job waits")
		}
		if n := testing.AllocsPerRun(3, run); n > 10 {
			t.Errorf("%s: %g allocations per run of %d jobs", name, n, w.Len())
		}
	}
}
