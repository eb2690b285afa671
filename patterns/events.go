package patterns

import (
	"cmp"
	"slices"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// Events are the events of the jobs of a trace, in order of time: as they were submitted, started
// and ended in the cluster the trace comes from. Jobs without a known wait are left out: when they
// ran is not known. A host list becomes a placement where the nodes can have equal shares.
func Events(w *workload.Workload) []workload.Event {
	jobs := w.Jobs()
	out := make([]workload.Event, 0, 3*len(jobs))
	for i := range jobs {
		j := &jobs[i]
		if !j.HasWait && j.Status != workload.Pending {
			continue
		}
		out = append(out, workload.Event{ID: j.ID + "/submitted", Kind: workload.Submitted, Time: j.Submit, Job: *j})
		if j.Status == workload.Pending {
			continue
		}
		start := j.Submit + j.Wait
		out = append(out, workload.Event{ID: j.ID + "/started", Kind: workload.Started, Time: start, Job: *j,
			Placement: placement(j)})
		if j.Status != workload.Running {
			out = append(out, workload.Event{ID: j.ID + "/finished", Kind: workload.Finished, Time: start + j.Duration,
				Job: *j})
		}
	}
	slices.SortStableFunc(out, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	return out
}

// placement is where a job ran by its host list, nil if that is not known.
func placement(j *workload.Job) []workload.NodeShare {
	if j.Nodes == "" {
		return nil
	}
	nodes, err := slurmtext.HostList(j.Nodes)
	gpus := j.GPUs.Whole()
	if err != nil || len(nodes) == 0 || gpus%len(nodes) != 0 {
		return nil
	}
	out := make([]workload.NodeShare, len(nodes))
	for i, name := range nodes {
		out[i] = workload.NodeShare{Node: name, GPUs: gpus / len(nodes)}
	}
	return out
}
