package workload_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// Windows that touch hold every job once, in order.
func TestWindowsPartition(t *testing.T) {
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		cut := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(-1, 73*3600).Draw(t, "s")) * time.Second
		})
		a, b := cut.Draw(t, "a"), cut.Draw(t, "b")
		n := 0
		for _, part := range []*workload.Workload{w.Window(-workload.MaxSubmit, a), w.Window(a, b),
			w.Window(max(a, b), workload.MaxSubmit)} {
			for _, j := range part.Jobs() {
				if j.ID != w.Jobs()[n].ID {
					t.Fatalf("job %d is %s, want %s", n, j.ID, w.Jobs()[n].ID)
				}
				n++
			}
			if !part.Synthetic() || !part.Zero().Equal(w.Zero()) {
				t.Fatal("a window lost its label or zero")
			}
		}
		if n != w.Len() {
			t.Fatalf("%d jobs, want %d", n, w.Len())
		}
	})
}
