package replay

import (
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
)

// TestNoDecisionHurts: on the built-in trace, rounds never end more than a hundredth above
// the default that they started from.
func TestNoDecisionHurts(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates three schedulers")
	}
	for _, name := range []string{"tiresias", "lucid", "gandiva"} {
		o := sample(t, "default", "autosched")
		o.To, o.Interval = o.From+8*time.Hour, 2*time.Hour
		o.Settings = round.Settings{Budget: 16, Futures: 2, Horizon: 4 * time.Hour, Seed: 7}
		var err error
		if o.Scheduler, err = schedulers.Find(name); err != nil {
			t.Fatal(err)
		}
		r := evaluate(t, o)
		m := r.Methods[1]
		if was, is := r.Methods[0].AvgJCT, m.AvgJCT; is > 1.01*was {
			t.Errorf("%s: average JCT %.0f s, %.0f s under the default, after %d changes", name, is, was, m.Changes)
		}
	}
}

// TestOnlineDemo: on the built-in trace, from its beginning, there is too little history for the daily rule: the
// service changes the configuration twice at most, and never ends more than a hundredth above the default.
func TestOnlineDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates three days")
	}
	for seed := range uint64(2) {
		o := sample(t, "default", "autosched")
		first, last := o.Trace.Span()
		o.From, o.To, o.Interval = first, last+1, 2*time.Hour
		o.Settings = round.Settings{Budget: 20, Futures: 2, Seed: seed + 1}
		r := evaluate(t, o)
		m := &r.Methods[1]
		t.Logf("seed %d: %d changes, average JCT %.0f s", seed+1, m.Changes, m.AvgJCT)
		if was := r.Methods[0].AvgJCT; m.Changes > 2 || m.AvgJCT > 1.01*was {
			t.Errorf("seed %d: %d changes in %d rounds, average JCT %.0f s, %.0f s under the default", seed+1,
				m.Changes, m.Rounds, m.AvgJCT, was)
		}
	}
}
