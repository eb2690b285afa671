package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestBenchHorizonsFaults: faults are named before anything is simulated.
func TestBenchHorizonsFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.json")
	err := os.WriteFile(file, []byte(`{"scenarios": [{"name": "day", "trace": "none.csv", "start": "0", "end": "9",
		"nodes": 1, "gpus_per_node": 2}]}`), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, says string }{
		{"", "--scenarios is missing"},
		{"--scenarios " + file + " --horizons -1h", "--horizons: -1h0m0s is not above 0"},
		{"--scenarios " + file + " --hours 0", "--hours 0"},
		{"--scenarios " + file + " --schedulers none", `--schedulers: `},
		{"--scenarios " + file + " --only night", `--only: "night" selects no window and scheduler`},
		{"--scenarios " + file + " --only (", "--only: "},
		{"--scenarios " + file, "day: --data: the trace is missing"},
	} {
		code, out, errs := clitest.Run(append([]string{"horizons"}, strings.Fields(c.args)...)...)
		if code == 0 || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %q", c.args, code, errs)
		}
	}
}
