package main

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, newRoot) }

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"doctor":                   "--scheduler: \"nothing\" is not kueue or volcano",
		"doctor --scheduler slurm": "--scheduler: \"slurm\" is not kueue or volcano",
	} {
		if code, _, errs := clitest.Run(strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s, want %q", args, code, errs, want)
		}
	}
	if code, out, _ := clitest.Run("version"); code != 0 || !strings.Contains(out, "simulator") {
		t.Errorf("%d %s", code, out)
	}
}
