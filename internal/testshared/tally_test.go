package testshared

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTallyGoesOn: a run counts on from the lines of former ones, of its own test only.
func TestTallyGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out", "tally")
	t.Setenv("AUTOSCHED_TALLY", path)
	t.Setenv("AUTOSCHED_TALLIED", "7")
	NewTally(t, "AUTOSCHED_TALLIED", 3).Add(2)
	c := NewTally(t, "AUTOSCHED_TALLIED", 3)
	if c.Add(1); c.Done() != 3 || c.Here() != 1 || c.Left() != 4 {
		t.Errorf("%d in all, %d here, %d left", c.Done(), c.Here(), c.Left())
	}
	t.Run("other", func(t *testing.T) {
		if c := NewTally(t, "", 3); c.Left() != 3 {
			t.Errorf("%d of 3 left", c.Left())
		}
	})
	if text, err := os.ReadFile(path); string(text) != "TestTallyGoesOn 2\nTestTallyGoesOn 1\n" {
		t.Errorf("%q, %v", text, err)
	}
}
