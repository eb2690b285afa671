package rng

import "testing"

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for name, got := range map[string]uint64{
		"a 1":   Stream("a", 1).Uint64(),
		"b 1":   Stream("b", 1).Uint64(),
		"a 2":   Stream("a", 2).Uint64(),
		"a 1,0": Stream("a", 1, 0).Uint64(),
		"a 1,1": Stream("a", 1, 1).Uint64(),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("streams %s and %s have the same prefix", name, other)
		}
		seen[got] = name
	}
	if Stream("a", 1, 2).Uint64() != Stream("a", 1, 2).Uint64() {
		t.Error("a stream is not repeatable")
	}
}
