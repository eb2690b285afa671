package round

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// shrunk is a ledger of a cluster that lost nodes, so that a waiting job and one
// cancelled within the hour are wider than it; others fit.
func shrunk(t *testing.T, down int) (*workload.Ledger, time.Duration) {
	t.Helper()
	l := workload.NewLedger(workload.Uniform(5, 8))
	n := 0
	apply := func(e workload.Event) {
		n++
		e.ID = fmt.Sprint(n)
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		l.Apply(e)
	}
	at := 3 * time.Hour
	for i := range 30 {
		id := fmt.Sprintf("small-%d", i)
		apply(workload.Event{Kind: workload.Submitted, Time: at - time.Hour + time.Duration(i+1)*time.Minute,
			Job: workload.Job{ID: id, GPUs: workload.GPUs(4)}})
	}
	apply(workload.Event{Kind: workload.Submitted, Time: time.Hour,
		Job: workload.Job{ID: "wide", GPUs: workload.GPUs(40)}})
	apply(workload.Event{Kind: workload.Submitted, Time: at - 30*time.Minute,
		Job: workload.Job{ID: "gone", GPUs: workload.GPUs(40)}})
	apply(workload.Event{Kind: workload.Finished, Time: at - 20*time.Minute,
		Job: workload.Job{ID: "gone", Status: workload.Cancelled}})
	for i := range down {
		apply(workload.Event{Kind: workload.NodeDown, Time: 2 * time.Hour, Node: fmt.Sprint(i), NodeGPUs: 8})
	}
	return l, at
}

func TestDecideOnAShrunkCluster(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	for _, down := range []int{0, 2, 5} {
		l, at := shrunk(t, down)
		r, err := Decide(context.Background(), Input{
			Snapshot:  Snapshot{State: l.State(at), Ledger: l, Zero: time.Unix(0, 0)},
			Scheduler: s.Name, Space: s.Space, Goal: Minimise("avg_jct"), Incumbent: s.Space.Default(),
			Settings: Settings{Horizon: 2 * time.Hour, Futures: 2, Budget: 6},
		})
		if err != nil {
			t.Fatalf("%d nodes down: %v", down, err)
		}
		switch wide := r.Stats.WiderThanCluster; {
		case down == 0 && wide != 0, down == 2 && wide != 1:
			t.Errorf("%d nodes down: %v jobs are said to be too wide", down, wide)
		case down == 5 && (r.Adopt || !strings.Contains(r.Reason, "No node")):
			t.Errorf("all nodes down: %+v", r.Decision)
		case down < 5 && len(r.Trials) != 6:
			t.Errorf("%d nodes down: %d trials, %s", down, len(r.Trials), r.Reason)
		}
	}
}

// TestDecideOnTwoGroups: active and past jobs wider than each group, though not than
// both, and jobs of a model that no group has, are left out of futures and of the past hour.
func TestDecideOnTwoGroups(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	l, at := shrunk(t, 0)
	for i, j := range []workload.Job{{ID: "both", GPUs: workload.GPUs(20)},
		{ID: "model", GPUs: workload.GPUs(1), Requested: workload.Request{GPUModel: "H100"}.Shared()}} {
		for k, when := range []time.Duration{30 * time.Minute, at - 40*time.Minute} {
			j := j
			j.ID += fmt.Sprint(k)
			l.Apply(workload.Event{ID: fmt.Sprint("more-", i, k), Kind: workload.Submitted, Time: when, Job: j})
		}
	}
	snapshot := Snapshot{State: l.State(at), Ledger: l, Zero: time.Unix(0, 0)}
	snapshot.State.Cluster = workload.Cluster{Groups: []workload.NodeGroup{
		{Nodes: 2, GPUsPerNode: 8, GPUModel: "A100"}, {Nodes: 2, GPUsPerNode: 8, GPUModel: "V100"}}}
	r, err := Decide(context.Background(), Input{
		Snapshot: snapshot, Scheduler: s.Name, Space: s.Space, Goal: Minimise("avg_jct"), Incumbent: s.Space.Default(),
		Settings: Settings{Horizon: 2 * time.Hour, Futures: 2, Budget: 6},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Stats.WiderThanCluster != 5 || len(r.Trials) != 6 {
		t.Errorf("%d jobs are too wide, want 5; %d trials: %s", r.Stats.WiderThanCluster, len(r.Trials), r.Reason)
	}
	past, err := snapshot.LastHour(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n, before := past[0].Arrivals.Len(), len(past[0].State.Jobs); n != 30 || before != 0 {
		t.Errorf("the last hour has %d arrivals after %d jobs, want 30 after 0", n, before)
	}
}

// TestDecideWithoutDeadlines: a round whose goal names deadlines notes that no job has
// one.
func TestDecideWithoutDeadlines(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	for _, deadline := range []time.Duration{0, 5 * time.Hour} {
		l, at := shrunk(t, 0)
		e := workload.Event{ID: "due", Kind: workload.Submitted, Time: at - time.Minute,
			Job: workload.Job{ID: "due", GPUs: workload.GPUs(1), Deadline: deadline}}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		l.Apply(e)
		r, err := Decide(context.Background(), Input{
			Snapshot:  Snapshot{State: l.State(at), Ledger: l, Zero: time.Unix(0, 0)},
			Scheduler: s.Name, Space: s.Space, Goal: goal(t, "avg_jct subject to deadline_misses<=5%"),
			Incumbent: s.Space.Default(),
			Settings:  Settings{Horizon: 2 * time.Hour, Futures: 2, Budget: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.Why, NoDeadlineNote) != (deadline == 0) {
			t.Errorf("deadline %v: the round says %q", deadline, r.Why)
		}
	}
}
