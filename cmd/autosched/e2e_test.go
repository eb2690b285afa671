package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
)

// TestMain makes the test binary the command itself when a test starts it as a
// process.
func TestMain(m *testing.M) {
	if os.Getenv("AUTOSCHED_TEST_MAIN") == "1" {
		runMain(newRootCmd)
		return
	}
	if dir := os.Getenv(killDir); dir != "" {
		serveForKills(dir)
		return
	}
	if address := os.Getenv(studyClientOf); address != "" {
		studyClient(address, os.Getenv(studyClientName))
		return
	}
	os.Exit(m.Run())
}

func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "AUTOSCHED_TEST_MAIN=1")
	return cmd
}

// TestEndToEnd runs the service and an emulated scheduler as processes: the
// scheduler registers, streams its events, and a tuned configuration comes back,
// is applied and acknowledged.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := process(t, "serve", "--dir", dir, "--listen", "127.0.0.1:0")
	log, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { serve.Process.Kill() })
	address := make(chan string, 1)
	stopped := make(chan string, 1)
	go func() {
		var all strings.Builder
		find := regexp.MustCompile(`address=(\S+)`)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if m := find.FindStringSubmatch(lines.Text()); m != nil && strings.Contains(lines.Text(), "serving") {
				select {
				case address <- m[1]:
				default:
				}
			}
		}
		stopped <- all.String()
	}()
	var server string
	select {
	case server = <-address:
	case all := <-stopped:
		t.Fatalf("serve ended:\n%s", all)
	}

	// A day of the sample, a few hours a second, rounds every two hours.
	emulate := process(t, "emulate", "--server", server, "--id", "e2e", "--trace", "sample", "--to",
		"2017-10-10T00:00:00Z", "--nodes", "14",
		"--gpus-per-node", "8", "--speedup", "30000", "--interval", "2h", "--budget", "12", "--json")
	var out, errs bytes.Buffer
	emulate.Stdout, emulate.Stderr = &out, &errs
	if err := emulate.Run(); err != nil {
		t.Fatalf("emulate: %v\n%s", err, errs.String())
	}
	var report struct {
		Jobs    int `json:"jobs"`
		Events  int `json:"events_sent"`
		Applied []struct {
			Revision      int64           `json:"revision"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"applied"`
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if report.Jobs == 0 || report.Events < 3*report.Jobs {
		t.Errorf("%d jobs with %d events acknowledged", report.Jobs, report.Events)
	}
	if len(report.Applied) < 2 || report.Applied[0].Revision != 1 {
		t.Fatalf("no tuned configuration was applied: %s", out.String())
	}

	get := process(t, "config", "get", "e2e", "--server", server, "--json")
	current, err := get.Output()
	if err != nil {
		t.Fatalf("config get: %v", err)
	}
	var c struct {
		Origin          string `json:"origin"`
		Acknowledgement struct {
			State string `json:"state"`
		} `json:"acknowledgement"`
	}
	if err := json.Unmarshal(current, &c); err != nil {
		t.Fatalf("%v\n%s", err, current)
	}
	if c.Origin != "TUNED" || c.Acknowledgement.State != "APPLIED" {
		t.Errorf("the current configuration is %s", current)
	}

	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	all := <-stopped
	if err := serve.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, all)
	}
	if !strings.Contains(all, "round decided") {
		t.Errorf("no round was decided:\n%s", all)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "events-*.db")); len(found) == 0 {
		t.Error("no events were kept")
	}
}

