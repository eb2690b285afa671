package replay

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// TestTuneRecommendsTheSimplest: a search's winner has odd numbers and changes that make no difference; what is
// recommended of it has fewer digits or changes, and loses no more than noise.
func TestTuneRecommendsTheSimplest(t *testing.T) {
	testshared.Full(t)
	// size counts the parameters that differ from the default, and the odd thresholds.
	size := func(o Options, c space.Config) int {
		n := len(space.DiffConfigs(o.Scheduler.Space.Default(), c))
		for _, v := range c.Get("queue_thresholds").Floats() {
			if near := search.Rounder(space.KindFloat, v); len(near) > 2 && v != 3250 { // the default
				n++
			}
		}
		return n
	}
	for _, hour := range []int{6, 12} {
		o := sample(t)
		o.From -= 24 * time.Hour
		o.Settings = round.Settings{Seed: 1}
		got, _, err := Tune(context.Background(), o,
			TuneOptions{At: o.From + time.Duration(24+hour)*time.Hour, Incumbent: o.Scheduler.Space.Default()})
		if err != nil {
			t.Fatal(err)
		}
		if was, is := size(o, got.Found.Config), size(o, got.Config); !got.Adopt || is >= was {
			t.Errorf("%d o'clock: %s, of %s", hour, got.Config, got.Found.Config)
		}
		found, best := got.Found.Measurement, got.Best.Measurement
		if loss := best.Mean() - found.Mean(); loss > search.Noise(&found, &best) {
			t.Errorf("%s loses %.0f s of %.0f s", got.Config, loss, found.Mean())
		}
		if got.Stats.Simplified == 0 || len(got.Effects) == 0 {
			t.Errorf("%d measurements, effects %v", got.Stats.Simplified, got.Effects)
		}
	}
}
