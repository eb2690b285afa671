package workload

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
)

// A ledger of the remainder of the events before a cut, and of all later ones, answers as one of all
// events does: jobs that are open across the cut, nodes, and jobs that only snapshots show, too.
func TestRemainderIsEnough(t *testing.T) {
	testshared.Full(t)
	const hours, cut = 200, 100
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var events []Event
		add := func(at int, e Event) {
			e.ID, e.Time = fmt.Sprint("e", len(events)), time.Duration(at)*time.Hour
			events = append(events, e)
		}
		for n := range 60 {
			id, at := fmt.Sprint("j", n), rng.IntN(hours)
			job := Job{ID: id, GPUs: 1000}
			for i, kind := range []EventKind{Submitted, Started, Preempted, Resumed, Finished} {
				if i == 0 || rng.IntN(8) > 0 { // some are lost
					add(at, Event{Kind: kind, Job: job})
				}
				at += rng.IntN(30)
			}
		}
		for range 20 {
			node := fmt.Sprint("n", rng.IntN(6))
			add(rng.IntN(hours), Event{Kind: []EventKind{NodeUp, NodeDown}[rng.IntN(2)], Node: node, NodeGPUs: 4})
		}
		for range rng.IntN(6) {
			at := rng.IntN(hours)
			e := Event{Kind: TakenSnapshot}
			for n := range 60 {
				if rng.IntN(4) == 0 {
					e.Active = append(e.Active, Event{Kind: Started, Job: Job{ID: fmt.Sprint("j", n), GPUs: 1000,
						Submit: time.Duration(at-5) * time.Hour}})
				}
			}
			if rng.IntN(2) == 0 {
				for n := range 3 {
					e.Active = append(e.Active, Event{Kind: NodeUp, Node: fmt.Sprint("n", n), NodeGPUs: 4})
				}
			}
			add(at, e)
		}
		whole, old, after := NewLedger(testCluster), NewLedger(testCluster), NewLedger(testCluster)
		for _, e := range events {
			if e.Time < cut*time.Hour {
				whole.Apply(e)
				old.Apply(e)
			}
		}
		old.Forget(cut * time.Hour)
		whole.Forget(cut * time.Hour)
		rest, kept := old.Remainder(), 0
		for _, e := range events {
			if e.Time < cut*time.Hour {
				var ok bool
				if e, ok = rest(e); !ok {
					continue
				}
				kept++
			} else {
				whole.Apply(e)
			}
			after.Apply(e)
		}
		if kept == 0 || kept > len(events)/2 {
			t.Errorf("seed %d: %d of %d events are kept", seed, kept, len(events))
		}
		after.Forget(cut * time.Hour)
		for at := time.Duration(cut); at < hours+100; at += 10 {
			if a, b := whole.State(at*time.Hour), after.State(at*time.Hour); !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d, hour %d: %d jobs, want %d; %v, want %v", seed, at, len(b.Jobs), len(a.Jobs),
					b.Cluster, a.Cluster)
			}
		}
		from, to := cut*time.Hour, 2*hours*time.Hour
		if a, b := whole.Finishes(from, to), after.Finishes(from, to); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %d, want %d", seed, len(b), len(a))
		}
		if a, b := whole.Arrivals(from, to), after.Arrivals(from, to); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %d, want %d", seed, len(b), len(a))
		}
	}
}
