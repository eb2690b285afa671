package main

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, newRoot) }

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"run --scheduler kueue --id x --mode apply":           "--lease-namespace: is missing",
		"run --scheduler kueue":                               "--id: is missing",
		"run --scheduler kueue --id x --mode a":               "--mode: \"a\" is not observe, recommend, apply",
		"run --scheduler kueue --id x --poll-interval 1ms":    "--poll-interval: 1ms is less than a second",
		"run --scheduler kueue --id x --log-format xml":       "--log-format: \"xml\" is neither text nor json",
		"run --scheduler kueue --id x --server nowhere":       "is not host:port",
		"run --scheduler kueue --id x --opreations 127.0.0.1": "do you mean --operations?",
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
