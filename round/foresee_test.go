package round

import (
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// Foresee simulates each configuration once on each future, and compares the waits of all jobs of these simulations.
func TestForesee(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	l, at := shrunk(t, 0)
	const futures = 2
	simulations := 0
	in := Input{Snapshot: Snapshot{State: l.State(at), Ledger: l, Zero: time.Unix(0, 0),
		Turn: func(simulate func() error) error {
			simulations++
			return simulate()
		}}, Scheduler: s.Name, Space: s.Space, Goal: Minimise("avg_jct"),
		Settings: Settings{Horizon: 2 * time.Hour, Futures: futures, Guard: -1}}
	base := s.Space.Default()
	configs := []space.Config{base}
	for _, p := range s.Presets[:2] {
		configs = append(configs, p.Config)
	}
	out, err := Foresee(t.Context(), in, configs...)
	if err != nil || len(out) != len(configs) {
		t.Fatal(out, err)
	}
	if simulations != futures*len(configs) {
		t.Errorf("%d simulations of %d configurations on %d futures", simulations, len(configs), futures)
	}
	for i := range out {
		for _, name := range []string{"avg_queue_s", "restart_s_per_job", "slowdown", "preemptions_per_job"} {
			low, high := slices.Min(out[i].InFutures[name]), slices.Max(out[i].InFutures[name])
			if m := out[i].Metrics[name]; len(out[i].InFutures[name]) != futures || m < low-1e-9 || m > high+1e-9 {
				t.Errorf("configuration %d: %s is %v in all futures, %v in each", i, name, m, out[i].InFutures[name])
			}
		}
		if (out[i].Groups != nil) != (i == len(out)-1) {
			t.Errorf("configuration %d: %+v", i, out[i].Groups)
		}
	}
	same, err := Foresee(t.Context(), in, base, base)
	if err != nil || len(same) != 2 || len(same[1].Groups) == 0 {
		t.Fatal(same, err)
	}
	for _, g := range same[1].Groups {
		if g.Before != g.After || g.Before != out[2].Groups[0].Before && g.By == ByAll {
			t.Errorf("compared with itself: %+v", g)
		}
	}
}
