package slurm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestSpread: jobs get nodes below few leaf switches, of low weight first, and the rest near by.
func TestSpread(t *testing.T) {
	nodes := func(numbers ...int) nodeSet {
		s := make(nodeSet, 1)
		for _, n := range numbers {
			s.add(n)
		}
		return s
	}
	// 0 and 1, 2 to 4, 5 to 8 are on leaves; the first two are nearer to each other.
	tree := []wire{{nodes: nodes(0, 1), parent: 3}, {nodes: nodes(2, 3, 4), parent: 3},
		{nodes: nodes(5, 6, 7, 8), parent: 4}, {nodes: nodes(0, 1, 2, 3, 4), parent: 4, level: 1},
		{nodes: nodes(0, 1, 2, 3, 4, 5, 6, 7, 8), parent: -1, level: 2}}
	all := nodes(0, 1, 2, 3, 4, 5, 6, 7, 8)
	heavy := nodeWeights{1, 1, 5, 5, 5, 1, 1, 1, 1}
	for _, tt := range []struct {
		name    string
		wires   []wire
		weights nodeWeights
		free    nodeSet
		n       int
		want    []int32
	}{
		{"the leaf with the fewest that are enough", tree, nil, all, 3, []int32{2, 3, 4}},
		{"one node, the fullest leaf", tree, nil, nodes(0, 1, 3, 6, 7), 1, []int32{3}},
		{"the larger leaf, then the nearest", tree, nil, nodes(0, 1, 2, 3, 4, 5), 4, []int32{2, 3, 4, 0}},
		{"the largest leaf first", tree, nil, all, 6, []int32{5, 6, 7, 8, 0, 1}},
		{"low weights first", tree, heavy, all, 2, []int32{0, 1}},
		{"all of low weight, then more", tree, heavy, nodes(0, 2, 3, 4), 2, []int32{0, 2}},
		{"no switch above all: as without", tree[:3], nil, nodes(0, 2, 5), 2, []int32{0, 2}},
		{"weights without switches", nil, heavy, all, 3, []int32{5, 6, 7}},
		{"weights without switches, over runs", nil, heavy, nodes(0, 2, 3, 8), 3, []int32{0, 8, 2}},
	} {
		p := &policy{wires: slices.Clone(tt.wires), weights: tt.weights}
		if len(tt.wires) == 3 {
			for i := range p.wires {
				p.wires[i].parent = -1
			}
		}
		if p.pick(tt.free, tt.n); !slices.Equal(p.chosen, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, p.chosen, tt.want)
		}
	}
}

// TestWeightsOfGroups: of groups with idle nodes a job starts in the one of the least weight, also if it asks for no
// number of nodes.
func TestWeightsOfGroups(t *testing.T) {
	for count := range int32(2) {
		cluster := workload.Uniform(1, 8)
		cluster.Groups = append(cluster.Groups, cluster.Groups[0], cluster.Groups[0])
		for i, w := range []int64{100, 1, 1} {
			cluster.Groups[i].Name, cluster.Groups[i].Weight = fmt.Sprint(i), w
		}
		asks := workload.Request{NodeCount: count, TimeLimit: time.Hour}
		sim, _ := midway(t, cluster, []workload.Job{{ID: "0", Duration: time.Hour, GPUs: workload.GPUs(2),
			Requested: asks.Shared()}})
		if at := sim.Placement(nil, 0); len(at) != 1 || at[0].Node != 1 {
			t.Errorf("node count %d: it is on %v, want node 1", count, at)
		}
	}
}

// TestWholeNodes: a job of an exclusive partition starts on idle nodes alone, and keeps them from others.
func TestWholeNodes(t *testing.T) {
	cluster := workload.Uniform(2, 8)
	cluster.Groups[0].Partition, cluster.Groups[0].CPUs = "a,b", 64
	cluster.Site.Partitions = []workload.Partition{{Name: "a"}, {Name: "b", Exclusive: true}}
	var jobs []workload.Job
	for i, part := range []string{"a", "b", "b", "a", "a"} { // the nodes, in turn: 0, 1, 0 or 1, behind it
		asks := workload.Request{NodeCount: 1, MilliCPUs: 16000, Partition: part, TimeLimit: 10 * time.Minute}
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i) * time.Second,
			Duration: 5 * time.Minute, GPUs: workload.GPUs(2), Requested: asks.Shared()})
	}
	w, err := workload.New("t", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPolicy(Defaults()).(*policy)
	var sim simulator.Sim
	if err := sim.Start(cluster, w, p, simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f := &p.future; !slices.Equal(f.free, []int32{8, 8}) || !slices.Equal(f.cpus, []int64{64000, 64000}) {
		t.Errorf("in the end %d GPUs and %d thousandths of CPUs are free, not all", f.free, f.cpus)
	}
	for i, o := range sim.Outcomes(nil) {
		from, to := 0, 2
		if i == 2 { // beside no other
			from, to = 5, 10
		}
		if m := int(o.Start / time.Minute); i < 3 && (m < from || m >= to) || i > 2 && m > 11 {
			t.Errorf("job %d starts at %v", i, o.Start)
		}
	}
}

// TestPlansOfCores: plans see when CPUs and memory get free, not GPUs alone.
func TestPlansOfCores(t *testing.T) {
	for name, ask := range map[string]func(*workload.Request, int){
		"CPUs":   func(q *workload.Request, share int) { q.MilliCPUs = int64(share) * 8000 },
		"memory": func(q *workload.Request, share int) { q.Memory = int64(share) << 30 },
	} {
		cluster := workload.Uniform(1, 8)
		cluster.Groups[0].CPUs, cluster.Groups[0].Memory = 64, 8<<30
		var jobs []workload.Job
		// Six eighths are taken for an hour. The second job needs three; the third ends before, the fourth behind it.
		for i, x := range []struct{ share, minutes int }{{6, 60}, {3, 60}, {1, 50}, {1, 90}} {
			asks := workload.Request{NodeCount: 1, TimeLimit: time.Duration(x.minutes) * time.Minute}
			ask(&asks, x.share)
			jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(10*i) * time.Second,
				Duration: asks.TimeLimit, GPUs: workload.GPUs(1), Requested: asks.Shared()})
		}
		w, err := workload.New("t", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		s := Defaults()
		s.PriorityMaxAge = 0
		var sim simulator.Sim
		if err := sim.Start(cluster, w, NewPolicy(s), simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, o := range sim.Outcomes(nil) {
			if m := int(o.Start / time.Minute); m < []int{0, 60, 0, 60}[i] || m > []int{1, 62, 2, 130}[i] {
				t.Errorf("%s: job %d starts at %v", name, i, o.Start)
			}
		}
	}
}
