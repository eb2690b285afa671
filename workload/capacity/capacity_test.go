package capacity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
)

func history(t *testing.T, jobs ...workload.Job) *workload.Workload {
	t.Helper()
	w, err := workload.New("history", time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ran is a job that was submitted and started at hours since the zero.
func ran(id string, gpus int, submit, start, hours time.Duration) workload.Job {
	return workload.Job{ID: id, GPUs: workload.GPUs(gpus), Submit: submit * time.Hour, HasWait: true,
		Wait: (start - submit) * time.Hour, Duration: hours * time.Hour}
}

func TestInfer(t *testing.T) {
	unknown := workload.Job{ID: "u", GPUs: 1000, Duration: time.Hour}
	other := unknown
	other.ID = "v"
	machines := []workload.NodeGroup{{Nodes: 3, GPUsPerNode: 4, GPUModel: "V100"}, {Nodes: 1, GPUsPerNode: 8}}
	for _, tt := range []struct {
		name string
		jobs []workload.Job
		e    capacity.Evidence
		want string // "" for ErrUnknown
	}{
		{"a list of machines", []workload.Job{unknown}, capacity.Evidence{Machines: machines},
			"3 nodes x 4 V100 GPUs + 1 node x 8 GPUs, from the list of machines"},
		{"a statement", []workload.Job{unknown}, capacity.Evidence{Machines: machines[1:], Declared: true},
			"1 node x 8 GPUs, as the trace states"},
		{"nothing", []workload.Job{unknown}, capacity.Evidence{}, ""},
		{"most starts are unknown", []workload.Job{unknown, other, ran("a", 4, 0, 1, 2)}, capacity.Evidence{}, ""},
		{"starts", []workload.Job{unknown, ran("a", 12, 0, 1, 2), ran("b", 5, 0, 2, 2), ran("c", 12, 1, 3, 9)},
			capacity.Evidence{}, "at least 3 nodes x 8 GPUs, because 17 GPUs were in use at 2026-01-05T02:00:00Z, by the " +
				"recorded starts of 3 jobs; 8 GPUs per node are assumed"},
		{"starts, and the size of nodes", []workload.Job{ran("a", 12, 0, 1, 2)}, capacity.Evidence{GPUsPerNode: 4},
			"at least 3 nodes x 4 GPUs, because 12 GPUs were in use at 2026-01-05T01:00:00Z, " +
				"by the recorded starts of 1 jobs"},
		{"given", []workload.Job{unknown}, capacity.Evidence{Nodes: 2, GPUsPerNode: 4, Machines: machines},
			"2 nodes x 4 GPUs"},
		{"nodes, and machines of one size", []workload.Job{unknown},
			capacity.Evidence{Nodes: 2, Machines: machines[:1]},
			"2 nodes x 4 GPUs"},
		{"nodes, and machines of two sizes", []workload.Job{unknown}, capacity.Evidence{Nodes: 2, Machines: machines},
			"2 nodes x 8 GPUs; 8 GPUs per node are assumed"},
		{"size of nodes, and machines", []workload.Job{unknown},
			capacity.Evidence{GPUsPerNode: 2, Machines: machines[:1]},
			"3 nodes x 2 V100 GPUs, from the list of machines"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := capacity.Infer(history(t, tt.jobs...), tt.e)
			if tt.want == "" {
				if !errors.Is(err, capacity.ErrUnknown) {
					t.Fatalf("got %v, %v", got, err)
				}
				return
			}
			if err != nil || got.String() != tt.want {
				t.Errorf("got %v, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestInferRefusesWhatNoClusterHolds(t *testing.T) {
	_, err := capacity.Infer(history(t, ran("a", 1, 0, 0, 1)),
		capacity.Evidence{Machines: []workload.NodeGroup{{Nodes: 2_000_000, GPUsPerNode: 8}}})
	if err == nil || !strings.Contains(err.Error(), "1,000,000") {
		t.Errorf("got %v", err)
	}
}
