package store

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/workload"
)

// layout1Commit is the last one whose program knows layout 1.
const layout1Commit = "cf197d8"

// buildCommit builds the program of a commit of this repository's history. The test is skipped where a shallow
// clone does not have it, and fails there if CI is set.
func buildCommit(t *testing.T, commit string) (program string) {
	t.Helper()
	git := func(args ...string) ([]byte, error) { return exec.Command("git", args...).Output() }
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		const hint = "commit %s is not in the history of this clone: fetch it (git fetch --unshallow)"
		if os.Getenv("CI") == "true" {
			t.Fatalf(hint, commit)
		}
		t.Skipf(hint, commit)
	}
	dir := t.TempDir()
	top, err := git("rev-parse", "--show-toplevel")
	if err == nil {
		_, err = git("-C", strings.TrimSpace(string(top)), "archive", "--format=tar",
			"--output="+filepath.Join(dir, "source.tar"), commit)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := []string{"go", "build", "-o", "program", "./cmd/autosched"}
	for _, command := range [][]string{{"tar", "-xf", "source.tar"}, build} {
		run := exec.Command(command[0], command[1:]...)
		run.Dir, run.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath", "CGO_ENABLED=0", "GOWORK=off")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return filepath.Join(dir, "program")
}

// TestReleasedProgramRefuses: the program that knows layout 1 refuses a directory and a backup of today, says why,
// and leaves the directory as it was.
func TestReleasedProgramRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds another commit, and the race detector sees nothing in that")
	}
	program := buildCommit(t, layout1Commit)
	dir, archive := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup.tar")
	r := open(t, dir)
	frozen := change(t, testSpace(t), 1)
	frozen.Scheduler.Freeze = &rollout.Freeze{Reason: "holiday"}
	frozen.Scheduler.Pin = &rollout.Pin{Revision: 1, Reason: "known to work"}
	err := r.Commit(t.Context(), frozen)
	if err == nil {
		err = r.AppendEvents(t.Context(), "s", []workload.Event{event("1", time.Hour)})
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Backup(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	_ = r.Close()
	before := files(t, dir)
	other := filepath.Join(t.TempDir(), "restored")
	for _, args := range [][]string{
		{"serve", "--dir", dir, "--listen", "127.0.0.1:0"},
		{"serve", "--dir", dir, "--listen", "127.0.0.1:0", "--start-anew"},
		{"doctor", "--dir", dir},
		{"audit", "verify", "--dir", dir},
		{"restore", "--from", archive, "--dir", other},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		said, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		cancel()
		if err == nil || ctx.Err() == context.DeadlineExceeded {
			t.Errorf("%v: it goes on: %v\n%s", args, err, said)
		}
		for _, want := range []string{"newer version of autosched", "layout 2"} {
			if !strings.Contains(string(said), want) {
				t.Errorf("%v: it says %s, without %q", args, said, want)
			}
		}
		if after := files(t, dir); !reflect.DeepEqual(after, before) {
			t.Fatalf("%v: the directory was changed", args)
		}
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a backup was restored")
	}
}
