package round

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestPast: each kind of scenario has the jobs ended at its start.
func TestPast(t *testing.T) {
	l := workload.NewLedger(workload.Uniform(2, 8))
	sent := 0
	tell := func(kind workload.EventKind, at time.Duration, id string, gpus int) {
		sent++
		e := workload.Event{ID: fmt.Sprint(sent), Kind: kind, Time: at, Job: workload.Job{ID: id}}
		if kind == workload.Submitted {
			e.Job.GPUs = workload.GPUs(gpus)
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		l.Apply(e)
	}
	for i, j := range []struct {
		start, end time.Duration
		gpus       int
	}{
		{0, time.Hour, 1}, // too long ago
		{ArrivalMemory, ArrivalMemory + 90*time.Minute, 2},
		{ArrivalMemory, ArrivalMemory + 3*time.Hour, 4},
		{ArrivalMemory, ArrivalMemory + 4*time.Hour, 1}, // at the instant itself
		{ArrivalMemory, ArrivalMemory + 5*time.Hour, 1}, // not known yet
	} {
		id := fmt.Sprint("job-", i)
		tell(workload.Submitted, j.start, id, j.gpus)
		tell(workload.Started, j.start, id, j.gpus)
		tell(workload.Finished, j.end, id, j.gpus)
	}
	at := ArrivalMemory + 4*time.Hour
	if got, want := Past(l, at).Services(nil),
		[]time.Duration{3 * time.Hour, 12 * time.Hour, 4 * time.Hour}; !slices.Equal(got, want) {
		t.Errorf("services are %v, want %v", got, want)
	}

	now := Snapshot{State: l.State(at), Ledger: l}
	futures, err := now.Forecast(context.Background(), nil, time.Hour, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := futures[0].Past.Digest(); got != Past(l, at).Digest() {
		t.Errorf("futures come with the past %s", got)
	}
	hour, err := now.LastHour(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := hour[0].Past; len(got.Jobs()) != 2 || got.Digest() != Past(l, at-time.Hour).Digest() {
		t.Errorf("the last hour comes with the past %v", got.Jobs())
	}
}
