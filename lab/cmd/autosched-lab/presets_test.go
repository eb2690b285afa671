package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/lab/portfolio"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// TestBenchPresets: windows of a trace and synthetic ones, a record that is continued
// even if its last line is incomplete, and faults by name.
func TestBenchPresets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const windows = `{"recipes": {"quiet": {"days": 2, "seed": 2, "parts": [
			{"profile": "philly", "load": 0.5, "max_duration_h": 6}]}},
		"scenarios": [
		{"name": "day", "trace": "t.csv", "start": "2017-10-09", "end": "2017-10-10", "nodes": 5, "gpus_per_node": 8},
		{"name": "calm", "test": true, "recipe": "quiet", "start": "2017-10-09", "end": "2017-10-11", "nodes": 4,
		 "gpus_per_node": 8}]}`
	w, err := synth.Generate(t.Context(), synth.Options{Profile: "philly", Zero: time.Date(2017, 10, 9, 0, 0, 0, 0,
		time.UTC),
		Days: 2, Jobs: 400, Cluster: workload.Uniform(5, 8), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	if err := trace.WriteCSV(&rows, w); err != nil {
		t.Fatal(err)
	}
	write("t.csv", rows.String())
	record := filepath.Join(dir, "record.jsonl")
	args := []string{"presets", "--scenarios", write("w.json", windows), "--data", dir, "--scheduler", "gavel",
		"--configs", "3", "--refine", "0", "--record", record, "--json"}
	code, out, errs := clitest.Run(args...)
	var p portfolio.Portfolio
	if err := json.Unmarshal([]byte(out), &p); code != 0 || err != nil || len(p.Windows) != 2 || !p.Windows[1].Test {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	write("record.jsonl", string(text[:len(text)-20])) // as an interrupted run leaves it
	code, again, errs := clitest.Run(args...)
	if after, err := os.ReadFile(record); code != 0 || again != out || err != nil || string(after) != string(text) {
		t.Errorf("exit %d, %v: %s%s; the record is\n%s\nnot\n%s", code, err, again, errs, after, text)
	}
	if code, out, errs = clitest.Run(args[:len(args)-1]...); code != 0 || !strings.Contains(out, "chosen 1: ") ||
		!strings.Contains(out, "calm (test)") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, c := range []struct{ scenarios, record, says string }{
		{`{"scenarios": []}`, "", "has no scenarios"},
		{strings.Replace(windows, "t.csv", "none.csv", 1), "", "day: --data: the trace is missing"},
		{strings.Replace(windows, `0.5`, `-1`, 1), "", "calm: recipe quiet: part 0: load"},
		{strings.Replace(windows, `"nodes": 4`, `"nodes": 0`, 1), "", "calm lacks"},
		{strings.Replace(windows, `"2017-10-10"`, `"2017-10-09"`, 1), "", "day: "},
		{windows, write("bad.jsonl", "{}\n"), "bad.jsonl:1: not a measurement of this command"},
	} {
		code, _, errs := clitest.Run("presets", "--scenarios", write("w.json", c.scenarios), "--data", dir,
			"--scheduler", "gavel", "--record", c.record)
		if code != 1 || !strings.Contains(errs, c.says) {
			t.Errorf("exit %d: %s, want %q", code, errs, c.says)
		}
	}
	for _, args := range [][]string{{}, {"--scenarios", "x", "--workers", "0"},
		{"--scenarios", "x", "--scheduler", "none"}} {
		if code, _, errs := clitest.Run(append([]string{"presets"}, args...)...); code != 2 || errs == "" {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
}
