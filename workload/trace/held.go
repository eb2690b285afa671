package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// Held is what the jobs of a trace held: a reader that takes a share for a whole GPU, counts a start twice or loses how
// jobs ended shows in it.
type Held struct {
	// GPUHours are those of all jobs that ran, by status ("" where it is unknown) in Kinds.
	GPUHours float64    `json:"gpu_hours"`
	Kinds    []HeldKind `json:"gpu_hours_by_status,omitempty"`
	Running  float64    `json:"share_in_running_jobs"`
	// Peak is the most GPUs held at once and At the first instant of it, by the jobs whose start is known; 0 without.
	Peak float64   `json:"most_gpus_at_once,omitempty"`
	At   time.Time `json:"most_gpus_at,omitzero"`
}

// HeldKind is the GPU-hours of the jobs of a status.
type HeldKind struct {
	Status   string  `json:"status"`
	GPUHours float64 `json:"gpu_hours"`
}

// change is GPUs taken, or given back if negative, at an instant.
type change struct {
	at   time.Duration
	gpus workload.MilliGPU
}

// hold notes what a job held.
func (in *input) hold(j *workload.Job) {
	if j.Status == workload.Pending {
		return
	}
	in.hours[j.Status] += j.GPUs.Count() * j.Duration.Hours()
	if j.HasWait {
		start := j.Submit + j.Wait
		in.changes.append(change{start, j.GPUs})
		in.changes.append(change{start + j.Duration, -j.GPUs})
	}
}

// held sums up what the jobs held, from the zero of the trace.
func (in *input) held(zero time.Time) {
	h := &in.report.Held
	for status := range in.hours {
		if hours := in.hours[status]; hours > 0 {
			h.GPUHours += hours
			h.Kinds = append(h.Kinds, HeldKind{workload.Status(status).String(), hours})
		}
	}
	if h.GPUHours > 0 {
		h.Running = in.hours[workload.Running] / h.GPUHours
	}
	changes := in.changes.slice()
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.gpus, b.gpus))
	})
	now, most, at := workload.MilliGPU(0), workload.MilliGPU(0), time.Duration(0)
	for _, c := range changes {
		if now += c.gpus; now > most {
			most, at = now, c.at
		}
	}
	if h.Peak = most.Count(); most > 0 {
		if in.wallClock {
			zero = time.Unix(0, 0).UTC()
		}
		h.At = zero.Add(at)
	}
	has := 0
	for _, m := range in.report.Machines {
		has += m.Nodes * m.GPUsPerNode
	}
	if has > 0 && most.Cover() > has {
		in.note(fmt.Sprintf("jobs held %d GPUs at once, and the trace's cluster has %d: the list is of another time or "+
			"cluster, or the jobs are read wrong", most.Cover(), has))
	}
}

// refuted enters the machines of which a job held more than the list says with the number that it held.
func (in *input) refuted() {
	var names []string
	for name, g := range in.nodes {
		if held := in.most[name]; held > g.GPUsPerNode && held <= workload.MaxGPUsPerNode {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	for _, name := range names {
		g := in.nodes[name]
		g.Nodes = -1
		in.countMachine(g)
		g.Nodes, g.GPUsPerNode = 1, in.most[name]
		in.countMachine(g)
	}
	in.report.Machines = slices.DeleteFunc(in.report.Machines, func(g workload.NodeGroup) bool { return g.Nodes == 0 })
	more := ""
	if n := len(names) - 1; n > 0 {
		more = fmt.Sprintf("; so do %d more machines", n)
	}
	in.note(fmt.Sprintf("a job held %d GPUs of machine %s, more than the list of machines has of it: it counts with %d%s",
		in.most[names[0]], lines.Excerpt([]byte(names[0])), in.most[names[0]], more))
}
