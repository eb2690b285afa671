package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/autosched/autosched/adapter/kubernetes/apply"
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
		"run --scheduler kueue --id x --mode apply":               "--lease-namespace: is missing",
		"run --scheduler kueue":                                   "--id: is missing",
		"run --scheduler kueue --id x --mode a":                   "--mode: \"a\" is not observe, recommend, apply",
		"run --scheduler kueue --id x --poll-interval 1ms":        "--poll-interval: 1ms is less than a second",
		"run --scheduler kueue --id x --scheduler-metrics a:8080": "is no URL of http or https",
		"run --scheduler kueue --id x --log-format xml":           "--log-format: \"xml\" is neither text nor json",
		"run --scheduler kueue --id x --server nowhere":           "is not host:port",
		"run --scheduler kueue --id x --opreations 127.0.0.1":     "do you mean --operations?",
		"init --scheduler kueue --conf x":                         "--conf: kueue has no such text",
		"doctor":                                                  "--scheduler: \"nothing\" is not kueue or volcano",
		"doctor --scheduler slurm":                                "--scheduler: \"slurm\" is not kueue or volcano",
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

// TestEvidence: a scheduler's metrics show a value, and where they cannot be read nothing is shown and no error stops
// the adapter.
func TestEvidence(t *testing.T) {
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, "volcano_queue_weight{queue_name=\"a\"} 4\n")
	}))
	defer server.Close()
	weight := apply.Field{Object: apply.Object{Name: "a"}, Path: "/spec/weight"}
	for _, fails := range []bool{false, true} {
		away.Store(fails)
		var warned []string
		shows := (&runOptions{metrics: server.URL}).evidence(func(err error) { warned = append(warned, err.Error()) })
		for _, value := range []int64{4, 5} {
			if got, err := shows(t.Context(), weight, value); err != nil || got != (value == 4 && !fails) {
				t.Errorf("%d: %v, %v", value, got, err)
			}
		}
		if fails != (strings.Join(warned, " ") == "--scheduler-metrics: 403 Forbidden") {
			t.Error(warned)
		}
	}
	if (&runOptions{}).evidence(nil) != nil {
		t.Error("evidence of nothing")
	}
}
