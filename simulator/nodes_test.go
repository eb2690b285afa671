package simulator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

func nodeEvent(at, node int, kind workload.EventKind) workload.NodeEvent {
	return workload.NodeEvent{At: time.Duration(at) * time.Second, Node: node, Kind: kind}
}

// TestNodeDown: the job on it keeps its progress, goes on elsewhere and pays a restart.
func TestNodeDown(t *testing.T) {
	var seen []string
	o := Options{Nodes: []workload.NodeEvent{nodeEvent(100, 0, workload.NodeDown)}}
	o.Observer = func(e Event) { seen = append(seen, e.Kind.String()) }
	s := ran(t, workload.Uniform(2, 8), jobsOf(t, tenantJob("", 0, 500, 8)), &inOrder{}, o)
	out := s.Outcomes(nil)[0]
	restart := DefaultModels().Restart(8, 0)
	if out.End != 500*time.Second+restart || out.Restart != restart || out.Preemptions != 1 {
		t.Errorf("%+v, want its 500 s and a restart of %v", out, restart)
	}
	want := "submitted started preempted node_down resumed finished"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
	if s.TotalGPUs() != 8 || s.Cluster().Nodes() != 1 || s.Free() != 8 {
		t.Errorf("%d GPUs, %d free, of %v", s.TotalGPUs(), s.Free(), s.Cluster())
	}
}

// TestNodeDrains: the job on it ends there, and the next waits for the other node.
func TestNodeDrains(t *testing.T) {
	w := jobsOf(t, tenantJob("", 0, 500, 4), tenantJob("", 0, 1000, 8), tenantJob("", 200, 100, 1))
	o := Options{Nodes: []workload.NodeEvent{nodeEvent(100, 0, workload.NodeDrained)}}
	var s Sim
	if err := s.Start(workload.Uniform(2, 8), w, &inOrder{}, o); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct{ s, gpus, free int }{
		{99, 16, 4}, {100, 12, 0}, {499, 12, 0}, {500, 8, 0}, {1000, 8, 7},
	} {
		if err := s.RunUntil(context.Background(), time.Duration(at.s)*time.Second); err != nil {
			t.Fatal(err)
		}
		if s.TotalGPUs() != at.gpus || s.Free() != at.free {
			t.Errorf("at %d s: %d of %d GPUs are free, want %d of %d", at.s, s.Free(), s.TotalGPUs(), at.free, at.gpus)
		}
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{500, 1000, 1100} {
		if got := s.Outcomes(nil)[i]; got.End != want*time.Second || got.Preemptions != 0 {
			t.Errorf("job %d: %+v, want its end at %d s", i, got, want)
		}
	}
	// Until the last submission 100 s of 16 GPUs and 100 s of 12, all busy but for 4.
	if got, want := s.Summarize().Utilization, (100*12.+100*12)/(100*16+100*12); got != want {
		t.Errorf("utilisation is %g, want %g", got, want)
	}
}

// TestNodesReturn: a job wider than the remaining nodes waits for the nodes, and the run does not
// wait for node events after the last job.
func TestNodesReturn(t *testing.T) {
	o := Options{Nodes: []workload.NodeEvent{nodeEvent(-5, 1, workload.NodeDown), nodeEvent(700, 1, workload.NodeUp),
		nodeEvent(9000, 0, workload.NodeDown)}}
	s := ran(t, workload.Uniform(2, 8), jobsOf(t, tenantJob("", 0, 100, 16), tenantJob("", 0, 100, 8)), &inOrder{}, o)
	if out := s.Outcomes(nil); out[0].Start != 700*time.Second || out[1].Start != 0 || s.Now() != 800*time.Second {
		t.Errorf("%+v at %v", out, s.Now())
	}
}

func TestNodesNeverReturn(t *testing.T) {
	var s Sim
	o := Options{Nodes: []workload.NodeEvent{nodeEvent(50, 1, workload.NodeDown)}}
	err := s.Start(workload.Uniform(2, 8), jobsOf(t, tenantJob("", 0, 100, 16)), &inOrder{}, o)
	if err == nil {
		err = s.Run(context.Background())
	}
	if err == nil || !strings.Contains(err.Error(), "1 of 2 nodes are down or draining") {
		t.Errorf("%v", err)
	}
}

func TestBadNodeEvents(t *testing.T) {
	for want, o := range map[string]Options{
		"node 2 is not one of the cluster's 2": {Nodes: []workload.NodeEvent{nodeEvent(0, 2, workload.NodeUp)}},
		"started is not an event of a node":    {Nodes: []workload.NodeEvent{nodeEvent(0, 0, workload.Started)}},
		"that of node 1 at 1s comes after one at 2s": {Nodes: []workload.NodeEvent{nodeEvent(2, 0, workload.NodeDown),
			nodeEvent(1, 1, workload.NodeDown)}},
		"placement by counts": {Placement: Count, Nodes: []workload.NodeEvent{nodeEvent(0, 0, workload.NodeUp)}},
	} {
		err := new(Sim).Start(workload.Uniform(2, 8), jobsOf(t, tenantJob("", 0, 100, 1)), &inOrder{}, o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestResumeOnClosedNodes: jobs go on where a node drains, and find another place where it
// is down.
func TestResumeOnClosedNodes(t *testing.T) {
	active := func(id string, node int) workload.ActiveJob {
		return workload.ActiveJob{Job: workload.Job{ID: id, GPUs: workload.GPUs(2)}, Running: true, Starts: 1, Held: 2,
			Placement: []workload.NodeGPUs{{Node: node, GPUs: 2}}}
	}
	state := &workload.State{At: time.Minute, Cluster: workload.Uniform(3, 4), Down: []int{1}, Draining: []int{0, 7},
		Jobs: []workload.ActiveJob{active("drains", 0), active("down", 1), active("up", 2)}}
	for _, mode := range []Placement{ConsolidateFewest, Count} {
		var s Sim
		left := []time.Duration{time.Hour, time.Hour, time.Hour}
		if err := s.Resume(state, left, nil, &inOrder{}, Options{Placement: mode}); err != nil {
			t.Fatal(err)
		}
		gpus, free := 6, 0 // the free ones of the draining node are gone
		if mode == Count {
			gpus, free = 8, 2
		}
		if s.TotalGPUs() != gpus || s.Free() != free {
			t.Errorf("placement %d: %d of %d GPUs are free, want %d of %d", mode, s.Free(), s.TotalGPUs(), free, gpus)
		}
		for id, node := range []int{0, 2, 2} {
			at := s.Placement(nil, ID(id))
			if mode != Count && !slices.Equal(at, []workload.NodeGPUs{{Node: node, GPUs: 2}}) {
				t.Errorf("%s runs on %v, want node %d", s.JobName(ID(id)), at, node)
			}
		}
		if err := s.Run(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
