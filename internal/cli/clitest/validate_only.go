package clitest

import (
	"os"
	"path/filepath"
	"testing"
)

// NumberSpace is a file with a parameter x, 0 to 9, by default 5.
func NumberSpace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "space.yaml")
	text := "parameters:\n  - {id: x, kind: int, min_value: 0, max_value: 9, default_value: 5}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
