package round

import (
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestWorkFromEvents: the progress of a job follows from its events, except that
// interrupted restarts count as complete.
func TestWorkFromEvents(t *testing.T) {
	for _, free := range []bool{false, true} {
		o := simulator.Options{Peer: simulator.Peer{NoRestartCost: free}}
		x := observe(t, 14*time.Hour, o)
		k := index((&Snapshot{State: x.state, Ledger: x.ledger, Simulator: o}).records())
		ended, resumed, exact := 0, 0, 0
		for i := range x.w.Jobs() {
			j := &x.w.Jobs()[i]
			id := simulator.ID(i)
			if j.Submit > x.state.At {
				continue
			}
			p := k[j.ID]
			done := j.Duration
			if x.Sim.JobActive(id) {
				done -= x.Sim.JobLeft(id)
			}
			restarts := time.Duration(max(0, x.Sim.JobStarts(id)-1)) *
				simulator.DefaultModels().Restart(j.GPUs.Whole(), 0)
			if free {
				restarts = 0
			}
			if p.Ran > done || p.Ran < done-restarts {
				t.Errorf("%s did %v, known as %v, started %d times", j.ID, done, p.Ran, x.Sim.JobStarts(id))
			}
			if p.Ended == x.Sim.JobActive(id) {
				t.Errorf("%s: ended %v, active %v", j.ID, p.Ended, x.Sim.JobActive(id))
			}
			if p.Ended {
				ended++
			}
			if x.Sim.JobStarts(id) > 1 {
				resumed++
				if p.Ran == done {
					exact++
				}
			}
		}
		if ended < 50 || resumed < 20 || exact < resumed*3/4 {
			t.Errorf("%d jobs ended, %d were resumed, the work of %d of them is exact", ended, resumed, exact)
		}
	}
}

func TestFutures(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	at := x.state.At
	first := x.futures(t, 3)
	if len(first) != 3 {
		t.Fatalf("%d futures", len(first))
	}
	came := x.w.Window(at-time.Hour, at).Len()
	for i, s := range first {
		if s.State != first[0].State || s.State.At != at || len(s.Left) != len(x.state.Jobs) {
			t.Fatalf("future %d has %d remaining durations for %d jobs", i, len(s.Left), len(x.state.Jobs))
		}
		for k, left := range s.Left {
			if left <= 0 {
				t.Errorf("future %d: %s has %v left", i, x.state.Jobs[k].ID, left)
			}
		}
		if got := s.Arrivals.Len(); got != 2*came {
			t.Errorf("future %d: %d arrivals in two hours, %d in the last one", i, got, came)
		}
		if lo, hi := s.Arrivals.Span(); lo < at || hi >= at+2*time.Hour {
			t.Errorf("future %d: arrivals from %v to %v", i, lo-at, hi-at)
		}
	}
}

// TestJobThatTheLedgerLacks: it has made no progress.
func TestJobThatTheLedgerLacks(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	lacking := x.state.Jobs[0]
	lacking.ID = "lacking"
	x.state.Jobs = append(x.state.Jobs, lacking)
	for i, s := range x.futures(t, 2) {
		if n := len(x.state.Jobs); len(s.Left) != n || s.Left[n-1] <= 0 {
			t.Errorf("future %d: %v left of %d jobs", i, s.Left, n)
		}
	}
	now := x.snapshot()
	active := index(now.records()).active(&now.State)
	if got := active[len(active)-1]; got.ID != "lacking" || got.Ran != 0 || got.Ended || got.Until != x.state.At {
		t.Errorf("the record is %+v", got)
	}
}

// TestFuturesKnowNoFuture: futures do not depend on later arrivals nor on the true
// durations of active jobs.
func TestFuturesKnowNoFuture(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	want := x.futures(t, 2)
	y := observe(t, 14*time.Hour, simulator.Options{})
	if err := y.Sim.RunUntil(t.Context(), 18*time.Hour); err != nil { // the ledger goes on, the state stays
		t.Fatal(err)
	}
	for i := range y.state.Jobs {
		if y.state.Jobs[i].Duration != 0 {
			t.Fatalf("the state tells that %s takes %v", y.state.Jobs[i].ID, y.state.Jobs[i].Duration)
		}
	}
	got := y.futures(t, 2)
	for i := range want {
		if len(want[i].Left) != len(got[i].Left) || want[i].Arrivals.Digest() != got[i].Arrivals.Digest() {
			t.Fatalf("future %d depends on what came later", i)
		}
		for k := range want[i].Left {
			if want[i].Left[k] != got[i].Left[k] {
				t.Errorf("future %d: %s has %v left, or %v when later events are known",
					i, x.state.Jobs[k].ID, want[i].Left[k], got[i].Left[k])
			}
		}
	}
}

// TestLastHour: SelfTune tunes on the past hour, with the durations known by now.
func TestLastHour(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{Peer: simulator.Peer{NoRestartCost: true}})
	at := x.state.At
	replays, err := (&Snapshot{State: x.state, Ledger: x.ledger, Zero: x.w.Zero(),
		Simulator: simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}}).LastHour(t.Context(), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	truth := map[string]*workload.Job{}
	for i := range x.w.Jobs() {
		truth[x.w.Jobs()[i].ID] = &x.w.Jobs()[i]
	}
	active := map[string]bool{}
	for i := range x.state.Jobs {
		active[x.state.Jobs[i].ID] = true
	}
	for i, r := range replays {
		if r.State.At != at-time.Hour || len(r.Left) != len(r.State.Jobs) {
			t.Fatalf("replay %d begins at %v, %d remaining durations for %d jobs",
				i, r.State.At, len(r.Left), len(r.State.Jobs))
		}
		if want := x.w.Window(at-time.Hour+1, at+1).Len(); r.Arrivals.Len() != want {
			t.Errorf("replay %d: %d arrivals, %d came", i, r.Arrivals.Len(), want)
		}
		for k := range r.State.Jobs {
			a := &r.State.Jobs[k]
			if done := truth[a.ID].Duration - a.RunTime; !active[a.ID] && r.Left[k] != max(done, time.Second) {
				t.Errorf("replay %d: %s had %v left, replayed with %v", i, a.ID, done, r.Left[k])
			}
		}
		for _, j := range r.Arrivals.Jobs() {
			if !active[j.ID] && j.Duration != truth[j.ID].Duration {
				t.Errorf("replay %d: %s took %v, replayed with %v", i, j.ID, truth[j.ID].Duration, j.Duration)
			}
		}
	}
}
