package replay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
)

// Every method either holds a configuration or tunes.
func TestMethodsAreWhole(t *testing.T) {
	for _, m := range methods {
		if (m.hold == nil) == (m.tune == nil) || m.description == "" {
			t.Errorf("%s: holds %v, tunes %v, is described as %q", m.name, m.hold != nil, m.tune != nil, m.description)
		}
	}
	if err := CheckMethods([]string{"default", "magic"}); err == nil ||
		!strings.Contains(err.Error(), `"magic" is not known; there are current,`) {
		t.Errorf("error %v", err)
	}
}

// TestDefaults: an evaluation without settings has the settings of the service.
func TestDefaults(t *testing.T) {
	o := sample(t)
	o.Settings = round.Settings{Seed: 7}
	e, err := Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	want := round.DefaultSettings()
	want.Seed, want.Search = 7, round.SearchAuto
	if e.Options.Settings != want || e.Options.Interval != round.DefaultInterval ||
		e.Options.Goal.String() != "avg_jct" {
		t.Errorf("%+v every %v for %s", e.Options.Settings, e.Options.Interval, e.Options.Goal)
	}
	o.Search = "everything"
	if _, err := Prepare(o); err == nil || !strings.Contains(err.Error(), `search: "everything" is not known`) {
		t.Errorf("error %v", err)
	}
}

func TestHeldConfigurations(t *testing.T) {
	o := sample(t)
	e, err := Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := holdPreset(context.Background(), e)
	if first := o.Scheduler.Recommended(); err != nil || !c.config.Equal(first.Config) || c.remark != first.Name {
		t.Errorf("preset: %s (%s), %v", c.config, c.remark, err)
	}
	bare := *o.Scheduler
	bare.Presets = nil
	e.Options.Scheduler = &bare
	if c, err = holdPreset(context.Background(), e); err != nil || !c.config.Equal(bare.Space.Default()) ||
		!strings.Contains(c.remark, "no preset") {
		t.Errorf("without presets: %s (%s), %v", c.config, c.remark, err)
	}
}

// TestRandomPresetIsSeeded: the control draws the same presets for the same seed, and
// says which.
func TestRandomPresetIsSeeded(t *testing.T) {
	draw := func(seed uint64) (out []string) {
		s, err := schedulers.Find("tiresias")
		if err != nil {
			t.Fatal(err)
		}
		e := &Evaluation{Options: Options{Scheduler: s, Settings: round.Settings{Seed: seed}}}
		tune := randomPreset(e)
		for range 8 {
			r, err := tune(context.Background(), &RoundInput{Incumbent: s.Space.Default()})
			if err != nil || !strings.HasPrefix(r.Reason, "drawn: ") {
				t.Fatalf("%q, %v", r.Reason, err)
			}
			out = append(out, r.Reason)
		}
		return out
	}
	one, again, other := draw(1), draw(1), draw(2)
	if strings.Join(one, " ") != strings.Join(again, " ") {
		t.Errorf("drawn %v, then %v", one, again)
	}
	if strings.Join(one, " ") == strings.Join(other, " ") {
		t.Errorf("two seeds draw %v", one)
	}
}

// TestTruth: the scenario of the actual future has the remaining durations and the
// arrivals of the trace.
func TestTruth(t *testing.T) {
	o := sample(t)
	o.Horizon = 4 * time.Hour
	e, err := Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	first := o.Scheduler.Space.Default()
	live, err := e.Start(first, true)
	if err != nil {
		t.Fatal(err)
	}
	at := o.From + 4*time.Hour
	if err := live.Sim.RunUntil(context.Background(), at); err != nil {
		t.Fatal(err)
	}
	x := e.Truth(e.Input(live, 4, at, first))
	if len(x.Left) == 0 || len(x.Left) != len(x.State.Jobs) {
		t.Fatalf("%d remaining durations of %d active jobs", len(x.Left), len(x.State.Jobs))
	}
	for i, left := range x.Left {
		j := x.State.Jobs[i]
		for _, full := range o.Trace.Jobs() {
			if full.ID == j.ID && (left <= 0 || left > full.Duration) {
				t.Errorf("%s has %v left of %v", j.ID, left, full.Duration)
			}
		}
	}
	lo, hi := x.Arrivals.Span()
	if lo <= at || hi > at+e.Options.Horizon || x.Arrivals.Len() != o.Trace.Window(at+1, at+1+e.Options.Horizon).Len() {
		t.Errorf("%d arrivals from %v to %v", x.Arrivals.Len(), lo, hi)
	}
}
