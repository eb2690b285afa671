package controller_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
)

// The explanation of a revision has the objectives of the round that found it, and its steps lead
// from the incumbent to it.
func TestExplain(t *testing.T) {
	ctx := context.Background()
	c := simulate(t, controller.Auto, func(ctx context.Context, in round.Input) (round.Decision, error) {
		d, err := round.DecideOnline(ctx, in)
		if err == nil && len(d.Measured) > 2 && in.Round == 3 {
			d.Config, d.Adopt, d.Reason = d.Measured[2].Config, true, "test"
			d.Predicted = d.Measured[2].Objective
		}
		return d, err
	})
	c.until(5*time.Hour, nil)
	var adopted *rollout.Configuration
	for _, r := range c.revisions() {
		if r.Origin == rollout.FromTuning && r.Evidence.Record > 0 {
			adopted = r
		}
	}
	if adopted == nil {
		t.Fatalf("nothing was adopted:\n%s", c.summary())
	}
	e, err := c.service.Explain(ctx, simulatedID, adopted.Revision, 0, controller.Base{})
	if err != nil || len(e.Steps) < 2 {
		t.Fatalf("%+v, %v", e, err)
	}
	first, last := &e.Steps[0], &e.Steps[len(e.Steps)-1]
	n := len(first.Objective)
	if before := e.Round.Decision.Before; len(before) < n || !slices.Equal(first.Objective, before[:n]) {
		t.Errorf("incumbent: %v, the round had %v", first.Objective, e.Round.Decision.Before)
	}
	if found := e.Round.Decision.Predicted; len(found) < n || !slices.Equal(last.Objective, found[:n]) {
		t.Errorf("adopted: %v, the round had %v", last.Objective, found)
	}
	if !last.Config.Equal(adopted.Config) || first.Ratio != 1 {
		t.Errorf("from ratio %v to %s, want %s", first.Ratio, last.Config, adopted.Config)
	}
	groups := map[string]int{}
	for _, g := range last.Groups {
		groups[g.By] += g.Jobs
	}
	if len(groups) == 0 || groups[round.ByWidth] != groups[round.ByAll] ||
		math.Abs(last.Groups[0].Before.Mean-first.Metrics["avg_queue_s"]) > 1e-6 ||
		math.Abs(last.Groups[0].After.Mean-last.Metrics["avg_queue_s"]) > 1e-6 {
		t.Errorf("groups %+v, mean waits %v and %v", last.Groups, first.Metrics, last.Metrics)
	}
	seen := map[string]bool{}
	for _, step := range e.Steps[1:] {
		if seen[step.Param] || step.Param == "" {
			t.Errorf("parameter %q is twice or not named", step.Param)
		}
		seen[step.Param] = true
	}
	again, err := c.service.Explain(ctx, simulatedID, adopted.Revision, 0, controller.Base{Default: true})
	if err != nil || !again.Steps[0].Config.Equal(adopted.Config.Space().Default()) {
		t.Errorf("compared with the defaults: %+v, %v", again.Steps, err)
	}
	if own, err := c.service.Explain(ctx, simulatedID, 0, adopted.Evidence.Record,
		controller.Base{Revision: adopted.Revision}); err != nil || len(own.Steps) != 1 || own.Steps[0].Ratio != 1 {
		t.Errorf("compared with itself: %+v, %v", own, err)
	}
	if def, err := c.service.Explain(ctx, simulatedID, 1, 0, controller.Base{}); err != nil || def.Round != nil ||
		def.Configuration.Revision != 1 {
		t.Errorf("the defaults: %+v, %v", def, err)
	}
	for _, bad := range []struct{ revision, sequence int64 }{{99, 0}, {0, 99}} {
		if _, err := c.service.Explain(ctx, simulatedID, bad.revision, bad.sequence,
			controller.Base{}); !errors.Is(err, controller.ErrNotFound) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
