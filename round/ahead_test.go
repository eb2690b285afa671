package round

import (
	"errors"
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
	if err := a.play(t.Context(), &in, new(simulator.Sim), &futures[0], s.New(in.Incumbent)); err != nil {
		t.Fatal(err)
	}
	if len(a.Load) != known+1 {
		t.Errorf("%d courses after one more future than %d", len(a.Load), known)
	}
	if err := a.play(t.Context(), &in, new(simulator.Sim), &futures[0], never); err != nil {
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
