package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// pythonExample is a process of an example, with the installed package. The test is skipped unless make
// python runs it.
func pythonExample(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	python := os.Getenv("AUTOSCHED_PYTHON")
	if python == "" {
		t.Skip("make python runs it")
	}
	root := testshared.Root(t)
	return exec.CommandContext(t.Context(), python, append([]string{filepath.Join(root, "examples", "python", name)},
		args...)...)
}

// TestPythonJobs: the example of the methods of jobs calls each on a running service.
func TestPythonJobs(t *testing.T) {
	cmd := pythonExample(t, "jobs.py")
	_, address := clitest.ServeProcess(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	for _, args := range [][]string{
		{"scheduler", "register", "--builtin", "tiresias", "--id", "mine", "--nodes", "14", "--gpus-per-node", "8"},
		{"scheduler", "emulate", "--id", "mine", "--trace", "sample", "--to", "2017-10-09T03:00:00Z", "--nodes", "14",
			"--gpus-per-node", "8"},
	} {
		if code, out, errs := clitest.Run(append(args, "--server", address)...); code != 0 {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	cmd.Args = append(cmd.Args, address, "mine")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, part := range []string{"load: ", "job: ", "tenant: ", "timeline: ", "forecasts: ", "energy: "} {
		if !strings.Contains(string(out), "\n"+part) && !strings.HasPrefix(string(out), part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}

// A scheduler in Python, of a type that is not simulated, registers, sends events, and applies and
// acknowledges pinned values, through a restart of the service and of its own.
func TestPythonScheduler(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	serve, address := clitest.ServeProcess(t, data, "127.0.0.1:0")
	var out clitest.LockedBuffer
	scheduler := pythonExample(t, "scheduler.py", address, "mine", "60")
	scheduler.Stdout, scheduler.Stderr = &out, &out
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Wait() }()
	clitest.Eventually(t, out.String, "revision 1 in force: .'batch': 4")
	if code, _, errs := clitest.Run("scheduler", "config", "pin", "mine", "--set", "batch=7", "--reason",
		"test", "--server",
		address); code != 0 {
		t.Fatal(errs)
	}
	clitest.Eventually(t, out.String, "revision 2 in force: .'batch': 7")
	if err := serve.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = serve.Wait()
	_, _ = clitest.ServeProcess(t, data, address)
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("it does not end:\n%s", out.String())
	}
	if out, err := pythonExample(t, "scheduler.py", address, "mine", "10").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, got, errs := clitest.Run("scheduler", "get", "mine", "--json", "--server", address)
	for _, want := range []string{`"eventCount": "70"`, `"IN_SYNC"`, `"schedulers/mine/configurations/2"`} {
		if code != 0 || !strings.Contains(got, want) {
			t.Errorf("%s%s\nwant %s", errs, got, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(testshared.Root(t), "examples", "python", "scheduler.py"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 60 {
		t.Errorf("the example has %d lines, and a page says less than 60", n)
	}
}

// The scheduler in Python conforms. It takes every configuration whole and sends no snapshot.
func TestPythonConformance(t *testing.T) {
	scheduler := pythonExample(t, "scheduler.py", "{address}", "mine", "100000")
	code, out, errs := clitest.Run(append([]string{"scheduler", "conformance", "--"}, scheduler.Args...)...)
	if code != 0 || strings.Count(out, "PASS") != 22 || strings.Count(out, "SKIPPED") != 2 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// A scheduler in Python reports its measurements through a restart of the service: every report is stored once.
func TestPythonReports(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	serve, address := clitest.ServeProcess(t, data, "127.0.0.1:0")
	if code, _, errs := clitest.Run("scheduler", "register", "--id", "mine", "--objective", "p95_wait", "--nodes", "4",
		"--gpus-per-node", "8", "--space", clitest.NumberSpace(t), "--server", address); code != 0 {
		t.Fatal(errs)
	}
	var out clitest.LockedBuffer
	reporter := pythonExample(t, "report.py", address, "mine", "60")
	reporter.Stdout, reporter.Stderr = &out, &out
	if err := reporter.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- reporter.Wait() }()
	clitest.Eventually(t, out.String, "reports stored")
	if err := serve.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = serve.Wait()
	_, _ = clitest.ServeProcess(t, data, address)
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("it does not end:\n%s", out.String())
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	list, err := pb.NewMetricServiceClient(conn).ListMetrics(t.Context(), &pb.ListMetricsRequest{
		Parent: "schedulers/mine", PageSize: 1000})
	if err != nil || len(list.GetReports()) != 60 {
		t.Fatalf("%d reports of 60: %v\n%s", len(list.GetReports()), err, out.String())
	}
	for i, r := range list.GetReports() {
		if r.GetMetrics()["p95_wait"] != float64(30+i%7) {
			t.Errorf("report %d is %v", i, r)
		}
	}
}
