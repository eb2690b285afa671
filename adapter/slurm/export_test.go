package slurm

import (
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
)

// A LiveRow is a row of sacct as the poller reads it.
type LiveRow struct {
	Key                          string
	MilliGPUs, MilliCPUs, Memory int64
	Nodes                        []string
	Limit                        time.Duration
	Outcome                      slurmtext.Outcome
}

// LiveRows reads a listing with a header and bars.
func LiveRows(text string, shardsPerGPU int) (rows []LiveRow, faults []error, err error) {
	records, err := slurmtext.Table(text)
	all, faults := rowsOf(records, shardsPerGPU)
	for _, r := range all {
		rows = append(rows, LiveRow{r.key, int64(r.GPUs), r.MilliCPUs, r.Memory, r.nodes, r.Limit, r.state.Outcome})
	}
	return rows, faults, err
}

// LiveNodes reads the nodes with GPUs, and LiveOutages the states of times, of the output of scontrol and sacctmgr.
func LiveNodes(text string) (gpus map[string]int, states map[string]string, err error) {
	nodes, _, err := nodesOf(text)
	gpus, states = map[string]int{}, map[string]string{}
	for _, n := range nodes {
		gpus[n.Name], states[n.Name] = n.GPUs, n.State
	}
	return gpus, states, err
}

// LiveOutages lists node and state of each outage.
func LiveOutages(text string) (out []string, err error) {
	outages, err := outagesOf(text)
	for _, o := range outages {
		out = append(out, o.node+" "+o.state)
	}
	return out, err
}
