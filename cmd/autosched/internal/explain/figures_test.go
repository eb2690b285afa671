package explain

import (
	"html"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal"
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

// TestGraphPage: a page says which parameters have a way to the objective and what its strongest link is, and draws all
// links; one of a graph without links is refused.
func TestGraphPage(t *testing.T) {
	strong, weak := .8, .3
	d := &causal.Document{
		Nodes: []causal.Node{{ID: "queues", Tier: causal.TierConfig}, {ID: "order", Tier: causal.TierConfig},
			{ID: "wait", Tier: causal.TierMetric}, {ID: "jct", Tier: causal.TierObjective}},
		Edges: []causal.Edge{
			{Source: "queues", Target: "wait", MarkSource: causal.Tail, MarkTarget: causal.Arrow, Strength: &weak},
			{Source: "wait", Target: "jct", MarkSource: causal.Tail, MarkTarget: causal.Arrow, Strength: &strong},
			{Source: "order", Target: "jct", MarkSource: causal.Circle, MarkTarget: causal.Arrow, Strength: &weak}},
		Warnings: []string{"few rows"},
	}
	p, err := graphPage("graph.json", d)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Of 2 parameters, 1 has a way to jct: queues."; p.Lead != want {
		t.Errorf("%q, want %q", p.Lead, want)
	}
	if want := "The strongest link of jct is with wait: wait causes jct."; len(p.Details) != 2 ||
		p.Details[0] != want || p.Details[1] != "Warning: few rows." {
		t.Errorf("%q, want %q", p.Details, want)
	}
	var out strings.Builder
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	text := html.UnescapeString(out.String())
	for _, part := range []string{">Links of jct<", ">strength of the link, of 1</text>", ">config</text>",
		">objective</text>", ">causes, or something hidden moves both</text>", "order: strength 0.30",
		"queues --> wait, strength 0.30"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page has no %q", part)
		}
	}
	if p, err := graphPage("graph.json", &causal.Document{Nodes: d.Nodes}); err == nil {
		t.Errorf("a graph without links is drawn: %q", p.Lead)
	}
	hidden := link{Edge: causal.Edge{Source: "a", Target: "b"}, other: "a", mark: causal.Arrow, there: causal.Arrow}
	if says := kindOf(&hidden).says; says != "something hidden moves both" {
		t.Errorf("a <-> b: %s", says)
	}
}
