package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay/scenario"
)

// TestScenariosOfTheRepository: each has its window and cluster, and recipes that can be
// drawn.
func TestScenariosOfTheRepository(t *testing.T) {
	testshared.Full(t)
	path := filepath.Join("..", "..", "..", "examples", "scenarios.json")
	file, err := scenario.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if err := s.Check(path); err != nil {
			t.Error(err)
		}
		if !s.Drawn() {
			continue
		}
		w, err := s.Generate(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if o, err := scenarioOptions(s, w); err != nil || o.Trace.Window(o.From, o.To).Len() < 1000 {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// TestScenarioWithNodeEvents: the node events of a scenario lie beside its file, and a
// missing file is named.
func TestScenarioWithNodeEvents(t *testing.T) {
	file, err := scenario.Read("../../../examples/scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := file.Find("drained-nodes")
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := scenarioOptions(s, w)
	if err != nil || len(o.Simulate.Nodes) != 8 {
		t.Errorf("%d node events, error %v; want 4 nodes that drain and come up", len(o.Simulate.Nodes), err)
	}
	s.NodeEvents += ".missing"
	if _, err := scenarioOptions(s, w); err == nil || !strings.Contains(err.Error(), "drained-nodes: node_events: ") {
		t.Errorf("a missing file: error %v", err)
	}
}
