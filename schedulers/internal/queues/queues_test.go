package queues

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	settings := []string{"weight", "preemption.weight"}
	for id, want := range map[string][2]string{"weight": {"", "weight"}, "a.weight": {"a", "weight"},
		"team-.preemption.weight": {"team-.preemption", "weight"}, "a.b.weight": {"a.b", "weight"}} {
		if group, setting, ok := Split(id, settings); !ok || group != want[0] || setting != want[1] {
			t.Errorf("%s: %q, %q, %v", id, group, setting, ok)
		}
	}
	for _, id := range []string{"", ".weight", "weights", "a.weigh"} {
		if _, _, ok := Split(id, settings); ok {
			t.Errorf("%q is an id of a setting", id)
		}
	}
}

func TestParam(t *testing.T) {
	for _, tt := range []struct {
		queue string
		has   []string
		want  string
	}{
		{"team-a-x", []string{"weight", "team-.weight", "team-a-.weight", "team-a-x.weight"}, "team-a-x.weight"},
		{"team-a-x", []string{"weight", "team-.weight", "team-a-.weight", "team-a.weight"}, "team-a-.weight"},
		{"team-b", []string{"weight", "team-.weight", "team-a-.weight"}, "team-.weight"},
		{"teams", []string{"weight", "team-.weight"}, "weight"},
		{"team", []string{"team-.weight"}, ""},
	} {
		id, ok := Param(tt.queue, "weight", func(id string) bool { return slices.Contains(tt.has, id) })
		if ok != (tt.want != "") || ok && id != tt.want {
			t.Errorf("%s of %v: %q, %v, want %q", tt.queue, tt.has, id, ok, tt.want)
		}
		if ok && id != "weight" {
			if group, _, _ := Split(id, []string{"weight"}); !Of(group, tt.queue) {
				t.Errorf("%s is not in %s", tt.queue, group)
			}
		}
	}
}
