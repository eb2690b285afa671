package decide

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
)

// TestCompareIsSimulate: every row has the figures of simulate, whatever the number of
// simulations at a time.
func TestCompareIsSimulate(t *testing.T) {
	testshared.Full(t)
	for _, with := range []string{"", " --estimates 0.7 --seed 5 --node-events " + nodeEvents(t)} {
		code, out, errs := clitest.Run(strings.Fields("compare --trace sample --nodes 14 --gpus-per-node 8 " +
			"--scheduler tiresias --set queues=1 --row themis --row lucid:priority=gpu_time --seeds 1 --parallel 3 " +
			"--windows 2017-10-09..2017-10-10,2017-10-10T06:00:00Z..2017-10-11 --json" + with)...)
		if code != 0 {
			t.Fatal(errs)
		}
		var got replay.Comparison
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		for i, row := range []string{"--set queues=1", "--scheduler themis", "--scheduler lucid"} {
			for k, window := range []string{"--from 2017-10-09 --to 2017-10-10", "--from 2017-10-10T06:00:00Z --to 2017-10-11"} {
				code, out, errs := clitest.Run(strings.Fields("simulate --trace sample --nodes 14 --gpus-per-node 8 --json " +
					row + " " + window + with)...)
				if code != 0 {
					t.Fatal(errs)
				}
				var want replay.Metrics
				if err := json.Unmarshal([]byte(out), &want); err != nil {
					t.Fatal(err)
				}
				if x := got.Windows[k].Results[i].Metrics; x != want {
					t.Errorf("%s %s: compare has %+v, simulate %+v", row, window, x, want)
				}
			}
		}
	}
}

func nodeEvents(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "nodes.csv")
	text := "time,node,event\n2017-10-10T08:00:00Z,3,down\n2017-10-10T20:00:00Z,3,up\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCompareGolden has the comparison of the sample as people and programs get it.
func TestCompareGolden(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := clitest.Run("compare", "--trace", "sample", "--nodes", "14", "--gpus-per-node", "8", "--row",
		"mine=tiresias:queues=2,queue_thresholds=7200", "--schedulers", "tiresias,themis", "--windows",
		"2017-10-09..2017-10-10,2017-10-10..2017-10-12", "--estimates", "0.7", "--seeds", "2", "--out", dir)
	if code != 0 {
		t.Fatal(errs)
	}
	table, err := os.ReadFile(filepath.Join(dir, "compare.csv"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(out, dir, "DIR") + "\n" + string(table)
	golden := filepath.Join("testdata", "compare.txt")
	if *clitest.Update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; if it should, run the test with -update:\n%s", golden, got)
	}
}

// TestCompareContinues: after an interruption the same command continues to the files of a
// run that was not interrupted; another row is appended.
func TestCompareContinues(t *testing.T) {
	dir := t.TempDir()
	args := strings.Fields("compare --trace sample --nodes 14 --gpus-per-node 8 --schedulers tiresias,themis,lucid --presets")
	whole, cut := filepath.Join(dir, "whole"), filepath.Join(dir, "cut")
	if code, _, errs := clitest.Run(append(args, "--parallel", "4", "--out", whole)...); code != 0 {
		t.Fatal(errs)
	}
	cutArgs := append(args, "--parallel", "1", "--out", cut)
	errs := interruptAfter(t, filepath.Join(cut, "cells.jsonl"), cutArgs...)
	if !strings.Contains(errs, "the same command continues") {
		t.Errorf("notes %q", errs)
	}
	if code, _, errs := clitest.Run(cutArgs...); code != 0 || !strings.Contains(errs, "not computed again") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, name := range []string{"compare.json", "compare.csv", "jobs.csv", "compare.html"} {
		a, err := os.ReadFile(filepath.Join(whole, name))
		b, err2 := os.ReadFile(filepath.Join(cut, name))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v, %v", name, err, err2)
		}
	}
	_, _, errs = clitest.Run(append(cutArgs, "--row", "fifo")...)
	var used, of int
	if _, err := fmt.Sscanf(errs[strings.Index(errs, " has ")+5:], "%d of %d", &used, &of); err != nil || used != of-1 {
		t.Errorf("with another row: notes %q", errs)
	}
}

