package simulator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// threeGroups are nodes 0-1 with 4 V100s, 2-3 with 8 A100s, 4 with 8 A100s in
// partition "large".
var threeGroups = workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 4, GPUModel: "V100"},
	{Nodes: 2, GPUsPerNode: 8, GPUModel: "A100"}, {Nodes: 1, GPUsPerNode: 8, GPUModel: "A100", Partition: "large"}}}

// TestPlacementByGroups: a gang gets nodes of one group that satisfies its request
// (the group where it needs the fewest nodes, then the fullest node, then the
// first.
func TestPlacementByGroups(t *testing.T) {
	for _, tt := range []struct {
		name             string
		taken            string // node:GPUs
		gpus             int
		model, partition string
		relaxed          bool
		want             string
	}{
		{"the fullest node of all groups", "3:5", 3, "", "", false, "3:3"},
		{"of equal nodes, the first", "", 4, "", "", false, "0:4"},
		{"of a group that has the model", "", 4, "A100", "", false, "2:4"},
		{"and the partition", "", 4, "A100", "large", false, "4:4"},
		{"or the partition alone", "", 1, "", "large", false, "4:1"},
		{"no group has both", "", 1, "V100", "large", false, "-"},
		{"one node rather than two", "", 8, "", "", false, "2:8"},
		{"two where one is not free", "2:1 3:1 4:1", 8, "", "", false, "0:4 1:4"},
		{"never across groups", "0:1 2:1 3:1 4:1", 8, "", "", false, "-"},
		{"not even when it may be spread", "0:1 2:7 3:7 4:7", 8, "", "", true, "-"},
		{"spread within a group", "0:1 1:1 2:2 3:2 4:8", 8, "", "", true, "2:6 3:2"},
		{"larger than each node", "", 16, "", "", false, "2:8 3:8"},
		{"larger than each group", "", 17, "", "", true, "-"},
	} {
		p := new(placer)
		p.reset(ConsolidateFewest, threeGroups)
		for _, f := range strings.Fields(tt.taken) {
			var node, gpus int
			if _, err := fmt.Sscanf(f, "%d:%d", &node, &gpus); err != nil {
				t.Fatal(err)
			}
			p.take(node, gpus)
		}
		where := p.constraint(&threeGroups,
			&workload.Job{Requested: workload.Request{GPUModel: tt.model, Partition: tt.partition}.Shared()})
		got := ""
		for _, n := range p.find(nil, tt.gpus, 0, tt.relaxed, where) {
			got += fmt.Sprintf(" %d:%d", n.Node, n.GPUs)
		}
		if got == "" {
			got = " -"
		}
		if got[1:] != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got[1:], tt.want)
		}
	}
}

// TestJobsThatFitNoGroup: the error names the job, its request and the cluster
// content. Properties that no group names bind no job.
func TestJobsThatFitNoGroup(t *testing.T) {
	for _, tt := range []struct {
		c       workload.Cluster
		gpus    int
		request workload.Request
		want    []string // parts of the error; nil for none
	}{
		{threeGroups, 16, workload.Request{}, nil},
		{threeGroups, 17, workload.Request{},
			[]string{`"wide"`, "17 GPUs", "2 nodes x 4 V100 GPUs + 2 nodes x 8 A100 GPUs"}},
		{threeGroups, 9, workload.Request{GPUModel: "V100"}, []string{`"wide"`, `9 GPUs of model "V100"`}},
		{threeGroups, 9, workload.Request{GPUModel: "A100", Partition: "large"},
			[]string{`9 GPUs of model "A100" in partition "large"`}},
		{threeGroups, 1, workload.Request{GPUModel: "H100"}, []string{`1 GPUs of model "H100"`}},
		{workload.Uniform(2, 8), 16, workload.Request{GPUModel: "H100", Partition: "large"}, nil},
		{workload.Uniform(2, 8), 17, workload.Request{}, []string{"asks for 17 GPUs and the cluster has 16"}},
	} {
		w, err := workload.New("fits", time.Time{},
			[]workload.Job{{ID: "wide", Duration: time.Hour, GPUs: workload.GPUs(tt.gpus),
				Requested: tt.request.Shared()}})
		if err != nil {
			t.Fatal(err)
		}
		var s Sim
		switch err := s.Start(tt.c, w, &inOrder{}, Options{}); {
		case tt.want == nil && err != nil:
			t.Errorf("%d GPUs, %+v: %v", tt.gpus, tt.request, err)
		case tt.want != nil && err == nil:
			t.Errorf("%d GPUs, %+v: no error", tt.gpus, tt.request)
		}
		for _, part := range tt.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%v: does not name %s", err, part)
			}
		}
	}
}

