// Package window has the window of the built-in trace on which experiments are tested.
package window

import (
	"testing"
	"time"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// Sample is a day of the built-in trace on its cluster, with a day of history.
func Sample(t *testing.T) replay.Options {
	t.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.Span()
	first = first.Truncate(24 * time.Hour)
	return replay.Options{Trace: w, From: first + 24*time.Hour, To: first + 36*time.Hour,
		Cluster:   workload.Uniform(20, 8),
		Scheduler: s, Settings: round.Settings{Budget: 10, Futures: 2, Seed: 7}}
}
