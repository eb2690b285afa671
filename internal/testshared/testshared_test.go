package testshared

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AUTOSCHED_SHARED", dir)
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Path(t, "a"); got != filepath.Join(dir, "a") {
		t.Errorf("Path = %s", got)
	}
	t.Setenv("AUTOSCHED_REQUIRE_SHARED", "0")
	skipped := false
	t.Run("missing", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Path(t, "b")
	})
	if !skipped {
		t.Error("a missing file did not skip the test")
	}
}

func TestLong(t *testing.T) {
	for value, want := range map[string]bool{"": true, "0": true, "1": false} {
		t.Setenv("AUTOSCHED_LONG", value)
		skipped := false
		t.Run(value, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			Long(t)
		})
		if skipped != want {
			t.Errorf("AUTOSCHED_LONG=%s: skipped is %v, want %v", value, skipped, want)
		}
	}
}

func TestRoot(t *testing.T) {
	if _, err := os.Stat(filepath.Join(Root(t), "internal", "testshared")); err != nil {
		t.Error(err)
	}
}
