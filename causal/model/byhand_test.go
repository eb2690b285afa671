package model

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/causal"
)

// Columns of byHand.
const (
	handLoad = iota
	handA
	handB
	handIdle
	handM1
	handM2
	handCost
)

// byHand is a noiseless linear model with results computed by hand:
//
//	m1   = 2 a + b + 3 load
//	m2   = 4 m1 - b
//	cost = 100 + m2 + 5 m1 + 10 a
//	     = 100 + 28 a + 8 b + 27 load
//
// Its rows are all combinations of a in {0, 1, 2} and b, load and idle in {0, 1},
// twice.
func byHand(t *testing.T, confounded func(cause, effect int) bool) *Model {
	t.Helper()
	columns := make([]causal.Column, handCost+1)
	for i, name := range []string{"load", "a", "b", "idle", "m1", "m2", "cost"} {
		columns[i].Name = name
	}
	for i := range 48 {
		for c, v := range handRow(float64(i%3), float64(i/3%2), float64(i/6%2), float64(i/12%2)) {
			columns[c].Values = append(columns[c].Values, v)
		}
	}
	table, err := causal.NewTable(columns...)
	if err != nil {
		t.Fatal(err)
	}
	return linear(t, table, Structure{
		Tiers: []string{causal.TierContext, causal.TierConfig, causal.TierConfig, causal.TierConfig, causal.TierMetric,
			causal.TierMetric, causal.TierObjective},
		Parents: [][]int{
			handM1: {handLoad, handA, handB}, handM2: {handB, handM1}, handCost: {handA, handM1, handM2},
		},
		Confounded: confounded,
	})
}

func handRow(a, b, load, idle float64) Point {
	m1 := 2*a + b + 3*load
	m2 := 4*m1 - b
	return Point{load, a, b, idle, m1, m2, 100 + m2 + 5*m1 + 10*a}
}

func TestEffectsByHand(t *testing.T) {
	effects, err := byHand(t, nil).Effects("cost")
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		parameter string
		levels    []float64 // the other columns at their means of one half, a at 1
	}{{"a", []float64{117.5, 145.5, 173.5}}, {"b", []float64{141.5, 149.5}}, {"idle", []float64{145.5, 145.5}}}
	if len(effects) != len(want) {
		t.Fatalf("%d effects, want %d", len(effects), len(want))
	}
	for i, w := range want {
		e := effects[i]
		if e.Parameter != w.parameter {
			t.Fatalf("effect %d is of %s, want %s", i, e.Parameter, w.parameter)
		}
		for k, l := range e.Levels {
			close(t, e.Parameter+" level", l.Mean, w.levels[k])
		}
		ace := w.levels[len(w.levels)-1] - w.levels[0]
		close(t, e.Parameter+" ACE", e.ACE, ace)
		close(t, e.Parameter+" direction", e.Direction, ace)
		close(t, e.Parameter+" percent", e.Percent, 100*ace/145.5)
		// Without noise the bootstrap fits equal the fit.
		close(t, e.Parameter+" low", e.Low, ace)
		close(t, e.Parameter+" high", e.High, ace)
		if idle := e.Parameter == "idle"; e.Connected == idle {
			t.Errorf("%s: connected %v", e.Parameter, e.Connected)
		}
	}
}

