package operate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestNativeFiles: a configuration is printed in the options of the scheduler, and read from them beside a revision.
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
	path := filepath.Join(dir, "themis.yaml")
	parse := func(from, to string) (int, string, string) {
		if err := os.WriteFile(path, []byte(strings.Replace(text, from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return online("scheduler", "config", "parse", "x", path)
	}
	if code, out, errs := parse("0.8", "0.7"); code != 0 ||
		!strings.Contains(out, "\nfraction                 0.3   0.2\n") {
		t.Errorf("%d, %s%s", code, errs, out)
	}
	if code, _, errs := parse("fraction", "fractions"); code != 1 ||
		!strings.Contains(errs, "fractions: is not one of") {
		t.Errorf("%d, %s", code, errs)
	}
	for _, args := range [][]string{{"scheduler", "config", "parse", "x"}, {"scheduler", "config", "render", "x", "--revision", "-1"},
		{"scheduler", "config", "parse", "x", path, "--revision", "-1"}} {
		if code, _, errs := online(args...); code != 2 {
			t.Errorf("%v: %d, %s", args, code, errs)
		}
	}
}