// command runs a command line as a user would.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), newRootCmd(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestSimulateJSON(t *testing.T) {
	jobs := filepath.Join(t.TempDir(), "jobs.csv")
	code, out, errs := command("simulate", "--trace", "sample", "--nodes", "20", "--gpus-per-node", "8", "--scheduler",
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
	code, out, errs := command("evaluate", "--trace", "sample", "--from", "2017-10-10T00:00:00Z", "--to",
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
	if code, out, errs := command("scheduler", "diff", chosen+"default", chosen+"autosched", "--scheduler",
		"tiresias"); code != 0 && code != 1 || errs != "" {
		t.Errorf("configurations of the report: exit %d, %s %s", code, out, errs)
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

// TestEvaluateCurrent: what the user runs is the first row and 1.000 of every ratio.
func TestEvaluateCurrent(t *testing.T) {
	args := []string{"evaluate", "--trace", "sample", "--from", "2017-10-10", "--to", "2017-10-10T12:00:00Z",
		"--nodes", "14", "--scheduler", "fifo"}
	code, out, errs := command(append(args, "--set", "backfill=true", "--methods", "default,current")...)
	if code != 0 {
		t.Fatal(errs)
	}
	want := regexp.MustCompile(`(?s)Baseline: the configuration that you run \(current\): backfill=true\..*` +
		`method [^\n]*\n +current .* 1\.000 [^\n]*\n +default .* 0\.\d+ `)
	if !want.MatchString(out) {
		t.Errorf("no match of %s:\n%s", want, out)
	}
	code, out, errs = command(append(args, "--methods", "default")...)
	if code != 0 || !strings.Contains(out, "Baseline: the defaults of fifo, as no configuration was named: backfill=false.") {
		t.Errorf("%s%s", out, errs)
	}
	if code, _, errs = command(append(args, "--methods", "current")...); code != 2 || !strings.Contains(errs, "--config") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestEvaluateAnswers: FIFO without backfill is advised to change once, not to keep a method.
func TestEvaluateAnswers(t *testing.T) {
	args := []string{"evaluate", "--trace", "sample", "--from", "2017-10-10", "--nodes", "20", "--scheduler", "fifo",
		"--methods", "preset,fixed-history"}
	code, out, errs := command(args...)
	want := regexp.MustCompile(`(?m)^Change once, if what gets worse is acceptable: set backfill=true \(average JCT 6 h 17 min -> 3 h 37 min, ` +
		`42\.4 % shorter, 95 % interval [0-9.]+ to [0-9.]+ %\); worse: p95 .*$`)
	if code != 0 || !want.MatchString(out) || !strings.Contains(out, "\n  backfill   false  true\n") ||
		!strings.Contains(out, "\n  --set backfill=true\n") || strings.Contains(out, "Keep") {
		t.Errorf("exit %d:\n%s%s", code, out, errs)
	}
	code, out, errs = command(append(args, "--set", "backfill=true")...)
	if code != 0 || !strings.Contains(out, "\nKeep what you run: ") || strings.Contains(out, "Change once") {
		t.Errorf("exit %d:\n%s%s", code, out, errs)
	}
	var got struct {
		Answer struct {
			Once struct {
				Finding string         `json:"finding"`
				Gain    map[string]any `json:"gain"`
			} `json:"change_once"`
		} `json:"answer"`
	}
	_, out, _ = command(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Answer.Once.Finding != "breaks_guards" ||
		got.Answer.Once.Gain["interval_95"] == nil {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestTuneJSON(t *testing.T) {
	testshared.Full(t)
	args := []string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--gpus-per-node",
		"8", "--set", "queues=1", "--budget", "12", "--json"}
	code, out, errs := command(args...)
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
	if !got.Adopt || got.Reason == "" {
		t.Errorf("adopt %v: %s", got.Adopt, got.Reason)
	}
	code, out, _ = command(args[:len(args)-1]...)
	for _, want := range []string{"Adopt. Expected average JCT -", "No effect above", "Row 1 (step "} {
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
	Adopt  bool   `json:"adopt"`
	Reason string `json:"reason"`
	Trials []struct {
		Origin    string  `json:"origin"`
		Objective float64 `json:"objective"`
	} `json:"trials"`
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 0, ""}, // help
		{"nonsense", 2, `"nonsense"`},
		{"simulate", 2, "--trace"},
		{"simulate --trace sample --nodes 0", 2, "nodes"},
		{"simulate --trace sample --scheduler magic", 2, "tiresias"},
		{"simulate --trace sample --frobnicate", 2, "frobnicate"},
		{"simulate --trace sample --set queues=9", 2, "queues"},
		{"simulate --trace sample --set colour=red", 2, "colour"},
		{"simulate --trace sample --preset magic", 2, "ladder-7200x6"},
		{"simulate --trace sample --from tomorrow", 2, "--from"},
		{"simulate --trace sample --from 10 --to 5", 2, "--to"},
		{"simulate --trace sample --placement heap", 2, "--placement"},
		{"simulate --trace sample extra", 2, "extra"},
		{"simulate --trace no/such/file.csv", 1, "no/such/file.csv"},
		{"simulate --trace sample --nodes 1 --gpus-per-node 4", 1, "asks for"},
		{"evaluate --trace sample --methods magic", 2, "magic"},
		{"evaluate --trace sample --budget 0", 2, "--budget"},
		{"evaluate --trace sample --objective joy", 2, "joy"},
		{"tune --trace sample", 2, "--at"},
		{"tune --trace sample --at 2017-10-10T12:00:00Z --sampler magic", 2, "--sampler"},
		{"emulate --trace sample --speedup 0", 2, "--speedup"},
		{"emulate --trace sample --speedup -1", 2, "--speedup"},
		{"emulate --trace sample --speedup NaN", 2, "--speedup"},
		{"emulate --trace sample --speedup Inf", 2, "--speedup"},
		{"emulate --trace sample --speedup 1e9", 2, "at most 1000000"},
		{"emulate --trace sample --nodes 1 --gpus-per-node 4 --server 127.0.0.1:1", 1, "asks for"},
	} {
		code, _, errs := command(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("autosched %s: exit %d, %q; want exit %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}

func TestSmallClusterIsNoted(t *testing.T) {
	_, _, errs := command("simulate", "--trace", "sample", "--nodes", "4", "--gpus-per-node", "8")
	if !strings.Contains(errs, "little to gain") {
		t.Errorf("32 GPUs: %q", errs)
	}
}

func TestEveryCommandTeaches(t *testing.T) {
	testshared.Full(t)
	var visit func(path ...string)
	visit = func(path ...string) {
		cmd, _, err := newRootCmd().Find(path)
		if err != nil {
			t.Fatal(err)
		}
		name := cmd.CommandPath()
		if cmd.Short == "" || !cmd.HasSubCommands() && (len(cmd.Long) < 80 || cmd.Example == "") {
			t.Errorf("%s: wants Short, Long and Example", name)
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				visit(append(path[:len(path):len(path)], sub.Name())...)
			}
		}
	}
	visit()
}
