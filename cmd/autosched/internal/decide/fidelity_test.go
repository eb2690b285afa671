package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// writeHistory writes the run of a synthetic workload under FIFO with backfill on a cluster, as
// a trace with recorded delays.
func writeHistory(t testing.TB, path, profile string, days int, load float64, c workload.Cluster) {
	t.Helper()
	w, err := synth.Generate(t.Context(), synth.Options{Profile: profile, Days: days, Load: load, Cluster: c,
		MaxDuration: 12 * time.Hour, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Space.Parse(s.Space.Default(), []string{"backfill=true"})
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(c, w, s.New(config), simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	jobs := slices.Clone(w.Jobs())
	for _, x := range sim.Outcomes(nil) {
		j := &jobs[x.ID]
		j.Wait, j.HasWait, j.Duration = x.Start-x.Submit, true, x.End-x.Start
	}
	var out bytes.Buffer
	if err := trace.WriteCSV(&out, workload.NewSorted("history", w.Zero(), jobs, true)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFidelityGolden: a history of two nodes, simulated on three.
func TestFidelityGolden(t *testing.T) {
	history, golden := filepath.Join("testdata", "history.csv"), filepath.Join("testdata", "fidelity.txt")
	if *clitest.Update {
		writeHistory(t, history, "helios", 8, .5, workload.Uniform(2, 8))
	}
	args := []string{"fidelity", "--trace", history, "--nodes", "3", "--gpus-per-node", "8", "--scheduler", "fifo", "--set",
		"backfill=true", "--recorded-scheduler", "fifo"}
	code, out, errs := clitest.Run(args...)
	if code != 0 {
		t.Fatal(errs)
	}
	if *clitest.Update {
		if err := os.WriteFile(golden, []byte(out), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out != string(want) {
		t.Errorf("%s\nis not %s:\n%s", out, golden, want)
	}
	// On the cluster that it was recorded on it is exact.
	args[4] = "2"
	code, out, errs = clitest.Run(append(args, "--json")...)
	var r struct {
		Grade          string
		Queueing_delay struct{ Error_factor float64 }
	}
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil || r.Grade != "describes" ||
		r.Queueing_delay.Error_factor != 1 {
		t.Errorf("exit %d: %+v %s", code, r, errs)
	}
}

// TestFidelityOut: the files that are written can be read back.
func TestFidelityOut(t *testing.T) {
	dir := t.TempDir()
	models, events, runs := filepath.Join(dir, "models.json"), filepath.Join(dir, "events.csv"), filepath.Join(dir, "runs.csv")
	args := func(nodes string, flags ...string) []string {
		return append([]string{"fidelity", "--trace", filepath.Join("testdata", "history.csv"), "--nodes", nodes, "--gpus-per-node",
			"8", "--scheduler", "fifo", "--set", "backfill=true", "--recorded-scheduler", "fifo"}, flags...)
	}
	text := "key,model,gpus,held_s,preemptions,strayed,end_s\n"
	for i := range 40 {
		text += fmt.Sprintf("k,,1,100,0,false,%d\nk,,1,400,1,false,%d\n", i, i)
	}
	if err := os.WriteFile(runs, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	code, out, errs := clitest.Run(args("2", "--runs", runs, "--models-out", models)...)
	if code != 0 || !strings.Contains(out, "restart from 1 GPUs on (s): 300, from 20 runs\nThe time on GPUs of 20 later runs "+
		"that were preempted or spread is off by 0.0 % (median), 70.5 %") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := clitest.Run(args("2", "--models", models)...); code != 0 {
		t.Error(errs)
	}
	// The history is of two nodes: of three, one was out.
	if code, _, errs := clitest.Run(args("3", "--node-events-out", events)...); code != 0 {
		t.Error(errs)
	}
	code, out, errs = clitest.Run(args("3", "--node-events", events, "--json")...)
	var r struct{ Grade string }
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil || r.Grade == "does not describe" {
		t.Errorf("exit %d: %s %s", code, r.Grade, errs)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{args("2", "--node-events-out", events), 1, "--node-events-out: the history shows no hours"},
		{args("2", "--models-out", models), 2, "--models-out: models are learnt from --runs"},
		{args("2", "--runs", filepath.Join(dir, "none")), 1, "--runs: "},
		{args("2", "--recorded-scheduler", "slurn"), 2, "--recorded-scheduler: scheduler \"slurn\": not known"},
	} {
		if code, _, errs := clitest.Run(c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
}

// TestFidelityStops: a simulated queue out of all proportion to the recorded one ends tune and
// evaluate, whichever scheduler ran the history: here it was recorded on a hundred nodes.
func TestFidelityStops(t *testing.T) {
	testshared.Full(t)
	history := filepath.Join(t.TempDir(), "history.csv")
	writeHistory(t, history, "philly", 1, .5, workload.Uniform(100, 8))
	run := func(command string, flags ...string) []string {
		args := []string{command, "--trace", history, "--gpus-per-node", "8", "--skip-wider"}
		switch command {
		case "tune":
			args = append(args, "--at", "20h", "--budget", "1", "--futures", "1")
		case "evaluate":
			args = append(args, "--methods", "default")
		}
		return append(args, flags...)
	}
	for _, c := range [][]string{
		run("tune", "--nodes", "10"),
		run("tune", "--nodes", "10", "--recorded-scheduler", "other"),
		run("tune", "--nodes", "10", "--recorded-scheduler", "tiresias"),
		run("evaluate", "--nodes", "10"),
	} {
		code, out, errs := clitest.Run(c...)
		if code != 1 || out != "" || !strings.Contains(errs, "does not describe the recorded cluster: jobs wait ") ||
			!strings.Contains(errs, "--ignore-fidelity") || !strings.Contains(errs, "than the cluster's 80") {
			t.Errorf("%s: exit %d, %s%s", c, code, out, errs)
		}
	}
	page := t.TempDir()
	for want, c := range map[string][]string{
		"The simulation does not describe the history: jobs wait ":            run("evaluate", "--nodes", "10", "--ignore-fidelity"),
		"The simulation is not comparable with the history, and conclusions ": run("tune", "--nodes", "100"),
		"The simulation describes the history: ": run("evaluate", "--nodes", "100", "--scheduler", "fifo", "--set",
			"backfill=true", "--recorded-scheduler", "fifo", "--out", page),
	} {
		if code, out, errs := clitest.Run(c...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %s%s", c, code, out, errs)
		}
	}
	for _, name := range []string{"report.html", "report.json"} {
		text, err := os.ReadFile(filepath.Join(page, name))
		if want := map[string]string{"report.html": "<p>The simulation describes the history: jobs wait ",
			"report.json": `"grade": "describes"`}[name]; err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v", name, want, err)
		}
	}
}
