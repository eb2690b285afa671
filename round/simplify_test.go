package round

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// TestRoundsAdoptTheSimplest: an adopted configuration that a search found loses its parameters without effect.
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
		simple bool
	}{{"found by a search", "past:round-3", true}, {"a preset", "preset:mine", false}} {
		incumbent := trial(r.Incumbent, "incumbent")
		found.Origin = tt.origin
		out := Result{Decision: Decision{Config: found.Config, Adopt: true}, Incumbent: incumbent, Best: found,
			Trials: []search.Trial{incumbent, found}}
		if err := r.simplify(ctx, &out); err != nil {
			t.Fatal(err)
		}
		if simple := out.Config.Get("starve_limit").Float() == 0; !out.Adopt || simple != tt.simple ||
			!out.Best.Config.Equal(out.Config) || (out.Stats.Simplified > 0) != tt.simple {
			t.Errorf("%s: %s, of %s", tt.name, out.Config, found.Config)
		}
	}
}
