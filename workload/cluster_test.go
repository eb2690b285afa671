package workload

import (
	"math"
	"strings"
	"testing"
)

func TestClusterValidate(t *testing.T) {
	groups := func(g ...NodeGroup) Cluster { return Cluster{Groups: g} }
	for field, c := range map[string]Cluster{
		"": Uniform(1, 1), "nodes": Uniform(0, 1), "gpus per node": Uniform(1, 0), "more than 1024": Uniform(1, 2000),
		"more than 1,000,000": Uniform(math.MaxInt, 1),
		"nodes: is more": groups(NodeGroup{Nodes: MaxNodes, GPUsPerNode: 1},
			NodeGroup{Nodes: 1, GPUsPerNode: 1}),
		"nodes: 0 is not positive": groups(),
		`group 1 ("b"): gpus per node: 0 is not`: groups(NodeGroup{Nodes: 1, GPUsPerNode: 1},
			NodeGroup{Name: "b", Nodes: 1}),
		"cpus: -1 is negative":         groups(NodeGroup{Nodes: 1, GPUsPerNode: 1, CPUs: -1}),
		"memory: -1 bytes is negative": groups(NodeGroup{Nodes: 1, GPUsPerNode: 1, Memory: -1}),
	} {
		if err := c.Validate(); (err == nil) != (field == "") || err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%q: %v: %v", field, c, err)
		}
	}
}

func TestParseCluster(t *testing.T) {
	for _, tt := range []struct{ text, fails string }{
		{`{"groups": [{"nodes": 2, "gpus_per_node": 8}], "site": {"settings": {"PriorityType": "priority/basic"}}}`, ""},
		{`{"nodes": 2, "gpus_per_node": 8} `, ""},
		{`{"groups": [{"nodes": 2, "gpus_per_nodes": 8}]}`, `no field "gpus_per_nodes"`},
		{`{"nodes": 2, "gpus_per_node": 8, "sites": {}}`, `no field "sites"`},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"qos": [{"name": "a", "preempts": []}]}}`, `no field "preempts"`},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"qos": [{"name": "a", "preempt_mode": "requeue"}],
			"partitions": [{"name": "a", "preempt_mode": "off"}]}}`, ""},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"qos": [{"name": "a", "preempt_mode": "suspend"}]}}`,
			`qos "a": preempt_mode: "suspend" is none of`},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"qos": [{"name": "a", "preempt_mode": "off"}]}}`,
			`qos "a": preempt_mode: "off" is for partitions`},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"partitions": [{"name": "a", "preempt_mode": "CANCEL"}]}}`,
			`partition "a": preempt_mode: "CANCEL" is none of`},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"limits": [{"qos": "a", "account": "b", "resource": "gpus", "own": 1}]}}`,
			"limit 0: qos, account: not exactly one"},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"limits": [{"account": "b", "each": "user", "resource": "gpus",
			"own": 1}]}}`,
			`limit 0: each: "user"`},
		{`{"nodes": 2, "gpus_per_node": 8, "site": {"limits": [{"qos": "a", "user": "b", "resource": "gpus", "own": 1}]}}`,
			`limit 0: user: "b"`},
		{`{"nodes": 2, "gpus_per_node": 8} {}`, "behind its last brace"},
		{`{"nodes": 2, "gpus_per_node": 0}`, "gpus per node: 0"},
		{`{"nodes": "2"}`, "nodes"},
		{`{"nodes": 2`, "unexpected EOF"},
	} {
		c, err := ParseCluster([]byte(tt.text))
		switch {
		case (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails):
			t.Errorf("%s: %v, want %q", tt.text, err, tt.fails)
		case err == nil && c.TotalGPUs() != 16:
			t.Errorf("%s: %d GPUs", tt.text, c.TotalGPUs())
		}
	}
}

func TestClusterOfGroups(t *testing.T) {
	c := Cluster{Groups: []NodeGroup{{Nodes: 2, GPUsPerNode: 8, GPUModel: "A100"}, {GPUsPerNode: 16},
		{Nodes: 3, GPUsPerNode: 4}}}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.Nodes() != 5 || c.TotalGPUs() != 28 || c.GPUsPerNode() != 16 {
		t.Errorf("%d nodes, %d GPUs, at most %d", c.Nodes(), c.TotalGPUs(), c.GPUsPerNode())
	}
	for node, want := range []int{0, 0, 2, 2, 2, -1} {
		if got := c.GroupOf(node); got != want {
			t.Errorf("node %d is in group %d, want %d", node, got, want)
		}
	}
	if got := c.GroupOf(-1); got != -1 {
		t.Errorf("node -1 is in group %d", got)
	}
	if got := c.String(); got != "2 nodes x 8 A100 GPUs + 0 nodes x 16 GPUs + 3 nodes x 4 GPUs" {
		t.Error(got)
	}
}

func TestClusterFits(t *testing.T) {
	named := Cluster{Groups: []NodeGroup{{Nodes: 2, GPUsPerNode: 8, GPUModel: "A100"},
		{Nodes: 1, GPUsPerNode: 4, GPUModel: "V100", Partition: "old"}}}
	for _, tt := range []struct {
		name             string
		c                Cluster
		gpus             MilliGPU
		members          int32
		model, partition string
		want             bool
	}{
		{"all of a cluster", Uniform(2, 8), GPUs(16), 0, "", "", true},
		{"a fraction beyond it", Uniform(2, 8), GPUs(16) + 1, 0, "", "", false},
		{"a model where none is named", Uniform(2, 8), GPUs(16), 0, "A100", "old", true},
		{"no nodes", Cluster{}, 1, 0, "", "", false},
		{"all of the larger group", named, GPUs(16), 0, "", "", true},
		{"wider than each group, not than both", named, GPUs(17), 0, "", "", false},
		{"members on both groups", named, GPUs(20), 5, "", "", true},
		{"members of one model", named, GPUs(20), 5, "A100", "", false},
		{"all of the model", named, GPUs(4), 0, "V100", "", true},
		{"wider than the model's group", named, GPUs(5), 0, "V100", "", false},
		{"wider than the partition", named, GPUs(5), 0, "", "old", false},
		{"no group with both", named, GPUs(1), 0, "A100", "old", false},
		{"an unknown model", named, GPUs(1), 0, "H100", "", false},
	} {
		j := Job{GPUs: tt.gpus, Members: tt.members,
			Requested: Request{GPUModel: tt.model, Partition: tt.partition}.Shared()}
		if got := tt.c.Fits(&j); got != tt.want {
			t.Errorf("%s: fits %v, want %v", tt.name, got, tt.want)
		}
	}
}
