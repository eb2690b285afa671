package capacity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
)

// on is a job that started at once on nodes of a partition, for an hour.
func on(id, nodes, partition string, gpus int, start time.Duration) workload.Job {
	j := ran(id, gpus, start, start, 1)
	j.Nodes, j.Requested = nodes, workload.Request{Partition: partition}.Shared()
	return j
}

// many are 20 jobs of one GPU each, one after the other.
func many(nodes, partition string) []workload.Job {
	var out []workload.Job
	for k := range 20 {
		out = append(out, on(fmt.Sprint(nodes, k), nodes, partition, 1, time.Duration(k)))
	}
	return out
}

func TestInferFromNodeLists(t *testing.T) {
	typed := func(j workload.Job, model string) workload.Job {
		r := j.Request()
		r.GPUModel = model
		j.Requested = r.Shared()
		return j
	}
	for _, tt := range []struct {
		name  string
		jobs  []workload.Job
		e     capacity.Evidence
		want  string
		nodes string
	}{
		{"the size of a node is the largest share of a job",
			[]workload.Job{on("a", "g[1-2],g10", "", 12, 0), on("b", "g2", "", 8, 5)}, capacity.Evidence{},
			"3 nodes x 8 GPUs, from the node lists of 2 jobs", "g1 g2 g10"},
		{"a node that a list names twice is one",
			[]workload.Job{on("a", "g1,g1", "", 8, 0)}, capacity.Evidence{},
			"1 node x 8 GPUs, from the node lists of 1 jobs", "g1"},
		{"or what jobs hold together",
			[]workload.Job{on("a", "g1", "", 1, 0), on("b", "g1", "", 3, 0), on("c", "g1", "", 2, 1)},
			capacity.Evidence{}, "1 node x 4 GPUs, from the node lists of 3 jobs", "g1"},
		{"a node of many jobs that never held more than half is smaller",
			append(many("s1", ""), on("a", "g1", "", 8, 0), on("b", "s2", "", 1, 0)), capacity.Evidence{},
			"2 nodes x 8 GPUs + 1 node x 1 GPUs, from the node lists of 22 jobs", "g1 s2 s1"},
		{"but not where jobs ran across",
			append(many("s1", ""), on("a", "s1,g1", "", 16, 30), on("b", "g1", "", 8, 0)), capacity.Evidence{},
			"2 nodes x 8 GPUs, from the node lists of 22 jobs", "g1 s1"},
		{"the size is given", append(many("s1", ""), on("a", "g1", "", 8, 0)), capacity.Evidence{GPUsPerNode: 4},
			"2 nodes x 4 GPUs, from the node lists of 21 jobs", "g1 s1"},
		{"the number is given", many("s1", ""), capacity.Evidence{Nodes: 7}, "7 nodes x 1 GPUs", ""},
		{"partitions", []workload.Job{on("a", "g1", "long", 8, 0), on("b", "g[2-3]", "debug", 8, 0)},
			capacity.Evidence{}, "2 nodes x 4 GPUs in debug + 1 node x 8 GPUs in long, from the node lists of 2 jobs",
			"g2 g3 g1"},
		{"partitions that share nodes are one pool",
			[]workload.Job{on("a", "g1", "long", 8, 0), on("b", "g[1-2]", "debug", 8, 9), on("c", "h1", "cpu", 2, 0)},
			capacity.Evidence{}, "1 node x 2 GPUs in cpu + 2 nodes x 8 GPUs in debug,long, from the node lists of 3 jobs",
			"h1 g1 g2"},
		{"a partition without known nodes makes all unknown",
			[]workload.Job{on("a", "g1", "long", 8, 0), on("b", "g2", "debug", 8, 0), on("c", "", "other", 8, 0)},
			capacity.Evidence{}, "1 node x 8 GPUs + 1 node x 8 GPUs, from the node lists of 2 jobs", "g2 g1"},
		{"one model", []workload.Job{typed(on("a", "g1", "", 8, 0), "A100"), on("b", "g2", "", 8, 0)},
			capacity.Evidence{}, "2 nodes x 8 A100 GPUs, from the node lists of 2 jobs", "g1 g2"},
		{"two models", []workload.Job{typed(on("a", "g1", "", 8, 0), "A100"), typed(on("b", "g2", "", 4, 0), "V100")},
			capacity.Evidence{}, "1 node x 8 A100 GPUs + 1 node x 8 V100 GPUs, from the node lists of 2 jobs", "g1 g2"},
		{"too few lists", []workload.Job{on("a", "g1", "", 8, 0), on("b", "", "", 8, 0), on("c", "", "", 8, 0)},
			capacity.Evidence{}, "at least 3 nodes x 8 GPUs, because", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := capacity.Infer(history(t, tt.jobs...), tt.e)
			if err != nil || !strings.HasPrefix(strings.TrimPrefix(got.String(), "at least "),
				strings.TrimPrefix(tt.want, "at least ")) || strings.Join(got.Nodes, " ") != tt.nodes {
				t.Errorf("got %v, %v, nodes %v\nwant %s, nodes %s", got, err, got.Nodes, tt.want, tt.nodes)
			}
			for k := range tt.jobs {
				if j := &tt.jobs[k]; tt.e.GPUsPerNode == 0 && !got.Cluster.Fits(j) {
					t.Errorf("%s does not fit %v", j.ID, got.Cluster)
				}
			}
		})
	}
}