// TestRow checks the spelling of --row.
func TestRow(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(file, []byte("queues: 2\nqueue_thresholds: [7200]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"themis":                                "themis: lease_term=20m",
		"a=themis":                              "a: lease_term=20m",
		"tiresias:ladder-7200x6":                "tiresias:ladder-7200x6: ",
		"b=tiresias:queues=3":                   "b: priority=service queues=3",
		"tiresias:queues=2,queue_thresholds=60": "tiresias:queues=2,queue_thresholds=60: priority=service queues=2 queue_thresholds=60",
		"c=tiresias:queues=3,queue_thresholds=60,120,starve_limit=8h": "c: priority=service queues=3 queue_thresholds=60,120 " +
			"order=running_first starve_limit=8h",
		"d=tiresias:" + file + ",starve_limit=8h": "d: priority=service queues=2 queue_thresholds=7200 order=running_first " +
			"starve_limit=8h",
	} {
		row, err := parseRow(text, schedulers.Find)
		if got := row.Name + ": " + row.Config.String(); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"magic": "magic", "=themis": "no name", "tiresias:magic": "ladder-7200x6", "tiresias:queues=9": "queues",
		"tiresias:ladder-7200x6,8": `"8" is not`, "tiresias:": `"" is not`, "tiresias:none.yaml": "none.yaml", "": "there are",
	} {
		if _, err := parseRow(text, schedulers.Find); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", text, err, want)
		}
	}
	for args, want := range map[string]string{
		"--row themis --row themis":                 "names two rows",
		"--presets":                                 "--schedulers",
		"--schedulers magic":                        "magic",
		"--windows 2017-10-09":                      "FROM..TO",
		"--windows noon..2017-10-09":                "noon",
		"--windows 2017-10-09..2017-10-09":          "does not end",
		"--windows 2017-10-09..2017-10-10 --from 1": "one or the other",
		"--windows 2017-10-09..2017-10-10,2017-10-09T23:00:00Z..2017-10-11": "overlap",
		"--seeds 0":     "--seeds",
		"--parallel -1": "--parallel",
		"--schedulers fifo --windows 2018-01-01..2019-01-01": "no job",
	} {
		code, _, errs := clitest.Run(append([]string{"compare", "--trace", "sample"}, strings.Fields(args)...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s, want %q", args, code, errs, want)
		}
	}
}

// TestCompareDefaultRows: without rows, the scheduler's defaults and presets.
func TestCompareDefaultRows(t *testing.T) {
	_, out, errs := clitest.Run("compare", "--trace", "sample", "--to", "2017-10-09T06:00:00Z", "--scheduler", "tiresias", "--json")
	var got replay.Comparison
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err, errs)
	}
	if len(got.Rows) < 2 || got.Rows[0].Name != "tiresias" || !strings.HasPrefix(got.Rows[1].Name, "tiresias:") ||
		math.Abs(got.Windows[0].Results[0].Ratio-1) > 0 {
		t.Errorf("rows %+v", got.Rows)
	}
}

// TestCompareFidelity: the grade of the baseline stands beside its window, and a baseline
// that does not describe its own history ends the comparison.
func TestCompareFidelity(t *testing.T) {
	args := []string{"compare", "--trace", filepath.Join("testdata", "history.csv"), "--nodes", "3",
		"--gpus-per-node", "8", "--schedulers", "tiresias,fifo", "--recorded-scheduler"}
	if code, out, errs := clitest.Run(append(args, "fifo")...); code != 0 || !strings.Contains(out, "not comparable") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	args[len(args)-2] = "fifo" // rows of one scheduler have a verdict, which says it
	if code, out, errs := clitest.Run(append(args, "sjf")...); code != 0 || strings.Count(out, "not comparable") != 1 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	args[len(args)-2] = "tiresias,fifo"
	code, _, errs := clitest.Run(append(args, "tiresias")...)
	if code != 1 || !strings.Contains(errs, "does not describe") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestAssumptionsAreSaid: a comparison says that jobs are taken for elastic where a scheduler changes their GPUs, and
// tables keep to a hundred columns.
func TestAssumptionsAreSaid(t *testing.T) {
	const assumed = "every job is assumed to run on up to max_scale times its GPUs"
	window := []string{"compare", "--trace", "sample", "--to", "2017-10-09T12:00:00Z", "--schedulers"}
	for schedulers, want := range map[string]bool{"fifo,tiresias": false, "fifo,pollux": true} {
		if code, out, errs := clitest.Run(append(window, schedulers)...); code != 0 ||
			strings.Contains(out, assumed) != want {
			t.Errorf("%s: exit %d, %s%s", schedulers, code, out, errs)
		}
	}
	code, out, errs := clitest.Run("tune", "--trace", "sample", "--at", "2017-10-09T12:00:00Z", "--scheduler", "slurm",
		"--budget", "8", "--futures", "1")
	table, _, _ := strings.Cut(out, "\nBy these futures alone")
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(line) - 1; n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if code != 0 || !strings.Contains(table, "parameters changed") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}