// TestEqualGroupsPlaceAsOne: a gang of at most a node finds a place in a cluster
// divided into groups of equal nodes if and only if it does in the whole one, on the
// same node.
func TestEqualGroupsPlaceAsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perNode := rapid.IntRange(1, 8).Draw(t, "GPUs per node")
		var c workload.Cluster
		for range rapid.IntRange(2, 4).Draw(t, "groups") {
			c.Groups = append(c.Groups,
				workload.NodeGroup{Nodes: rapid.IntRange(0, 3).Draw(t, "nodes"), GPUsPerNode: perNode})
		}
		c.Groups[0].Nodes++
		mode := []Placement{ConsolidateFewest, ConsolidateWhole, FirstFit}[rapid.IntRange(0, 2).Draw(t, "placement")]
		one, several := new(placer), new(placer)
		one.reset(mode, workload.Uniform(c.Nodes(), perNode))
		several.reset(mode, c)
		type held struct{ node, gpus int }
		var jobs []held
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(jobs) > 0 && rapid.Bool().Draw(t, "ends") {
				i := rapid.IntRange(0, len(jobs)-1).Draw(t, "job")
				one.give(jobs[i].node, jobs[i].gpus)
				several.give(jobs[i].node, jobs[i].gpus)
				jobs = append(jobs[:i], jobs[i+1:]...)
				continue
			}
			g := rapid.IntRange(1, perNode).Draw(t, "GPUs")
			a, b := one.find(nil, g, 0, false, 0), several.find(nil, g, 0, false, 0)
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("%d GPUs: at %v of one group, at %v of %d", g, a, b, len(c.Groups))
			}
			if len(a) > 0 {
				one.take(a[0].Node, g)
				several.take(a[0].Node, g)
				jobs = append(jobs, held{a[0].Node, g})
			}
			if one.idle != several.idle || one.fragmented() != several.fragmented() ||
				one.total(0, 0) != several.total(0, 0) {
				t.Fatalf("%d, %d and %d GPUs are free, fragmented and placeable of one group, %d, %d and %d of %d",
					one.idle, one.fragmented(), one.total(0, 0),
					several.idle, several.fragmented(), several.total(0, 0), len(c.Groups))
			}
		}
	})
}

// TestRationedPlaces: a node offers as many GPUs as its CPUs and memory allow.
func TestRationedPlaces(t *testing.T) {
	c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 3, GPUsPerNode: 8, CPUs: 32, Memory: 64 << 30}}}
	for _, tt := range []struct {
		gpus, cpus int // of the request
		gib        int64
		want       string
	}{
		{2, 8, 16, "0:2"},
		{4, 64, 0, "0:2 1:2"},
		{3, 0, 3 * 32, "0:2 1:1"},
		{10, 10, 0, "0:8 1:2"},
		{7, 70, 0, "0:3 1:3 2:1"},
		{10, 100, 0, "refused"},
		{1, 33, 0, "refused"},
	} {
		w, err := workload.New("t", time.Unix(0, 0), []workload.Job{{ID: "a", GPUs: workload.GPUs(tt.gpus), Duration: 1,
			Requested: workload.Request{MilliCPUs: int64(1000 * tt.cpus), Memory: tt.gib << 30}.Shared()}})
		if err != nil {
			t.Fatal(err)
		}
		var s Sim
		got := "refused"
		if err := s.Start(c, w, &inOrder{}, Options{}); err == nil {
			got = ""
			for _, n := range s.place.find(nil, tt.gpus, 0, false, s.constraintOf(&w.Jobs()[0])) {
				got += fmt.Sprintf(" %d:%d", n.Node, n.GPUs)
			}
			got = strings.TrimSpace(got)
		} else if !strings.Contains(err.Error(), `job "a" asks for`) {
			t.Error(err)
		}
		if got != tt.want {
			t.Errorf("%d GPUs, %d CPUs, %d GiB: %s, want %s", tt.gpus, tt.cpus, tt.gib, got, tt.want)
		}
	}
}
