package decide

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
		g := newGridProgress(&notes, out, "less")
		g.show("x", cells.Progress{Done: 1, Of: 9, Left: 15 * time.Minute})
		for range 2 {
			g.show("x", cells.Progress{Done: 2, Of: 9, Left: 25 * time.Minute, Known: true})
		}
		if want += "note: faster: less\n"; notes.String() != want {
			t.Errorf("notes %q, want %q", notes.String(), want)
		}
	}
}

// TestSlowIsSaidFirst: an evaluation that takes above five minutes says so, and the short way, before it asks for the
// answer and computes a result.
func TestSlowIsSaidFirst(t *testing.T) {
	testshared.Full(t)
	args := strings.Fields("evaluate --trace sample --from 2017-10-10 --nodes 20 --scheduler tiresias --full --seeds 200")
	notes := newLineSignal("note: faster: ")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	go func() {
		<-notes.seen
		cancel()
	}()
	code := cli.Run(ctx, clitest.NewRoot(), args, io.Discard, notes)
	text := notes.String()
	about, short := strings.Index(text, "note: about "), strings.Index(text, "note: faster: ")
	if code != 1 || about < 0 || short < about || !strings.Contains(text[short:], "without --full") ||
		strings.Contains(text, "finished,") {
		t.Errorf("exit %d: %s", code, text)
	}
}

// lineSignal closes seen once a text was written.
type lineSignal struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	text string
	once sync.Once
	seen chan struct{}
}

func newLineSignal(text string) *lineSignal {
	return &lineSignal{text: text, seen: make(chan struct{})}
}

func (s *lineSignal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.buf.Write(p)
	if strings.Contains(s.buf.String(), s.text) {
		s.once.Do(func() { close(s.seen) })
	}
	return n, err
}

func (s *lineSignal) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
