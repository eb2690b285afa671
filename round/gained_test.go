package round

import (
	"testing"
	"time"
)

// TestGain: what a configuration saved of the delay of jobs is the difference of replays, in a range that what was
// observed widens.
func TestGain(t *testing.T) {
	const at = 5 * time.Hour
	look := behind(t, at)
	in := &Input{Snapshot: look.Snapshot, Settings: Settings{Seed: 1}, Scheduler: look.Scheduler, Goal: look.Goal}
	one, queues := look.Prediction.Applied, look.Prediction.LastGood
	gain := func(in *Input) *Gained {
		t.Helper()
		g, err := Gain(t.Context(), in, look.Prediction.At, one, queues)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := gain(in)
	// The long job goes on, and the short ones wait: 11 jobs of an hour, the first of which has come before.
	if g.From != look.Prediction.At || g.To != at || g.Jobs < 10 || g.JobTime <= g.Delay || !g.Ended() {
		t.Errorf("%+v", g)
	}
	low, middle, high := g.Saved()
	if low > middle || middle > high || high >= 0 {
		t.Errorf("one queue, under which jobs wait, saved %.0f (%.0f to %.0f) s of delay", middle, low, high)
	}
	for _, replayed := range g.Replayed {
		if d := replayed - g.Delay; d < -60 || d > 60 {
			t.Errorf("what ran is replayed with a delay of %.0f s, observed were %.0f s", replayed, g.Delay)
		}
	}
	one, queues = queues, one
	g = gain(in)
	if low, middle, high = g.Saved(); middle <= 0 || low > 0 || high < middle {
		t.Errorf("a configuration that did not run saved %.0f (%.0f to %.0f) s, not as observed", middle, low, high)
	}
	one = queues
	g = gain(in)
	if low, middle, high = g.Saved(); middle != 0 || low > 0 || high < 0 {
		t.Errorf("a configuration saved %.0f (%.0f to %.0f) s of its own delay", middle, low, high)
	}
	empty := behind(t, time.Minute/2)
	in.Snapshot = empty.Snapshot
	look.Prediction.At = 0
	if g := gain(in); g != nil {
		t.Errorf("without a job: %+v", g)
	}
}
