package round

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// TestRoundsAdoptTheSimplest: what a search found loses what has no effect, unless the
// replay of the last days or a guard speaks against it; the evidence of the one holds for
// the other.
func TestRoundsAdoptTheSimplest(t *testing.T) {
	ctx := context.Background()
	x := observe(t, 8*time.Hour, simulator.Options{})
	r := tuningRound(t, x)
	r.Simplify = true
	parse := func(sets ...string) space.Config {
		c, err := r.Space.Parse(r.Space.Default(), sets)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r.Incumbent = parse("queues=1")
	sc, err := r.measure(ctx, r.Scenarios)
	if err != nil {
		t.Fatal(err)
	}
	trial := func(c space.Config, origin string) search.Trial {
		m, err := sc.Measure(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return search.Trial{Config: c, Measurement: m, Provenance: search.Provenance{Origin: origin}}
	}
	found := trial(parse("queues=3", "queue_thresholds=3250,7200", "starve_limit=34h34m26s"), "past:round-3")
	for _, tt := range []struct {
		name   string
		origin string
		replay float64 // how much worse all but the candidate are
		simple bool
	}{
		{"found by a search", "past:round-3", 0, true},
		{"worse in the replay", "past:round-3", .02, false},
		{"a preset", "preset:mine", 0, false},
	} {
		out := Result{Incumbent: trial(r.Incumbent, "incumbent")}
		found.Origin = tt.origin
		key := space.Config.Hash
		w := weigher{round: r, key: key, evidence: evidence{key(found.Config): {{At: 1, Log: -.1}}},
			insurance: &insurance{Weight: 4, Replay: map[string]float64{key(found.Config): 0, key(r.Incumbent): .1}},
			proven:    []string{key(r.Incumbent)}}
		w.insure = func(_ context.Context, configs []space.Config) error {
			for _, c := range configs {
				w.insurance.Replay[key(c)] = .1 + tt.replay
			}
			return nil
		}
		if tt.replay == 0 {
			w.insure = func(context.Context, []space.Config) error { return nil }
		}
		c := candidate{Trial: found}
		if err := w.simplest(ctx, &out, &c, nil); err != nil {
			t.Fatal(err)
		}
		if simple := c.Config.Get("starve_limit").Float() == 0; simple != tt.simple {
			t.Errorf("%s: %s, of %s", tt.name, c.Config, found.Config)
		}
		if tt.simple && (len(w.evidence[key(c.Config)]) != 1 || out.Stats.Simplified == 0) {
			t.Errorf("%s: evidence %v, %d measurements", tt.name, w.evidence[key(c.Config)], out.Stats.Simplified)
		}
	}
}
