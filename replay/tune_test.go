package replay

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// TestTuneRecommendsTheSimplest: the search's winner on the built-in trace had limits and
// thresholds that made no difference, in odd numbers.
func TestTuneRecommendsTheSimplest(t *testing.T) {
	testshared.Full(t)
	for _, x := range []struct {
		hour    int
		changed []string
	}{
		{12, []string{"priority", "order", "starve_limit"}},
		{6, []string{"queue_thresholds", "order"}},
	} {
		o := sample(t)
		o.From -= 24 * time.Hour
		o.Settings = round.Settings{Seed: 1}
		got, _, err := Tune(context.Background(), o,
			TuneOptions{At: o.From + time.Duration(24+x.hour)*time.Hour, Incumbent: o.Scheduler.Space.Default()})
		if err != nil {
			t.Fatal(err)
		}
		var changed []string
		for _, d := range space.DiffConfigs(o.Scheduler.Space.Default(), got.Config) {
			changed = append(changed, d.Field)
		}
		t.Logf("%s, of %s", got.Config, got.Found.Config)
		if !got.Adopt || !slices.Equal(changed, x.changed) {
			t.Errorf("%s: changes %v, want %v", got.Config, changed, x.changed)
		}
		odd := 0
		for _, v := range got.Config.Get("queue_thresholds").Floats() {
			if near := search.Rounder(space.KindFloat, v); len(near) > 2 && v != 3250 { // the default
				odd++
			}
		}
		if odd > 0 {
			t.Errorf("%s: %d odd thresholds", got.Config, odd)
		}
		found, best := got.Found.Measurement, got.Best.Measurement
		if loss := best.Mean() - found.Mean(); loss > search.Noise(&found, &best) {
			t.Errorf("%s loses %.0f s of %.0f s", got.Config, loss, found.Mean())
		}
		reverted := func(e search.Effect) bool { return e.Reverted }
		if got.Stats.Simplified == 0 || !slices.ContainsFunc(got.Effects, reverted) {
			t.Errorf("%d measurements, effects %v", got.Stats.Simplified, got.Effects)
		}
	}
}
