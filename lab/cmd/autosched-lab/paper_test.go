package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestPaper: a unit that needs no file is measured once, and the page has it; one whose trace is missing is named.
func TestPaper(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	run := func(args ...string) string {
		t.Helper()
		code, _, errs := clitest.Run(append([]string{"paper", "--out", filepath.Join(dir, "results"), "--page", page, "--data",
			dir}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d, %s", args, code, errs)
		}
		return errs
	}
	only := "^methods/(pai|helios-like)/themis/default/1$"
	atATime := fmt.Sprintf("%d at a time", min(2, runtime.GOMAXPROCS(0)))
	if got := run("--only", only, "--estimate", "--jobs", "0"); !strings.Contains(got, "2 of 2 units are left") ||
		!strings.Contains(got, atATime) {
		t.Error(got)
	}
	if got := run("--only", only); !strings.Contains(got, "1 of 1  methods/helios-like/themis/default/1") ||
		!strings.Contains(got, "the trace is not in "+dir+": methods/pai/themis/default/1") {
		t.Error(got)
	}
	if got := run("--only", only, "--estimate"); !strings.Contains(got, "1 of 2 units are left") {
		t.Error(got)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| helios-like | themis |") {
		t.Errorf("%v: %s", err, text)
	}
	for _, wrong := range [][]string{{"--figure", "99"}, {"--figure", "1"}, {"--only", "("}, {"--only", "none"},
		{"--jobs", "-1"}} {
		if code, _, errs := clitest.Run(append([]string{"paper"}, wrong...)...); code != 2 ||
			!strings.Contains(errs, wrong[0]) {
			t.Errorf("%v: exit %d, %s", wrong, code, errs)
		}
	}
}
