package explain

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/causal/model"
)

// TestSurest: a parameter whose interval includes 0 is not said to move the objective.
func TestSurest(t *testing.T) {
	o := &objectiveEffects{Objective: "jct",
		Effects: []model.Effect{{Parameter: "queues", Percent: 12, High: 9, Inert: true}}}
	if text := surest(o); !strings.HasPrefix(text, "No parameter") || strings.Contains(text, "queues") {
		t.Error(text)
	}
	o.Effects[0].Low, o.Effects[0].Inert = 1, false
	if text := surest(o); text != "queues is the surest to move jct, by 12.0 % of its mean." {
		t.Error(text)
	}
}

// TestChangeFromZero: a change from 0 has no percentage.
func TestChangeFromZero(t *testing.T) {
	for _, tt := range []struct {
		before, after float64
		want          string
	}{{0, 5, ""}, {0, 0, ""}, {4, 5, "+25.0 %"}, {-4, -5, "-25.0 %"}} {
		if got := relative(&model.Answer{Before: tt.before, After: tt.after}); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
