package decide

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

func TestSimulateJSON(t *testing.T) {
	jobs := filepath.Join(t.TempDir(), "jobs.csv")
	code, out, errs := clitest.Run("simulate", "--trace", "sample", "--nodes", "20", "--gpus-per-node", "8", "--scheduler",
		"tiresias",
		"--set", "queues=4", "--set", "queue_thresholds=3600,36000,360000", "--jobs-out", jobs, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"jobs", "avg_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "avg_queue_s",
		"makespan_s", "preemptions", "utilization", "ftf_le_1", "events", "wall_s"} {
		if _, ok := got[key].(float64); !ok {
			t.Errorf("%s: %v is not a number", key, got[key])
		}
	}
	rows, err := os.ReadFile(jobs)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(rows, []byte("\n")); n != int(got["jobs"].(float64))+1 {
		t.Errorf("%d lines for %v jobs", n, got["jobs"])
	}
	if !strings.Contains(errs, "synthetic") {
		t.Errorf("not said to be synthetic: %q", errs)
	}
}

func TestEvaluateJSON(t *testing.T) {
	testshared.Full(t)
	dir := filepath.Join(t.TempDir(), "report")
	code, out, errs := clitest.Run("evaluate", "--trace", "sample", "--from", "2017-10-10T00:00:00Z", "--to",
		"2017-10-10T06:00:00Z", "--nodes", "20",
		"--gpus-per-node", "8", "--scheduler", "tiresias", "--methods", "preset,autosched", "--budget", "8", "--seed",
		"3", "--out", dir, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Baseline map[string]any   `json:"baseline"`
		Methods  []map[string]any `json:"methods"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Methods) != 3 || got.Methods[0]["method"] != "default" || got.Methods[2]["method"] != "autosched" {
		t.Fatalf("methods: %v", got.Methods)
	}
	if b := got.Baseline; b["method"] != "default" || b["assumed"] != true || b["configuration"] == "" {
		t.Errorf("baseline: %v", b)
	}
	chosen := filepath.Join(dir, "report.json:")
	for _, name := range []string{"default", "autosched"} {
		if code, _, errs := clitest.Run("simulate", "--trace", "sample", "--to", "2017-10-09T06:00:00Z", "--nodes", "20",
			"--gpus-per-node", "8", "--scheduler", "tiresias", "--config", chosen+name); code != 0 {
			t.Errorf("%s of the report: exit %d: %s", name, code, errs)
		}
	}
	for _, m := range got.Methods {
		for _, key := range []string{"avg_jct_s", "p95_jct_s", "ratio_to_baseline", "rounds", "changes",
			"evaluations"} {
			if _, ok := m[key].(float64); !ok {
				t.Errorf("%v: %s: %v is not a number", m["method"], key, m[key])
			}
		}
	}
	for _, name := range []string{"report.html", "report.json", "methods.csv", "decisions.csv", "jobs.csv"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEvaluateCurrent: the configuration in force is the first row and 1.000 of every ratio.
func TestEvaluateCurrent(t *testing.T) {
	args := []string{"evaluate", "--trace", "sample", "--from", "2017-10-10", "--to", "2017-10-10T12:00:00Z",
		"--nodes", "14", "--scheduler", "fifo"}
	code, out, errs := clitest.Run(append(args, "--set", "backfill=true", "--methods", "default,current")...)
	if code != 0 {
		t.Fatal(errs)
	}
	want := regexp.MustCompile(`(?s)Baseline: the configuration that you run \(current\), the default of fifo but for backfill=true\..*` +
		`method [^\n]*\n +current .* 1\.000 [^\n]*\n +default .* 0\.\d+ `)
	if !want.MatchString(out) {
		t.Errorf("no match of %s:\n%s", want, out)
	}
	code, out, errs = clitest.Run(append(args, "--methods", "default")...)
	if code != 0 || !strings.Contains(out, "Baseline: the defaults of fifo, as no configuration was named. Name") {
		t.Errorf("%s%s", out, errs)
	}
	if code, again, errs := clitest.Run(append(args, "--methods", "current")...); code != 0 || again != out {
		t.Errorf("without a named one, current is the default: %s%s", again, errs)
	}
}

func TestTuneJSON(t *testing.T) {
	testshared.Full(t)
	args := []string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--gpus-per-node",
		"8", "--set", "queues=1", "--budget", "12", "--json"}
	code, out, errs := clitest.Run(args...)
	if code != 0 {
		t.Fatal(errs)
	}
	var got tuneReportText
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	origins := map[string]bool{}
	for i, x := range got.Trials {
		origins[x.Origin] = true
		if i > 0 && x.Objective < got.Trials[i-1].Objective {
			t.Errorf("trials are not in order: %v after %v", x.Objective, got.Trials[i-1].Objective)
		}
	}
	if !origins["incumbent"] || !origins["default"] || len(got.Trials) != 12 {
		t.Errorf("%d trials from %v", len(got.Trials), origins)
	}
	if !got.Adopt || got.Searched == "" || got.Verdict.Change || got.Verdict.EnoughFrom == "" {
		t.Errorf("adopt %v: %s; %+v", got.Adopt, got.Searched, got.Verdict)
	}
	code, out, _ = clitest.Run(args[:len(args)-1]...)
	for _, want := range []string{"By these futures alone (",
		"Keep what runs. The history is too short to choose by: "} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %q is not in\n%s", code, want, out)
		}
	}
	for _, internal := range []string{"sobol", "gp", "preset:", "controllable"} {
		if strings.Contains(out, internal) {
			t.Errorf("an operator reads %q:\n%s", internal, out)
		}
	}
}

type tuneReportText struct {
	Adopt    bool   `json:"futures_adopt"`
	Searched string `json:"searched"`
	Verdict  struct {
		Change     bool   `json:"change"`
		EnoughFrom string `json:"enough_from"`
	} `json:"verdict"`
	Trials []struct {
		Origin    string  `json:"origin"`
		Objective float64 `json:"objective"`
	} `json:"trials"`
}

func TestSmallClusterIsNoted(t *testing.T) {
	_, _, errs := clitest.Run("simulate", "--trace", "sample", "--nodes", "4", "--gpus-per-node", "8")
	if !strings.Contains(errs, "little to gain") {
		t.Errorf("32 GPUs: %q", errs)
	}
}
