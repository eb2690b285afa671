package schedulers_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// demanding gives jobs of a trial time limits, node counts, and progress that a preemption loses.
func demanding(t *rapid.T, c trial) *workload.Workload {
	jobs := slices.Clone(c.w.Jobs())
	for i := range jobs {
		j := &jobs[i]
		r := j.Request()
		if rapid.Bool().Draw(t, "has a limit") {
			r.TimeLimit = max(1, j.Duration*time.Duration(uniform(5, 30).Draw(t, "tenths"))/10)
		}
		if rapid.Bool().Draw(t, "loses progress") {
			r.Requeue = workload.RequeueRestarts
			r.HoldOff = time.Duration(uniform(0, 3).Draw(t, "minutes off")) * time.Minute
		}
		if nodes := uniform(0, 3).Draw(t, "nodes"); nodes > 0 {
			asked := *j
			r.NodeCount = int32(nodes)
			asked.GPUs = workload.GPUs(nodes * ((j.GPUs.Whole() + nodes - 1) / nodes))
			if asked.Requested = r.Shared(); c.cluster.Fits(&asked) && asked.GPUs.Whole() <= j.GPUs.Whole() {
				j.GPUs = asked.GPUs // a quota that holds the job still does
			} else {
				r.NodeCount = 0
			}
		}
		j.Requested = r.Shared()
	}
	w, err := workload.New("demanding", c.w.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// keeping is a workload whose preemptions lose no progress.
func keeping(t *rapid.T, w *workload.Workload) *workload.Workload {
	jobs := slices.Clone(w.Jobs())
	for i := range jobs {
		r := jobs[i].Request()
		r.Requeue, r.HoldOff = workload.RequeueUnknown, 0
		jobs[i].Requested = r.Shared()
	}
	out, err := workload.New(w.Name(), w.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
