package operate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestNativeFiles: a configuration is printed in the options of the scheduler.
func TestNativeFiles(t *testing.T) {
	dir := t.TempDir()
	address, _ := clitest.StartServe(t, filepath.Join(dir, "service"))
	online := func(args ...string) (int, string, string) { return clitest.Run(append(args, "--server", address)...) }
	if code, _, errs := online("scheduler", "register", "--builtin", "themis", "--id", "x", "--nodes", "2",
		"--gpus-per-node", "8"); code != 0 {
		t.Fatal(errs)
	}
	code, text, errs := online("scheduler", "config", "render", "x", "--revision", "1")
	if code != 0 || !strings.Contains(text, "\nlease_term_interval: 1200\nfraction: 0.8\n") {
		t.Fatalf("%d, %s%s", code, errs, text)
	}
	if code, _, errs := online("scheduler", "config", "render", "x", "--revision", "-1"); code == 0 {
		t.Errorf("%d, %s", code, errs)
	}
}
