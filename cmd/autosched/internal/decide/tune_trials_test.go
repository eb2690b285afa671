package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestTuneTrials: the record of a search has a header and a line for each trial, for any number of workers, and no
// file with content is overwritten.
func TestTuneTrials(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	run := func(more ...string) (int, string, string) {
		t.Helper()
		return clitest.Run(append([]string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20",
			"--scheduler", "chronus", "--budget", "6", "--futures", "1", "--json"}, more...)...)
	}
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	path, blank := filepath.Join(dir, "trials.jsonl"), filepath.Join(dir, "blank.jsonl")
	code, out, errs := run("--trials", path, "--workers", "1")
	if code != 0 || !strings.Contains(errs, "note: slo_gpus, slo_share, slo_factor keep the incumbent's values") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var report struct{ Inert []string }
	if err := json.Unmarshal([]byte(out), &report); err != nil ||
		!slices.Equal(report.Inert, []string{"slo_gpus", "slo_share", "slo_factor"}) {
		t.Errorf("inert are %v (%v)", report.Inert, err)
	}
	text := read(path)
	if lines := strings.SplitAfter(text, "\n"); len(lines) != 8 || !strings.Contains(lines[0], `"scheduler":"chronus"`) {
		t.Errorf("%d lines: %s", len(lines), lines[0])
	}
	// An empty file is as good as none.
	if err := os.WriteFile(blank, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run("--trials", blank, "--workers", "3"); code != 0 || read(blank) != text {
		t.Errorf("exit %d: %s; the record in a file that was empty differs", code, errs)
	}
	for _, c := range []struct{ file, want string }{
		{path, "--trials: " + path + " is not empty and is not overwritten: name another file"},
		{dir, "--trials: "},
	} {
		if code, _, errs := run("--trials", c.file); code != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %s", c.file, code, errs)
		}
	}
	if read(path) != text {
		t.Error("a record was changed")
	}
}

// TestTuneInterrupted: the best so far comes out.
func TestTuneInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trials.jsonl")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := time.AfterFunc(0, func() {
		for ctx.Err() == nil {
			if b, err := os.ReadFile(path); err == nil && bytes.Count(b, []byte("\n")) > 5 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	})
	defer stop.Stop()
	var out, errs bytes.Buffer
	code := cli.Run(ctx, clitest.NewRoot(), []string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--futures",
		"1", "--sampler", "random", "--budget", "1000000", "--time", "10m", "--trials", path, "--json"}, &out, &errs)
	var got struct {
		Stopped string
		Best    map[string]any
		Trials  []json.RawMessage
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != 0 || got.Stopped != "cancelled" ||
		len(got.Trials) < 5 || len(got.Best) == 0 {
		t.Errorf("exit %d, stopped by %q after %d trials (%v)", code, got.Stopped, len(got.Trials), err)
	}
	if want := "note: interrupted; this is the best of what was measured\n"; !strings.Contains(errs.String(), want) {
		t.Errorf("%s does not say %q", &errs, want)
	}
}

func TestTuneTime(t *testing.T) {
	testshared.Full(t)
	code, out, errs := clitest.Run("tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20",
		"--futures", "1", "--time", "1ns", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Stopped string
		Trials  []json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Stopped != "time" || len(got.Trials) != 1 {
		t.Errorf("stopped by %s after %d trials (%v), want time after the default alone",
			got.Stopped, len(got.Trials), err)
	}
}
