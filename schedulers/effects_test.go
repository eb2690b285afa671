package schedulers_test

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers"
)

// TestEffects: every parameter has a sentence on its effect, and the sentences of named values name known ones.
func TestEffects(t *testing.T) {
	for _, s := range schedulers.All {
		for _, p := range s.Space.Params() {
			text := s.Effect(p.ID)
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the effect of %s is %q", s.Name, p.ID, text)
			}
			for i, name := range p.Categories {
				if i > 0 && len(p.Categories) == 2 && !strings.Contains(text, name) &&
					!strings.Contains(text, p.Categories[0]) {
					t.Errorf("%s: the effect of %s names none of %s", s.Name, p.ID, p.Categories)
				}
			}
			for _, word := range []string{"Larger, ", "On, "} {
				if strings.HasPrefix(text, word) != (word == "On, " && p.Kind.String() == "bool" ||
					word == "Larger, " && p.Kind.String() != "bool" && len(p.Categories) == 0) {
					t.Errorf("%s: the effect of %s, %s, begins %q", s.Name, p.ID, p.Kind, text)
				}
			}
			if len(p.Categories) > 0 {
				t.Log(s.Name, p.ID, p.Categories)
			}
		}
	}
}

// TestEffectsOfGroups: a setting of a group of queues has the effect of the setting.
func TestEffectsOfGroups(t *testing.T) {
	s, err := schedulers.Find("kueue")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"preemption.withinClusterQueue", "fairSharing.weight"} {
		if text := s.Effect("research-." + id); text == "" || text != s.Effect(id) {
			t.Errorf("the effect of %s of a group is %q", id, text)
		}
	}
}
