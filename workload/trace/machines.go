package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// Held is the GPUs that the jobs of a trace held: a reader that takes a share for a whole GPU, counts a start twice or
// loses how jobs ended shows in it.
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

func byTime(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.gpus, b.gpus)) }

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
	slices.SortFunc(changes, byTime)
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

// stretch is how long jobs must hold more of a machine together than its list says, so that neither a late end nor a
// clock that is set back does it.
const stretch = time.Hour

// occupy notes that a job held GPUs of a machine.
func (in *input) occupy(machine string, gpus int, from, to time.Duration) {
	in.most[machine] = max(in.most[machine], gpus)
	if to-from >= stretch {
		in.machines[machine] = append(in.machines[machine], change{from, workload.GPUs(gpus)},
			change{to, -workload.GPUs(gpus)})
	}
}

// together is the most GPUs above a number that jobs held of a machine for a stretch, that number if they held no more.
func together(all []change, least int) int {
	slices.SortFunc(all, byTime)
	for ; ; least++ {
		held, since, long := workload.MilliGPU(0), time.Duration(0), false
		for _, x := range all {
			before := held > workload.GPUs(least)
			held += x.gpus
			switch after := held > workload.GPUs(least); {
			case after && !before:
				since = x.at
			case before && !after && x.at-since >= stretch:
				long = true
			}
		}
		if !long {
			return least
		}
	}
}

// refuted enters the machines of which jobs held more than the list says, or which it lacks, with the number that they
// held.
func (in *input) refuted() {
	var names, absent []string
	held := map[string]int{}
	for name, g := range in.nodes {
		held[name] = together(in.machines[name], max(g.GPUsPerNode, in.most[name]))
		if held[name] > g.GPUsPerNode && held[name] <= workload.MaxGPUsPerNode {
			names = append(names, name)
		}
	}
	for name, all := range in.machines {
		if _, ok := in.nodes[name]; !ok && in.nodes != nil && in.most[name] <= workload.MaxGPUsPerNode {
			absent = append(absent, name)
			held[name] = min(together(all, in.most[name]), workload.MaxGPUsPerNode)
		}
	}
	and := func(names []string) string {
		if n := len(names) - 1; n > 0 {
			return fmt.Sprintf("; so do %d more machines", n)
		}
		return ""
	}
	slices.Sort(names)
	slices.Sort(absent)
	for _, name := range names {
		g := in.nodes[name]
		g.Nodes = -1
		in.countMachine(g)
		g.Nodes, g.GPUsPerNode = 1, held[name]
		in.countMachine(g)
	}
	for _, name := range absent {
		in.countMachine(workload.NodeGroup{Nodes: 1, GPUsPerNode: held[name]})
	}
	in.report.Machines = slices.DeleteFunc(in.report.Machines, func(g workload.NodeGroup) bool { return g.Nodes == 0 })
	if len(names) > 0 {
		who := "a job"
		if held[names[0]] > in.most[names[0]] {
			who = "jobs together"
		}
		in.note(fmt.Sprintf("%s held %d GPUs of machine %s, more than the list of machines has of it: it counts with %d%s", who,
			held[names[0]], lines.Excerpt([]byte(names[0])), held[names[0]], and(names)))
	}
	if len(absent) > 0 {
		in.note(fmt.Sprintf("jobs held %d GPUs of machine %s, which is not in the list of machines: it counts with them%s",
			held[absent[0]], lines.Excerpt([]byte(absent[0])), and(absent)))
	}
}

// machineLists are the lists of machines that come with public traces. Machines
// without GPUs are left out. Of several lists the first counts: PAI 2023 has two
// of the same machines, which number them differently.
var machineLists = tables{
	// Alibaba PAI 2023: openb_node_list_gpu_node.csv and _all_node.csv.
	{
		required: []string{"sn", "gpu", "model"},
		optional: []string{"cpu_milli", "memory_mib"},
		fold: func(r *csvRow) {
			cpus := r.atMost(3, 0, workload.MaxMilliCPUs) / 1000
			r.machine(0, 1, r.in.own(r.value(2)), int(cpus), r.atMost(4, 0, workload.MaxMemory>>20)<<20)
		},
	},
	// Alibaba PAI 2020: pai_machine_spec.csv.
	{
		required: []string{"machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"},
		bare: func(f [][]byte) bool {
			return len(f) == 5 && isHex(f[0], 16) && !isHex(f[1], 10) && isNumber(f[2]) && isNumber(f[3]) &&
				isNumber(f[4])
		},
		fold: func(r *csvRow) { r.machine(0, 4, r.in.own(r.value(1)), 0, 0) },
	},
	// Microsoft Philly: cluster_machine_list.
	{
		required: []string{"machineId", "number of GPUs", "single GPU mem"},
		fold:     func(r *csvRow) { r.machine(0, 1, string(bytes.TrimSpace(r.value(2))), 0, 0) },
	},
}

const maxKinds = 1000

// machine counts a machine once, however often it is listed.
func (r *csvRow) machine(name, i int, model string, cpus int, memory int64) {
	n, reason := parseDecimal(bytes.TrimSpace(r.value(i)), 0)
	if r.within(i, n, reason, workload.MaxGPUsPerNode, "is more than 1024 GPUs"); !r.ok() {
		return
	}
	report := r.in.report
	report.Merged++ // the row describes the cluster, not a job
	if n == 0 || r.in.nodes[string(r.value(name))].Nodes > 0 {
		return
	}
	g := workload.NodeGroup{Nodes: 1, GPUsPerNode: int(n), GPUModel: model, CPUs: cpus, Memory: memory}
	r.in.nodes[string(r.value(name))] = g
	if !r.in.countMachine(g) {
		report.Merged--
		r.fault(i, "is of yet another kind of machine")
	}
}

// countMachine adds nodes to the cluster. It is false for a hostile list: no cluster has as many kinds of machines.
func (in *input) countMachine(g workload.NodeGroup) bool {
	report := in.report
	for k := range report.Machines {
		if m := &report.Machines[k]; m.GPUsPerNode == g.GPUsPerNode && m.GPUModel == g.GPUModel && m.CPUs == g.CPUs &&
			m.Memory == g.Memory {
			m.Nodes += g.Nodes
			return true
		}
	}
	if len(report.Machines) < maxKinds {
		report.Machines = append(report.Machines, g)
		return true
	}
	return false
}

// isHex recognises hashed names: hexadecimal digits, at least least of them.
func isHex(b []byte, least int) bool {
	return len(b) >= least && len(bytes.TrimLeft(b, "0123456789abcdef")) == 0
}

func isNumber(b []byte) bool {
	_, reason := parseDecimal(b, 9)
	return reason == ""
}
