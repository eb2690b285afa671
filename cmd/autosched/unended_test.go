package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingEnded: of jobs that are all running nothing can be concluded.
func TestNothingEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running.psv")
	text := "JobIDRaw|State|Submit|Start|End|ElapsedRaw|AllocTRES\n" +
		"1|RUNNING|2026-03-01T00:00:00|2026-03-01T00:00:00|Unknown|600|gres/gpu=8\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"evaluate", "compare", "plan"} {
		code, _, errs := command(name, "--trace", path, "--nodes", "1", "--gpus-per-node", "8", "--scheduler", "fifo")
		if code != 1 || !strings.Contains(errs, "no job of running.psv that ended is submitted") {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
}