func TestPathsByHand(t *testing.T) {
	hidden := func(cause, effect int) bool { return cause == handM1 && effect == handM2 }
	m := byHand(t, hidden)
	// The product of the coefficients times the range of the parameter.
	want := map[string]float64{"a cost": 20, "a m1 cost": 20, "a m1 m2 cost": 16, "b m1 cost": 5, "b m1 m2 cost": 4,
		"b m2 cost": 1}
	paths, err := m.Paths("cost", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != len(want) {
		t.Errorf("%d paths, want %d", len(paths), len(want))
	}
	for i, p := range paths {
		name := strings.Join(p.Nodes, " ")
		close(t, name, p.Effect, want[name])
		if i > 0 && p.Effect > paths[i-1].Effect+1e-9 {
			t.Errorf("%s comes after %v of a smaller effect", name, paths[i-1].Nodes)
		}
		if p.Confounded != strings.Contains(name, "m1 m2") {
			t.Errorf("%s: confounded %v", name, p.Confounded)
		}
	}
	// a moves m1 by 4 and cost along the edge by 20, in standard deviations: the mean
	// of both edges of a, m1, cost, the second of which moves cost by 5 (m1's range 6).
	sd := func(column int) float64 { return m.deviation(column) }
	only, err := m.Paths("cost", "a", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range only {
		switch strings.Join(p.Nodes, " ") {
		case "a cost":
			close(t, "strength of a cost", p.Strength, 20/sd(handCost))
		case "a m1 cost":
			close(t, "strength of a m1 cost", p.Strength, (4/sd(handM1)+5*m1Range(m)/sd(handCost))/2)
		}
	}
	if len(only) != 3 {
		t.Errorf("%d paths of a, want 3", len(only))
	}
	if top, err := m.Paths("cost", "", 2); err != nil || len(top) != 2 {
		t.Errorf("%d paths of at most 2: %v", len(top), err)
	}
	if _, err := m.Paths("cost", "load", 2); err == nil {
		t.Error("context is taken for a parameter")
	}
}

// m1Range is the range of the levels of m1 for effects.
func m1Range(m *Model) float64 {
	l := m.levels(handM1)
	return l[len(l)-1] - l[0]
}

func TestDoByHand(t *testing.T) {
	m := byHand(t, nil)
	p := handRow(0, 0, 1, 0) // m1 3, m2 12, cost 127
	for _, c := range []struct {
		name       string
		set        []Setting
		want       float64
		head       string
		moves      []Move
		identified bool
	}{
		{"nothing", nil, 127, "blend", nil, true},
		{"a parameter", []Setting{{"a", 2}}, 183, "blend", []Move{{"m1", 3, 7}, {"m2", 12, 28}}, true},
		{"parameter and context", []Setting{{"a", 2}, {"load", 0}}, 156, "blend",
			[]Move{{"m1", 3, 4}, {"m2", 12, 16}}, true},
		{"a parameter without effect", []Setting{{"idle", 1}}, 127, "blend", nil, true},
		// The causes of m1 have no effect on it.
		{"a metric", []Setting{{"m1", 10}}, 190, "structural", []Move{{"m1", 3, 10}, {"m2", 12, 40}}, true},
		{"a metric and its cause", []Setting{{"m1", 10}, {"a", 2}}, 210, "structural",
			[]Move{{"m1", 3, 10}, {"m2", 12, 40}}, true},
		{"the last metric", []Setting{{"m2", 0}}, 115, "structural", []Move{{"m2", 12, 0}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := m.Do("cost", p, c.set)
			if err != nil {
				t.Fatal(err)
			}
			close(t, "before", got.Before, 127)
			close(t, "after", got.After, c.want)
			if got.Head != c.head || got.Identified != c.identified {
				t.Errorf("head %s, identified %v", got.Head, got.Identified)
			}
			if got.Low > got.After+1e-6 || got.High < got.After-1e-6 {
				t.Errorf("%g is outside [%g, %g]", got.After, got.Low, got.High)
			}
			if len(got.Moves) != len(c.moves) {
				t.Fatalf("moves %+v, want %+v", got.Moves, c.moves)
			}
			for i, w := range c.moves {
				if got.Moves[i].Metric != w.Metric {
					t.Errorf("move %d is of %s, want %s", i, got.Moves[i].Metric, w.Metric)
				}
				close(t, w.Metric+" before", got.Moves[i].Before, w.Before)
				close(t, w.Metric+" after", got.Moves[i].After, w.After)
			}
		})
	}
}

// TestDoHiddenCause checks that with a hidden common cause of m1 and the cost, the
// bounds reach from the cost with the edge, 190, to that without: 100 + 40 + 5 * 3.
func TestDoHiddenCause(t *testing.T) {
	m := byHand(t, func(cause, effect int) bool { return cause == handM1 && effect == handCost })
	p := handRow(0, 0, 1, 0)
	got, err := m.Do("cost", p, []Setting{{"m1", 10}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Identified {
		t.Error("identified")
	}
	close(t, "after", got.After, 190)
	close(t, "low", got.Low, 155)
	close(t, "high", got.High, 190)
	// Setting m2 does not use that edge.
	if got, err = m.Do("cost", p, []Setting{{"m2", 0}}); err != nil || !got.Identified {
		t.Errorf("%+v, %v", got, err)
	}
}
