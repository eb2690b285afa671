package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
)

// TestPythonTune: three Python programs tune a scheduler that is not simulated by ask and tell, one of which
// is killed in between. It is skipped unless make python runs it.
func TestPythonTune(t *testing.T) {
	python := os.Getenv("AUTOSCHED_PYTHON")
	if python == "" {
		t.Skip("make python runs it")
	}
	address, _ := startServe(t, t.TempDir())
	root := testshared.Root(t)
	tune := func(client string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), python, filepath.Join(root, "examples", "python", "tune.py"), address,
			"mine", "40", client)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "out", "python"))
		return cmd
	}
	killed := tune("c")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	list := func() string {
		_, out, _ := command("trial", "list", "mine/first", "--server", address)
		return out
	}
	eventually(t, list, "SUCCEEDED")
	_ = killed.Process.Kill()
	_ = killed.Wait()
	var wg sync.WaitGroup
	said := make([]string, 2)
	for i, name := range []string{"a", "c"} { // c comes back
		wg.Go(func() {
			out, err := tune(name).CombinedOutput()
			if said[i] = string(out); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		})
	}
	wg.Wait()
	code, out, errs := command("study", "get", "mine/first", "--server", address)
	if code != 0 || !strings.Contains(out, "(COMPLETED)") || !strings.Contains(out, "40 of 40 used") ||
		regexp.MustCompile(`ACTIVE|STALE|REQUESTED`).MatchString(out) {
		t.Errorf("%s%s", errs, out)
	}
	code, out, errs = command("config", "list", "mine", "--server", address)
	if code != 0 || !regexp.MustCompile(`2 +PROPOSED +STUDY`).MatchString(out) {
		t.Errorf("%s%s\n%s", errs, out, said)
	}
	if all := strings.Join(said, ""); !strings.Contains(all, "proposed as revision 2") {
		t.Error(all)
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
	address, _ := startServe(t, filepath.Join(dir, "data"), "--evaluators", file)
	for _, args := range [][]string{
		{"scheduler", "register", "--space", space, "--id", "mine", "--objective", "p95_wait", "--nodes", "4",
			"--gpus-per-node", "8"},
		{"study", "create", "mine/first", "--budget", "25", "--seed", "1"},
		{"study", "run", "mine/first", "--evaluator", "toy", "--parallel", "2", "--wait"},
	} {
		if code, out, errs := command(append(args, "--server", address)...); code != 0 {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	_, out, _ := command("study", "get", "mine/first", "--server", address)
	if !strings.Contains(out, "25 of 25 used") || !regexp.MustCompile(`order=las -> p95_wait=3\d`).MatchString(out) ||
		strings.Contains(out, "failed") {
		t.Error(out)
	}
}
