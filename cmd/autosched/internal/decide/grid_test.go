package decide

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// interruptAfter cancels a command once the file has something, and returns its notes.
func interruptAfter(t *testing.T, file string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if info, err := os.Stat(file); err == nil && info.Size() > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	if code := cli.Run(ctx, clitest.NewRoot(), args, &out, &errs); code != 1 || !strings.Contains(errs.String(), "interrupted") {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	return errs.String()
}

// TestEvaluateContinues: after an interruption the same command counts the kept results and
// writes the report of a run that was not interrupted.
func TestEvaluateContinues(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	args := strings.Fields("evaluate --trace sample --from 2017-10-10 --to 2017-10-10T06:00:00Z --nodes 14 " +
		"--gpus-per-node 8 --budget 10 --futures 3 --methods default,fixed-oracle,autosched --seeds 2 --out")
	report := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name, "report.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	whole := append(args, filepath.Join(dir, "whole"))
	if code, _, errs := clitest.Run(whole...); code != 0 {
		t.Fatal(errs)
	}
	cut := append(args, filepath.Join(dir, "cut"), "--parallel", "1")
	errs := interruptAfter(t, filepath.Join(dir, "cut", "cells.jsonl"), cut...)
	if !strings.Contains(errs, "of 5 results; the same command continues") {
		t.Errorf("notes %q", errs)
	}
	code, _, errs := clitest.Run(cut...)
	if code != 0 || !strings.Contains(errs, "not computed again") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if report("cut") != report("whole") {
		t.Error("the report differs from that of a run that was not interrupted")
	}
}

// TestLongRun: a long run is announced once, with the results that an interruption keeps.
func TestLongRun(t *testing.T) {
	for out, want := range map[string]string{
		"":    "note: about 25 min for 7 more results; with --out DIR, Ctrl-C would keep what is finished\n",
		"dir": "note: about 25 min for 7 more results; Ctrl-C keeps what is finished\n",
	} {
		var notes bytes.Buffer
		g := newGridProgress(&notes, out)
		g.show("x", cells.Progress{Done: 1, Of: 9, Left: 15 * time.Minute})
		for range 2 {
			g.show("x", cells.Progress{Done: 2, Of: 9, Left: 25 * time.Minute, Known: true})
		}
		if notes.String() != want {
			t.Errorf("notes %q, want %q", notes.String(), want)
		}
	}
}
