package decide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestEvaluateScenario: a scenario stands for its window and cluster, flags win,
// and errors name the fault.
func TestEvaluateScenario(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"note": "mine", "scenarios": [
		{"name": "other", "trace": "philly", "start": "2017-10-09", "end": "2017-10-10", "nodes": 30, "gpus_per_node": 8},
		{"name": "six-hours", "start": "2017-10-10T00:00:00Z", "end": "2017-10-10T06:00:00Z", "nodes": 18, "gpus_per_node": 8, "load": 1.2, "trace": "Sample"},
		{"name": "lame", "start": "2017-10-10", "nodes": 18, "gpus_per_node": 8}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	evaluate := func(args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append([]string{"evaluate", "--trace", "sample", "--methods", "default", "--json"},
			args...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		return out
	}
	window := []string{"--from", "2017-10-10T00:00:00Z", "--to", "2017-10-10T06:00:00Z", "--gpus-per-node", "8"}
	if evaluate("--scenario", file+":six-hours") != evaluate(append(window, "--nodes", "18")...) {
		t.Error("a scenario is not what its flags are")
	}
	if evaluate("--scenario", file+":six-hours", "--nodes", "17") != evaluate(append(window, "--nodes", "17")...) {
		t.Error("--nodes does not win over the scenario")
	}
	note := "note: scenario other is of the trace philly, and --trace is "
	for arg, want := range map[string]bool{file + ":other": true, file + ":six-hours": false} {
		if code, _, errs := clitest.Run("evaluate", "--trace", "sample", "--methods", "default", "--scenario",
			arg); code != 0 || strings.Contains(errs, note) != want {
			t.Errorf("%s: exit %d, %s", arg, code, errs)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, []byte(`{"traces": []}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		empty + ":x": `empty.json has no scenarios; want {"scenarios": [`,
		file:         "FILE:NAME", file + ":": "FILE:NAME", file + ":nine": "other, six-hours, lame",
		file + ":lame": "lacks",
		filepath.Join(t.TempDir(), "none.json") + ":x": "no such file",
	} {
		if code, _, errs := clitest.Run("evaluate", "--trace", "sample", "--scenario", arg); code == 0 ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s; want %q", arg, code, errs, want)
		}
	}
}

// TestScenarioRecipe: a scenario with a recipe needs no trace, and a cold one has no
// history.
func TestScenarioRecipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{
		"recipes": {"sweep": {"days": 3, "seed": 1, "parts": [{"burst": {"at_h": 1, "every_h": 6, "within_h": 1,
			"jobs": 60, "gpus": 1, "durations_h": [1, 3]}}]}},
		"scenarios": [
		{"name": "warm", "recipe": "sweep", "start": "24h", "end": "48h", "nodes": 5, "gpus_per_node": 8},
		{"name": "cold", "recipe": "sweep", "start": "24h", "end": "48h", "nodes": 5, "gpus_per_node": 8, "cold": true},
		{"name": "short", "recipe": "sweep", "start": "24h", "end": "48h", "nodes": 5, "gpus_per_node": 8,
			"max_duration_s": 3600}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]float64{"warm": {240, 240}, "cold": {240, 0}, "short": {120, 120}} {
		code, out, errs := clitest.Run("evaluate", "--scenario", file+":"+name, "--methods", "default", "--json")
		var got struct {
			Trace       string  `json:"trace"`
			Synthetic   bool    `json:"synthetic"`
			Jobs        float64 `json:"jobs"`
			HistoryJobs float64 `json:"history_jobs"`
		}
		if code != 0 {
			t.Fatal(errs)
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if got.Trace != "sweep" || !got.Synthetic || got.Jobs != want[0] || got.HistoryJobs != want[1] {
			t.Errorf("%s: %+v, want %v jobs", name, got, want)
		}
	}
	if err := os.WriteFile(file, []byte(`{"scenarios": [{"name": "x", "recipe": "none"}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := clitest.Run("evaluate", "--scenario", file+":x"); code == 0 ||
		!strings.Contains(errs, `x: recipe: there is no "none"`) {
		t.Errorf("exit %d, %s", code, errs)
	}
}
