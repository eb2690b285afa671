package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/lab/studies"
)

// TestBenchStudiesFaults: faults are named before anything is simulated.
func TestBenchStudiesFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.json")
	err := os.WriteFile(file, []byte(`{"scenarios": [{"name": "day", "trace": "none.csv", "start": "0", "end": "9",
		"nodes": 1, "gpus_per_node": 2}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, says string }{
		{"", "--scenarios is missing"},
		{"--scenarios " + file + " --seeds 0", "--seeds 0"},
		{"--scenarios " + file + " --schedulers none", `--schedulers: `},
		{"--scenarios " + file + " --samplers none", `--samplers: `},
		{"--scenarios " + file + " --only night", `--only: "night" selects no window and scheduler`},
		{"--scenarios " + file + " --only (", "--only: "},
		{"--scenarios " + file, "day: --data: the trace is missing"},
	} {
		code, out, errs := clitest.Run(append([]string{"studies"}, strings.Fields(c.args)...)...)
		if code == 0 || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %q", c.args, code, errs)
		}
	}
}

// TestPrintStudies: medians over seeds, a study that found nothing with its whole length.
func TestPrintStudies(t *testing.T) {
	r := &studies.Comparison{Window: "day", Scheduler: "fifo", DefaultJCT: 200, ReferenceJCT: 100}
	r.Studies = []studies.Run{
		{Algorithm: "gp", Trials: 10, Measured: 50, Seconds: 11, Best: 1},
		{Algorithm: "gp", Measured: 50, Seconds: 52, Best: 1.2},
		{Algorithm: "gp", Trials: 20, Measured: 50, Seconds: 21, Best: 1.1},
		{Algorithm: "gp", Causal: true, Trials: 7, Measured: 50, Seconds: 8, Best: 1, Skipped: 3}}
	var out strings.Builder
	if err := printStudies(&out, []*studies.Comparison{r}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`day +fifo +200 +100 +gp +off +2 of 3 +20 +21.0 +0 .* 1.100`,
		`\n +gp +on +1 of 1 +7 +8.0 +3 `} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s\nwant %s", out.String(), want)
		}
	}
}
