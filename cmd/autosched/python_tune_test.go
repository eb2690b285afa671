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
