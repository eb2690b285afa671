package replay

import (
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// TestTuningPaysOnShifts: where the shape of the workload changes, tuning beats any choice that could
// be made beforehand by more than noise, as the demo claims; with fewer measurements than
// there.
func TestTuningPaysOnShifts(t *testing.T) {
	if testing.Short() {
		t.Skip("a day of rounds")
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
	r := evaluate(t, Options{Trace: w, From: from, To: from + 24*time.Hour, Cluster: workload.Uniform(20, 8),
		Scheduler: s, Methods: []string{"default", "preset", "fixed-history", "autosched"}, Seeds: 1, FixedBudget: 40,
		Settings: round.Settings{Budget: 16, Futures: 2, Seed: 1}})
	jct := map[string]float64{}
	for i := range r.Methods {
		jct[r.Methods[i].Method] = r.Methods[i].AvgJCT
	}
	t.Logf("average JCT in seconds: %v", jct)
	for _, held := range []string{"default", "preset", "fixed-history"} {
		if jct["autosched"] > .98*jct[held] {
			t.Errorf("autosched has an average JCT of %.0f s, %s of %.0f s: want 2 %% less", jct["autosched"], held,
				jct[held])
		}
	}
}
