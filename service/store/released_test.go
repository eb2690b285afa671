package store

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
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
	if testing.Short() {
		t.Skip("it builds another commit, and the race detector sees nothing in that")
	}
	git := func(args ...string) ([]byte, error) { return exec.Command("git", args...).Output() }
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		const hint = "commit %s is not in the history of this clone: fetch it (git fetch --unshallow)"
		if os.Getenv("CI") == "true" {
			t.Fatalf(hint, commit)
		}
		t.Skipf(hint, commit)
	}
	if built[commit] != "" {
		return built[commit]
	}
	dir, err := os.MkdirTemp("", "autosched-"+commit)
	if err != nil {
		t.Fatal(err)
	}
	leftovers = append(leftovers, dir)
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
	built[commit] = filepath.Join(dir, "program")
	return built[commit]
}

// built has the programs by commit, and leftovers the folders that TestMain removes.
var (
	built     = map[string]string{}
	leftovers []string
)

// TestReleasedProgramRefuses: the program that knows layout 1 refuses a directory and a backup of today, says why,
// and leaves the directory as it was.
func TestReleasedProgramRefuses(t *testing.T) {
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

// TestReleasedProgramsDirectory: a directory and a backup of the program that knows layout 1 keep their freeze and
// pin, and the program refuses the directory from then on.
func TestReleasedProgramsDirectory(t *testing.T) {
	program, dir := buildCommit(t, layout1Commit), filepath.Join(t.TempDir(), "data")
	archive := filepath.Join(t.TempDir(), "backup.tar")
	serve := exec.CommandContext(t.Context(), program, "serve", "--dir", dir, "--listen", "127.0.0.1:0")
	said, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	address := ""
	lines := bufio.NewScanner(said)
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "address=")
		address, _, _ = strings.Cut(address, " ")
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	for _, args := range []string{
		"scheduler register --builtin tiresias --nodes 2 --gpus-per-node 8",
		"config pin tiresias --reason stable --set queues=2 --set queue_thresholds=3600",
		"freeze tiresias --reason holiday",
		"backup --out " + archive,
	} {
		run := exec.CommandContext(t.Context(), program, append(strings.Fields(args), "--server", address)...)
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(in, restored); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, restored} {
		r := open(t, dir)
		saved, _, damage, err := r.Load()
		if err != nil || len(damage) > 0 || len(saved) != 1 {
			t.Fatal(saved, damage, err)
		}
		s := saved[0].Scheduler
		if s.Freeze == nil || s.Freeze.Reason != "holiday" || s.Pin == nil || s.Pin.Reason != "stable" {
			t.Errorf("%s: the freeze is %v, the pin %v", dir, s.Freeze, s.Pin)
		}
		_ = r.Close()
		if layout, reader := versionsOf(t, dir); layout != layoutVersion || reader != layout1Reader {
			t.Errorf("%s: layout %d, reader %d", dir, layout, reader)
		}
		before := files(t, dir)
		again := exec.CommandContext(t.Context(), program, "serve", "--dir", dir, "--listen", "127.0.0.1:0")
		if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "newer version") {
			t.Errorf("%s: the program of layout 1 says %v, %s", dir, err, out)
		}
		if !reflect.DeepEqual(files(t, dir), before) {
			t.Errorf("%s was changed", dir)
		}
	}
}