// TestEndsOverlapStarts: of jobs that follow each other on a node, each ends a second after
// the next one starts.
func TestEndsOverlapStarts(t *testing.T) {
	var jobs []workload.Job
	for k := range 40 {
		j := on(fmt.Sprint(k), "g1", "", 8, time.Duration(k))
		j.Duration += time.Second
		jobs = append(jobs, j)
	}
	got, err := capacity.Infer(history(t, slices.Clone(jobs)...), capacity.Evidence{})
	if err != nil || !got.Unfilled || got.String() !=
		"at least 1 node x 8 GPUs, from the node lists of 40 jobs, none of which waited for 10 min: "+
			"nodes may have more GPUs" {
		t.Errorf("%v, %v", got, err)
	}
	for k := range jobs {
		jobs[k].Nodes = ""
	}
	got, err = capacity.Infer(history(t, jobs...), capacity.Evidence{})
	if err != nil || got.Peak != workload.GPUs(8) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestNodesComeAndGo: g1 is always there, g2 comes on day 20, g3 goes after day 19, g4 is
// idle on every third day.
func TestNodesComeAndGo(t *testing.T) {
	jobs := func(wait time.Duration) []workload.Job {
		var out []workload.Job
		for day := range 40 {
			for k, there := range []bool{true, day >= 20, day < 20, day%3 != 0} {
				if there {
					j := on(fmt.Sprint(k, "-", day), fmt.Sprint("g", k+1), "p", 8, time.Duration(24*day))
					j.Submit, j.Wait = j.Submit-wait, wait
					out = append(out, j)
				}
			}
		}
		return out
	}
	got, err := capacity.Infer(history(t, jobs(time.Hour)...), capacity.Evidence{})
	day := 24 * time.Hour
	want := []workload.NodeEvent{{At: -workload.MaxSubmit, Node: 1, Kind: workload.NodeDown},
		{At: 20 * day, Node: 1, Kind: workload.NodeUp}, {At: 20 * day, Node: 2, Kind: workload.NodeDrained}}
	if err != nil || !slices.Equal(got.Changes, want) {
		t.Errorf("%v: %v, want %v", err, got.Changes, want)
	}
	if !strings.HasSuffix(got.String(), "; nodes that come or go during the history: 2") || got.Unfilled {
		t.Error(got)
	}
	// Where no job waits, a node without jobs may as well be idle.
	if got, err := capacity.Infer(history(t, jobs(time.Minute)...), capacity.Evidence{}); err != nil ||
		len(got.Changes) > 0 {
		t.Errorf("%v: %v", err, got.Changes)
	}
}
