package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestPythonTune: three Python programs tune a scheduler that is not simulated by ask and tell, one of which
// is killed in between. They wait for the trial that a fourth client holds. The winner is approved, and the adapter
// of files puts it into force. All are separate processes.
func TestPythonTune(t *testing.T) {
	if os.Getenv("AUTOSCHED_PYTHON") == "" {
		t.Skip("make python runs it")
	}
	dir := t.TempDir()
	_, address := clitest.ServeProcess(t, filepath.Join(dir, "data"), "127.0.0.1:0")
	tune := func(client string) *exec.Cmd { return pythonExample(t, "tune.py", address, "mine", "40", client) }
	killed := tune("c")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	held := clitest.Eventually(t, func() string {
		_, out, _ := clitest.Run("study", "trial", "ask", "mine/first", "--client", "d", "--json", "--server", address)
		return out
	}, `mine/studies/first/trials/(\d+)"`)
	list := func() string {
		_, out, _ := clitest.Run("study", "trial", "list", "mine/first", "--server", address)
		return out
	}
	clitest.Eventually(t, list, "SUCCEEDED")
	_ = killed.Process.Kill()
	_ = killed.Wait()
	var wg sync.WaitGroup
	said := make([]string, 2)
	for i, name := range []string{"a", "c"} { // c comes back
		cmd := tune(name)
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			if said[i] = string(out); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		})
	}
	clitest.Eventually(t, func() string {
		_, used, _ := clitest.Run("study", "get", "mine/first", "--server", address)
		return used
	}, `(?s)40 of 40 used.*trials +1 ACTIVE,`)
	if code, _, errs := clitest.Run("study", "trial", "tell", "mine/first/"+held, "p95_wait=99", "--server",
		address); code != 0 {
		t.Error(errs)
	}
	wg.Wait()
	code, out, errs := clitest.Run("study", "get", "mine/first", "--server", address)
	if code != 0 || !strings.Contains(out, "(COMPLETED)") || !strings.Contains(out, "40 of 40 used") ||
		regexp.MustCompile(`ACTIVE|STALE|REQUESTED`).MatchString(out) {
		t.Errorf("%s%s", errs, out)
	}
	code, out, errs = clitest.Run("scheduler", "config", "list", "mine", "--server", address)
	if code != 0 || !regexp.MustCompile(`2 +PROPOSED +STUDY`).MatchString(out) {
		t.Errorf("%s%s\n%s", errs, out, said)
	}
	if all := strings.Join(said, ""); !strings.Contains(all, "proposed as revision 2") {
		t.Error(all)
	}
	options := filepath.Join(dir, "options.yaml")
	adapter := clitest.Process(t, "scheduler", "adapter", "file", "--server", address, "--id", "mine",
		"--file", options)
	if err := adapter.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = adapter.Process.Kill(); _ = adapter.Wait() })
	get := func() string {
		_, out, _ := clitest.Run("scheduler", "get", "mine", "--json", "--server", address)
		return out
	}
	clitest.Eventually(t, get, `(?s)"IN_SYNC".*"reportedRevision": "1"`)
	if code, _, errs := clitest.Run("scheduler", "config", "approve", "mine", "--revision", "2", "--server",
		address); code != 0 {
		t.Fatal(errs)
	}
	clitest.Eventually(t, get, `(?s)"IN_SYNC".*"reportedRevision": "2"`)
	if got, err := os.ReadFile(options); err != nil || !strings.Contains(string(got), "order: las") {
		t.Errorf("%v %s", err, got)
	}
}

// TestPythonEvaluator: the service measures a study by the command in Python.
func TestPythonEvaluator(t *testing.T) {
	python := os.Getenv("AUTOSCHED_PYTHON")
	if python == "" {
		t.Skip("make python runs it")
	}
	dir, root := t.TempDir(), testshared.Root(t)
	file, space := filepath.Join(dir, "evaluators.yaml"), filepath.Join(dir, "space.yaml")
	for path, text := range map[string]string{
		file: "evaluators:\n  - {id: toy, parallel-trials: 2, command: [" + python + ", " +
			filepath.Join(root, "examples", "python", "evaluate.py") + "]}\n",
		space: "parameters:\n  - {id: batch, kind: int, min_value: 1, max_value: 256, log: true, default_value: 4}\n" +
			"  - {id: order, kind: categorical, categories: [fifo, las], default_value: fifo}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, _ := clitest.StartServe(t, filepath.Join(dir, "data"), "--evaluators", file)
	for _, args := range [][]string{
		{"scheduler", "register", "--space", space, "--id", "mine", "--objective", "p95_wait", "--nodes", "4",
			"--gpus-per-node", "8"},
		{"study", "create", "mine/first", "--trial-budget", "25", "--seed", "1"},
		{"study", "run", "mine/first", "--evaluator", "toy", "--parallel", "2", "--wait"},
	} {
		if code, out, errs := clitest.Run(append(args, "--server", address)...); code != 0 {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	_, out, _ := clitest.Run("study", "get", "mine/first", "--server", address)
	if !strings.Contains(out, "25 of 25 used") || !regexp.MustCompile(`order=las -> p95_wait=3\d`).MatchString(out) ||
		strings.Contains(out, "failed") {
		t.Error(out)
	}
}
