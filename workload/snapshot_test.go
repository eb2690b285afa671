package workload

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func snapshot(at int, active ...Event) Event {
	return Event{ID: fmt.Sprint("snapshot-", at), Kind: TakenSnapshot, Time: time.Duration(at) * time.Second,
		Active: active}
}

func active(kind EventKind, job string, submit int) Event {
	return Event{Kind: kind, Job: Job{ID: job, GPUs: 2000, Submit: time.Duration(submit) * time.Second}}
}

// Jobs whose end was lost hold no GPUs from the next snapshot on, and count as no completion.
// They leave the memory with the horizon.
func TestSnapshotClosesWhatIsNotThere(t *testing.T) {
	const lost = 100
	day := 24 * 3600
	l := NewLedger(testCluster)
	held := func(at int) (jobs, gpus int) {
		s := l.State(time.Duration(at) * time.Second)
		for i := range s.Jobs {
			gpus += s.Jobs[i].Held
		}
		return len(s.Jobs), gpus
	}
	for i := range lost {
		j := fmt.Sprint("lost-", i)
		apply(t, l, ev(Submitted, j, i), ev(Started, j, i+1))
	}
	apply(t, l, ev(Submitted, "here", 50), ev(Started, "here", 51))
	if jobs, gpus := held(day); jobs != lost+1 || gpus != 2*lost+2 {
		t.Fatalf("%d jobs hold %d GPUs before the snapshot", jobs, gpus)
	}
	apply(t, l, snapshot(day, active(Started, "here", 50), active(Submitted, "new", 60)))
	if jobs, gpus := held(day); jobs != 2 || gpus != 2 {
		t.Errorf("%d jobs hold %d GPUs after the snapshot", jobs, gpus)
	}
	if jobs, _ := held(day - 1); jobs != lost+1 {
		t.Errorf("%d jobs just before the snapshot", jobs)
	}
	state := l.State(time.Duration(day+10) * time.Second)
	here, added := state.Jobs[0], state.Jobs[1]
	if here.ID != "here" || here.Since != 51*time.Second || here.Starts != 1 ||
		here.RunTime != time.Duration(day+10-51)*time.Second ||
		added.ID != "new" || added.Submit != time.Minute || added.WaitTime != time.Duration(day+10-60)*time.Second {
		t.Errorf("%+v", state.Jobs)
	}
	if f := l.Finishes(0, 100*24*time.Hour); len(f) != 0 {
		t.Errorf("counted as completed: %+v", f)
	}
	if n := len(l.Arrivals(0, time.Hour)); n != lost+2 {
		t.Errorf("%d arrivals", n)
	}
	late := ev(Finished, "lost-0", 600) // is known after all
	late.Job.Status = Completed
	apply(t, l, late)
	if f := l.Finishes(0, 100*24*time.Hour); len(f) != 1 || f[0].End != 10*time.Minute {
		t.Errorf("%+v", f)
	}
	apply(t, l, ev(Preempted, "lost-1", day+5)) // was there all the time
	if jobs, gpus := held(day + 10); jobs != 3 || gpus != 2 {
		t.Errorf("%d jobs hold %d GPUs", jobs, gpus)
	}
	if n := l.Forget(time.Duration(day+1) * time.Second); n != 1 || len(l.jobs) != 3 {
		t.Errorf("forgot %d, remembers %d jobs", n, len(l.jobs))
	}
}

func TestSnapshotOfNodes(t *testing.T) {
	up := func(name string, gpus int) Event { return Event{Kind: NodeUp, Node: name, NodeGPUs: gpus} }
	draining := Event{Kind: NodeDrained, Node: "c", NodeGPUs: 8}
	l := NewLedger(Uniform(2, 8))
	apply(t, l, Event{ID: "1", Kind: NodeUp, Node: "a", NodeGPUs: 8},
		Event{ID: "2", Kind: NodeUp, Node: "b", NodeGPUs: 8},
		snapshot(10, up("b", 8), draining), snapshot(20, active(Submitted, "j", 5)), snapshot(30, up("b", 8)))
	for at, want := range map[int]string{5: "2 0", 10: "2 1", 25: "2 1", 30: "1 0"} {
		s := l.State(time.Duration(at) * time.Second)
		if got := fmt.Sprint(s.Cluster.Nodes(), len(s.Draining)); got != want {
			t.Errorf("at %d s: %s nodes and draining, want %s", at, got, want)
		}
	}
}

// Names of nodes that are gone do not accumulate.
func TestNodesAreForgotten(t *testing.T) {
	l := NewLedger(testCluster)
	for i := range 10_000 {
		at := time.Duration(i) * time.Second
		name := fmt.Sprint("node-", i)
		apply(t, l, Event{ID: "u" + name, Kind: NodeUp, Time: at, Node: name, NodeGPUs: 8},
			Event{ID: "d" + name, Kind: NodeDown, Time: at + time.Minute, Node: name})
	}
	l.Forget(24 * time.Hour)
	if n := len(l.nodes); n > 2000 {
		t.Errorf("%d nodes are remembered", n)
	}
}

// cpu is the processor time of the process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The cost of events grows with their number, whatever they say of a job and in whichever order
// they come.
func TestCostOfEventsIsLinear(t *testing.T) {
	cost := func(kinds []EventKind, n int) time.Duration {
		best := time.Hour
		for range 5 {
			began := cpu()
			l := NewLedger(testCluster)
			l.Apply(ev(Submitted, "a", n+1))
			l.Apply(ev(Submitted, "b", n+1))
			for i := n; i > 0; i-- {
				l.Apply(ev(kinds[i%len(kinds)], "a", i))
			}
			l.State(time.Duration(2*n) * time.Second)
			l.Forget(time.Duration(n/2) * time.Second)
			best = min(best, cpu()-began)
		}
		return best
	}
	for _, kinds := range [][]EventKind{{Submitted}, {Finished}, {Submitted, Finished}, {Started, Preempted},
		{Resized}} {
		const n, times = 10_000, 8 // the square of times is 64
		small, large := cost(kinds, n), cost(kinds, times*n)
		if large > 6*times*small {
			t.Errorf("%v: %d events cost %v, %d cost %v", kinds, n, small, times*n, large)
		}
	}
}

func TestSnapshotValidates(t *testing.T) {
	for want, e := range map[string]Event{
		"has a twice":                      snapshot(9, active(Submitted, "a", 1), active(Started, "a", 1)),
		"part 0 is preempted":              snapshot(9, active(Preempted, "a", 1)),
		"part 1: job.job_id: is required":  snapshot(9, active(Started, "a", 1), active(Started, "", 1)),
		"job a was submitted after the":    snapshot(9, active(Started, "a", 10)),
		"is for snapshots only, not for p": {ID: "x", Kind: Preempted, Job: Job{ID: "a"}, Active: []Event{{}}},
	} {
		if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), "snapshot: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	e := ev(Started, "a", 1)
	e.Placement = make([]NodeShare, MaxPlaces+1)
	if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), "placement: has 16385 nodes") {
		t.Errorf("%v", err)
	}
	if err := (&Event{ID: "x", Kind: TakenSnapshot}).Validate(); err != nil {
		t.Errorf("a snapshot of an empty cluster: %v", err)
	}
}
