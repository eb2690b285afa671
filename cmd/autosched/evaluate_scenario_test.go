package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEvaluateScenario: a scenario stands for its window and cluster, flags win,
// and what is wrong with it is said.
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
		code, out, errs := command(append([]string{"evaluate", "--trace", "sample", "--methods", "default", "--json"},
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
		if code, _, errs := command("evaluate", "--trace", "sample", "--methods", "default", "--scenario",
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
		if code, _, errs := command("evaluate", "--trace", "sample", "--scenario", arg); code == 0 ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s; want %q", arg, code, errs, want)
		}
	}
}
