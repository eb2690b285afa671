package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// tiers runs jobs of partitions, written as partition:nodes, ten seconds apart on two nodes of partitions low, mid and
// high, in the order of their tiers, and one node of partition other.
func tiers(t *testing.T, s Settings, change func(*workload.Site), protect simulator.Protection, jobs string,
) []simulator.Outcome {
	t.Helper()
	cluster := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 8, Partition: "low,mid,high"},
		{Nodes: 1, GPUsPerNode: 8, Partition: "other"}}}
	cluster.Site.Partitions = []workload.Partition{{Name: "low", PriorityTier: 1}, {Name: "mid", PriorityTier: 2},
		{Name: "high", PriorityTier: 3}, {Name: "other"}}
	if change != nil {
		change(&cluster.Site)
	}
	var all []workload.Job
	for i, text := range strings.Fields(jobs) {
		partition, nodes, _ := strings.Cut(text, ":")
		n := int(nodes[0] - '0')
		asks := workload.Request{Partition: partition, NodeCount: int32(n), TimeLimit: 20 * time.Minute}
		all = append(all, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(10*i) * time.Second,
			GPUs: workload.GPUs(8 * n), Duration: 10 * time.Minute, Requested: asks.Shared()})
	}
	w, err := workload.New("t", time.Time{}, all)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	options := simulator.Options{Epilog: time.Second, Protect: protect}
	if err := sim.Start(cluster, w, NewPolicy(s), options); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sim.Outcomes(nil)
}

// TestTiers: jobs of a higher tier take the place of jobs of the lowest, which are requeued, cancelled or kept by the
// mode of their partition, or of the cluster.
func TestTiers(t *testing.T) {
	for name, c := range map[string]struct {
		cluster string
		modes   [3]workload.PreemptMode
		want    string // of each job: kept, requeued or cancelled
	}{
		"requeue":          {"REQUEUE", [3]workload.PreemptMode{}, "requeued kept"},
		"cancel":           {"CANCEL", [3]workload.PreemptMode{}, "cancelled kept"},
		"off":              {"REQUEUE", [3]workload.PreemptMode{workload.PreemptOff, workload.PreemptOff}, "kept kept"},
		"lowest is off":    {"REQUEUE", [3]workload.PreemptMode{workload.PreemptOff}, "kept requeued"},
		"lowest is cancel": {"REQUEUE", [3]workload.PreemptMode{workload.PreemptCancel}, "cancelled kept"},
		"lowest requeues":  {"CANCEL", [3]workload.PreemptMode{workload.PreemptRequeue}, "requeued kept"},
	} {
		s := Defaults()
		for key, value := range map[string]string{"PreemptType": "preempt/partition_prio", "PreemptMode": c.cluster} {
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		out := tiers(t, s, func(site *workload.Site) {
			for i, mode := range c.modes {
				site.Partitions[i].PreemptMode = mode
			}
		}, simulator.Protection{}, "low:1 mid:1 high:1")
		var got []string
		for _, o := range out[:2] {
			switch {
			case o.Cancelled && !o.TimedOut && o.End < time.Minute:
				got = append(got, "cancelled")
			case o.Preemptions == 1 && !o.Cancelled:
				got = append(got, "requeued")
			default:
				got = append(got, "kept")
			}
		}
		if fate := strings.Join(got, " "); fate != c.want {
			t.Errorf("%s: the jobs are %s, want %s", name, fate, c.want)
		}
		if waits := out[2].Start > time.Minute; waits != (c.want == "kept kept") {
			t.Errorf("%s: the job of the highest tier starts at %v", name, out[2].Start)
		}
	}
}

// TestProtectedVictims: a job that needs the nodes of two others cancels neither while one of them is protected.
func TestProtectedVictims(t *testing.T) {
	s := Defaults()
	s.PreemptPartition, s.PreemptCancel = true, true
	// The job of both nodes comes at 20 s, when the second has run for 10 s and the first for 20.
	out := tiers(t, s, nil, simulator.Protection{MinRun: 30 * time.Second}, "low:1 low:1 high:2")
	first, second, high := out[0], out[1], out[2]
	if !first.Cancelled || !second.Cancelled || first.End != second.End || high.Start < second.Start+30*time.Second {
		t.Errorf("the first job ends at %v, the second at %v and has begun at %v, and theirs is the place of one that "+
			"starts at %v", first.End, second.End, second.Start, high.Start)
	}
}

// TestNoVainVictims: a job that lacks CPUs besides GPUs stops no job whose GPUs alone would do.
func TestNoVainVictims(t *testing.T) {
	for name, c := range map[string]struct {
		cpus  int64 // of 16 that the first job has; the second has the others, and the third asks for 8
		stops bool
	}{"too few": {4, false}, "enough": {8, true}} {
		cluster := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 8, CPUs: 16,
			Partition: "low,kept,high"}}}
		cluster.Site.Partitions = []workload.Partition{{Name: "low", PriorityTier: 1},
			{Name: "kept", PriorityTier: 1, PreemptMode: workload.PreemptOff}, {Name: "high", PriorityTier: 2}}
		var all []workload.Job
		for i, x := range []struct {
			partition string
			cpus      int64
		}{{"low", c.cpus}, {"kept", 16 - c.cpus}, {"high", 8}} {
			asks := workload.Request{Partition: x.partition, NodeCount: 1, MilliCPUs: 1000 * x.cpus,
				TimeLimit: time.Hour}
			all = append(all, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(10*i) * time.Second,
				GPUs: workload.GPUs(4), Duration: 10 * time.Minute, Requested: asks.Shared()})
		}
		w, err := workload.New("t", time.Time{}, all)
		if err != nil {
			t.Fatal(err)
		}
		s := Defaults()
		s.PreemptPartition, s.PreemptCancel = true, true
		var sim simulator.Sim
		if err := sim.Start(cluster, w, NewPolicy(s), simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := sim.Outcomes(nil)
		if started := out[2].Start < 10*time.Minute; out[0].Cancelled != c.stops || started != c.stops {
			t.Errorf("%s: the first job is cancelled: %v, and the third starts at %v", name, out[0].Cancelled,
				out[2].Start)
		}
	}
}

// TestSharedNodes: once a job of a partition does not fit, the main scheduler starts no job on the nodes of that
// partition, and goes on elsewhere.
func TestSharedNodes(t *testing.T) {
	s := Defaults()
	s.BFInterval = 0
	out := tiers(t, s, nil, simulator.Protection{}, "mid:1 high:2 low:1 other:1")
	if out[2].Start < out[1].Start {
		t.Errorf("a job of the same nodes starts at %v, past one of a higher tier that starts at %v", out[2].Start,
			out[1].Start)
	}
	if out[3].Start > time.Minute {
		t.Errorf("a job of other nodes starts at %v", out[3].Start)
	}
}
