package trace

import (
	"bytes"

	"github.com/autosched/autosched/workload"
)

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
	for _, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return len(b) >= least
}

func isNumber(b []byte) bool {
	_, reason := parseDecimal(b, 9)
	return reason == ""
}
