package simulator

import (
	"math"
	"testing"
)

// TestPairs checks some of Gavel's measurements against the table, and that
// draws for jobs are stable.
func TestPairs(t *testing.T) {
	m := DefaultModels()
	if len(m.Loads) != 26 {
		t.Fatalf("%d loads", len(m.Loads))
	}
	at := map[string]int{}
	scores := [3]int{}
	for i, l := range m.Loads {
		at[l.Name] = i
		scores[l.Score]++
	}
	if scores != [3]int{6, 10, 10} {
		t.Errorf("loads by score: %v", scores)
	}
	for _, tt := range []struct {
		a, b       string
		own, other float64
	}{
		{"LM/5", "LM/5", .622, .622},
		{"A3C", "CycleGAN", .636, .715},
		{"ResNet-18/16", "ResNet-18/16", 1, 1},
		{"ResNet-50/128", "ResNet-50/128", 0, 0}, // out of memory
	} {
		own, other := m.PairSpeeds(at[tt.a], at[tt.b])
		if own != tt.own || other != tt.other {
			t.Errorf("%s beside %s: %g and %g, want %g and %g", tt.a, tt.b, own, other, tt.own, tt.other)
		}
		if back, too := m.PairSpeeds(at[tt.b], at[tt.a]); back != other || too != own {
			t.Errorf("%s and %s disagree on who is who", tt.a, tt.b)
		}
	}
	var classes, loads lottery
	m.lotteries(&classes, &loads)
	if loads.draw("A3C", "any") != at["A3C"] {
		t.Error("a load is not found by its name")
	}
	drawn := map[int]bool{}
	for _, key := range []string{"", "a", "b", "c", "d", "e", "f"} {
		l := loads.draw("", key)
		drawn[l] = true
		if loads.draw("", key) != l {
			t.Errorf("key %q has two loads", key)
		}
	}
	if len(drawn) < 3 {
		t.Errorf("seven keys share %d loads", len(drawn))
	}
	m.Pair = nil // by utilisation: half a GPU too much
	m.Loads = []Load{{Util: .75}, {Util: .25}}
	if v, _ := m.PairSpeeds(0, 0); math.Abs(v-.801) > 1e-12 {
		t.Errorf("two at .75: %g", v)
	}
	if v, _ := m.PairSpeeds(0, 1); v != .985 {
		t.Errorf("a GPU just full: %g", v)
	}
}
