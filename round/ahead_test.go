package round

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestLookAhead: a future that uses up its budget of events is left out, as its course is not known to the horizon.
func TestLookAhead(t *testing.T) {
	in := longHistory(t, 1000)
	a, err := LookAhead(t.Context(), in, in.Incumbent, 12*time.Hour, time.Hour)
	if err != nil || len(a.Load) == 0 || len(a.Load[0]) != 13 {
		t.Fatal(a, err)
	}
	futures, err := in.Forecast(t.Context(), in.Engine, a.Horizon, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		t.Fatal(err)
	}
	known, never := len(a.Load), &restless{Line: *s.New(in.Incumbent).(*lanes.Line)}
	if err := a.play(t.Context(), &in, new(simulator.Sim), &futures[0], s.New(in.Incumbent), foreseenWork); err != nil {
		t.Fatal(err)
	}
	if len(a.Load) != known+1 {
		t.Errorf("%d courses after one more future than %d", len(a.Load), known)
	}
	if err := a.play(t.Context(), &in, new(simulator.Sim), &futures[0], never, foreseenWork); err != nil {
		t.Fatal(err)
	}
	if len(a.Load) != known+1 {
		t.Errorf("a future of unknown course is among %d", len(a.Load))
	}
	in.State.Cluster = workload.Cluster{}
	if _, err := LookAhead(t.Context(), in, in.Incumbent, 12*time.Hour, time.Hour); !errors.Is(err, ErrNoNode) {
		t.Error(err)
	}
}

// overloaded is a history at whose end n more jobs than fit wait.
func overloaded(t *testing.T, n int) Input {
	in := longHistory(t, 1000)
	at := in.State.At
	for i := 800; i < 1000; i += 2 { // the others hold 300 GPUs of 400
		id := fmt.Sprint(i)
		in.Ledger.Apply(workload.Event{ID: "f" + id, Kind: workload.Finished, Time: at - time.Hour,
			Job: workload.Job{ID: id}})
	}
	for i := range n {
		in.Ledger.Apply(workload.Event{ID: fmt.Sprint("w", i), Kind: workload.Submitted, Time: at - time.Minute,
			Job: workload.Job{ID: fmt.Sprint("w", i), GPUs: workload.GPUs(8 + i%64)}})
	}
	in.State = in.Ledger.State(at)
	return in
}

// TestLookAheadIsBounded: futures of many active jobs end at the last step that all reach with bounded work, and are
// up to then those without a bound.
func TestLookAheadIsBounded(t *testing.T) {
	in := overloaded(t, 300)
	whole, err := LookAhead(t.Context(), in, in.Incumbent, 12*time.Hour, time.Hour)
	if err != nil || whole.Horizon != whole.Asked {
		t.Fatal(whole, err)
	}
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		t.Fatal(err)
	}
	futures, err := in.Forecast(t.Context(), in.Engine, whole.Asked, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	play := func(work int) *Ahead {
		a := &Ahead{At: in.State.At, Horizon: whole.Asked, Asked: whole.Asked, Step: time.Hour,
			Starts: map[string][]time.Duration{}, Ends: map[string][]time.Duration{}}
		for i := range futures {
			if err := a.play(t.Context(), &in, new(simulator.Sim), &futures[i], s.New(in.Incumbent), work); err != nil {
				t.Fatal(err)
			}
		}
		a.cut()
		return a
	}
	free, bound := play(1<<60), play(250_000)
	if bound.Horizon >= free.Horizon || bound.Horizon <= 0 || bound.Horizon%bound.Step != 0 {
		t.Fatalf("the horizon is %v of %v", bound.Horizon, free.Horizon)
	}
	for i := range bound.Load {
		if steps := int(bound.Horizon/bound.Step) + 1; !reflect.DeepEqual(bound.Load[i], free.Load[i][:steps]) {
			t.Errorf("future %d: %v, without a bound %v", i, bound.Load[i], free.Load[i])
		}
	}
	later := 0
	for id, all := range free.Ends {
		for i, at := range all {
			if at > bound.At+bound.Horizon {
				at, later = -1, later+1
			}
			if bound.Ends[id][i] != at {
				t.Errorf("%s ends at %v, without a bound at %v", id, bound.Ends[id][i], at)
			}
		}
	}
	if later == 0 {
		t.Error("no job ends behind the bounded horizon")
	}
}

// TestLookAheadResizes: GPUs held are those of the cluster at most, whatever number each job runs on.
func TestLookAheadResizes(t *testing.T) {
	in := overloaded(t, 300)
	in.Scheduler = "optimus"
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		t.Fatal(err)
	}
	in.Space, in.Incumbent = s.Space, s.Space.Default()
	a, err := LookAhead(t.Context(), in, in.Incumbent, 12*time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, course := range a.Load {
		for _, l := range course {
			most = max(most, l.Busy)
			if l.Busy < 0 || l.Busy > 400 || l.Waiting < 0 || l.Jobs < 0 {
				t.Fatalf("%+v on 400 GPUs", l)
			}
		}
	}
	if most < 200 {
		t.Errorf("at most %d of 400 GPUs are held", most)
	}
}
