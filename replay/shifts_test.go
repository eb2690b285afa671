package replay

import (
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// TestTuningPaysOnShifts: where the shape of the workload changes within hours, which the history cannot know, the fast
// path adopts, and the average JCT is less than under the configuration in force before it.
func TestTuningPaysOnShifts(t *testing.T) {
	if testing.Short() {
		t.Skip("days of rounds")
	}
	w, _, err := trace.Open(t.Context(), trace.ShiftsName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	from := 7 * 24 * time.Hour
	r := evaluate(t, Options{Trace: w, From: from, To: from + 4*24*time.Hour, Cluster: workload.Uniform(20, 8),
		Warmup: 48 * time.Hour, Scheduler: s, Methods: []string{"default", "autosched"}, Seeds: 1,
		Settings: round.Settings{Budget: 12, Seed: 1}})
	if m := r.Methods[1]; m.Ratio < 1.4 || m.Changes > 2 {
		t.Errorf("the average JCT of the default is %.2f times that of autosched, after %d changes: want 1.4 after two at most",
			m.Ratio, m.Changes)
	}
}
