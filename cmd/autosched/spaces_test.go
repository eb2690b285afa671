package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

func TestSchedulerSpaces(t *testing.T) {
	code, out, errs := command("scheduler", "spaces")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, s := range schedulers.All {
		if !strings.Contains(out, s.Name+": "+s.Title) || !strings.Contains(out, s.Paper) {
			t.Errorf("%s is not described", s.Name)
		}
		for _, p := range s.Space.Params() {
			if !strings.Contains(out, p.ID) || !strings.Contains(out, p.Range()) {
				t.Errorf("%s: %s is not described", s.Name, p.ID)
			}
		}
	}
	_, one, _ := command("scheduler", "spaces", "tiresias")
	for _, want := range []string{"queue_thresholds has as many values as queues -1, at most 5", "values of queue_thresholds increase", "preset ladder-7200x6: queues=5"} {
		if !strings.Contains(one, want) {
			t.Errorf("%q is missing in\n%s", want, one)
		}
	}
	if strings.Contains(one, "themis") {
		t.Error("others are shown as well")
	}
}

// TestSchedulerSpacesJSON reads the spaces back.
func TestSchedulerSpacesJSON(t *testing.T) {
	code, out, errs := command("scheduler", "spaces", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Schedulers []struct {
			Name    string
			Space   space.Space
			Default json.RawMessage
			Presets []struct {
				Name          string
				Configuration json.RawMessage
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Schedulers) != len(schedulers.All) {
		t.Fatalf("%d schedulers", len(got.Schedulers))
	}
	for i, s := range schedulers.All {
		g := &got.Schedulers[i]
		if g.Name != s.Name || g.Space.Digest() != s.Space.Digest() || len(g.Presets) != len(s.Presets) {
			t.Errorf("%s is not what was printed: %+v", s.Name, g)
		}
		if c, err := s.Space.ParseJSON(g.Default); err != nil || !c.Equal(s.Space.Default()) {
			t.Errorf("%s: default: %v", s.Name, err)
		}
		for k, p := range g.Presets {
			if c, err := s.Space.ParseJSON(p.Configuration); err != nil || !c.Equal(s.Presets[k].Config) {
				t.Errorf("%s: preset %s: %v", s.Name, p.Name, err)
			}
		}
	}
}

func TestSchedulerSpacesMisuse(t *testing.T) {
	for args, want := range map[string]string{"scheduler spaces magic": "tiresias", "scheduler spaces fifo sjf": "one scheduler"} {
		if code, _, errs := command(strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q", args, code, errs)
		}
	}
}
