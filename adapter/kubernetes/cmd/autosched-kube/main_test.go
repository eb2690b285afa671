package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

func TestMain(m *testing.M) { clitest.Main(m, newRoot) }

// TestReference: docs/reference/autosched-kube.md has every command with its flags.
func TestReference(t *testing.T) {
	path := filepath.Join(testshared.Root(t), "docs", "reference", "autosched-kube.md")
	want := clitest.Reference(newRoot(), "# Commands of autosched-kube\n\nGenerated from the program by `go -C "+
		"adapter/kubernetes test ./cmd/autosched-kube -run TestReference -update`: edit the\nhelp texts. "+
		"[kubernetes.md](../kubernetes.md) is the guide.\n")
	if *clitest.Update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%v: %s is out of date: run the test with -update", err, path)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"run --scheduler kueue --id x --mode apply":           "--lease-namespace: is missing",
		"run --scheduler kueue":                               "--id: is missing",
		"run --scheduler kueue --id x --mode a":               "--mode: \"a\" is not observe, recommend, apply",
		"run --scheduler kueue --id x --poll-interval 1ms":    "--poll-interval: 1ms is less than a second",
		"run --scheduler kueue --id x --log-format xml":       "--log-format: \"xml\" is neither text nor json",
		"run --scheduler kueue --id x --server nowhere":       "is not host:port",
		"run --scheduler kueue --id x --opreations 127.0.0.1": "do you mean --operations?",
		"init --scheduler kueue --conf x":                     "--conf: kueue has no such text",
		"doctor":                                              "--scheduler: \"nothing\" is not kueue or volcano",
		"doctor --scheduler slurm":                            "--scheduler: \"slurm\" is not kueue or volcano",
	} {
		if code, _, errs := clitest.Run(strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s, want %q", args, code, errs, want)
		}
	}
	if code, out, _ := clitest.Run("version"); code != 0 || !strings.Contains(out, "simulator") {
		t.Errorf("%d %s", code, out)
	}
}

// TestOperations: metrics and probes are answered before anything is known.
func TestOperations(t *testing.T) {
	ops, err := (&runOptions{operations: "127.0.0.1:0"}).listen()
	if err != nil {
		t.Fatal(err)
	}
	go ops.serve(slog.New(slog.DiscardHandler))
	defer ops.Close()
	for path, want := range map[string]string{"/metrics": "autosched_kube_level 0", "/healthz": "ok",
		"/readyz": "waiting for the service and the cluster"} {
		answer, err := http.Get("http://" + ops.listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: %s, want %s", path, err, text, want)
		}
	}
}
