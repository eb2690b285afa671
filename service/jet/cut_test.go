package jet

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
)

// images copies a directory after each step of the engine while f runs: a process that ends then leaves it so. They
// are by the number of the step and its name.
func images(t *testing.T, e *Engine, dir string, f func()) map[string]string {
	t.Helper()
	out := map[string]string{}
	e.reached = func(step string) {
		image := filepath.Join(t.TempDir(), "image")
		if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
			t.Error(err)
		}
		out[fmt.Sprint(len(out), " ", step)] = image
	}
	f()
	e.reached = nil
	return out
}

// level brings a replica up to the log.
func level(t *testing.T, r *Replica) error {
	t.Helper()
	stream, err := r.e.js.Stream(t.Context(), logStream)
	if err == nil {
		err = r.catchUp(t.Context(), stream)
	}
	return err
}

// TestRemakeIsCut: a start after a kill at any step of a replica that is made anew, and after a second kill in that
// start, has the whole log, and keeps the former files.
func TestRemakeIsCut(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	add(t, s, 0, 5)
	if err := s.r.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, 5, 5)
	node := t.TempDir()
	dir := filepath.Join(node, "replica")
	r := openReplica(t, e, Options{Dir: dir})
	if err := errors.Join(level(t, r), r.Close(), os.WriteFile(filepath.Join(dir, "first"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, store.ConfigFile), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	add(t, s, 10, 2)
	open := func(node string) {
		t.Helper()
		r := openReplica(t, e, Options{Dir: filepath.Join(node, "replica")})
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	check := func(name, node string) {
		t.Helper()
		dir := filepath.Join(node, "replica")
		r := openReplica(t, e, Options{Dir: dir})
		defer r.Close()
		if err := level(t, r); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if got := len(ids(t, r)); got != 12 {
			t.Errorf("%s: %d events, want 12", name, got)
		}
		if _, err := os.Stat(filepath.Join(dir+damaged, "first")); err != nil {
			t.Errorf("%s: the former files: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir+damaged, unproven)); err == nil {
			t.Errorf("%s: the replica has the whole log, and the former one is still needed", name)
		}
		names, err := os.ReadDir(node)
		if err != nil || len(names) != 2 {
			t.Errorf("%s: %v, %v are left", name, names, err)
		}
	}
	// A part of an archive is there when its restore is cut.
	partly := func(images map[string]string) map[string]string {
		for name, image := range maps.Clone(images) {
			half := filepath.Join(t.TempDir(), "image")
			if err := os.CopyFS(half, os.DirFS(image)); err != nil {
				t.Fatal(err)
			}
			err := os.Remove(filepath.Join(half, "replica"+anew, store.ConfigFile))
			if err != nil && strings.HasSuffix(name, "restored") {
				err = os.Remove(filepath.Join(half, "replica", store.ConfigFile))
			}
			if err == nil {
				images[name+", by half"] = half
			}
		}
		return images
	}
	cuts := partly(images(t, e, node, func() { open(node) }))
	if len(cuts) != 7 { // restored, marked and set aside have one by half
		t.Errorf("cuts at %v", slices.Sorted(maps.Keys(cuts)))
	}
	again := 0
	for name, image := range cuts {
		seconds := partly(images(t, e, image, func() { open(image) }))
		again += len(seconds)
		check(name, image)
		for second, image := range seconds {
			check(name+", then "+second, image)
		}
	}
	if again < 20 {
		t.Errorf("%d second cuts", again)
	}
	check("no cut", node)
}

// TestArchiveIsCut: after a kill at any step of an archive, and as a part of it is stored, a new replica and that of
// the node have all entries, and no temporary file stays.
func TestArchiveIsCut(t *testing.T) {
	node := t.TempDir()
	e := start(t, node)
	r := openReplica(t, e, Options{Dir: filepath.Join(node, "replica")})
	s := lead(t, r, 1)
	add(t, s, 0, 5)
	if err := r.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, 5, 5)
	cuts := images(t, e, node, func() {
		if err := r.Archive(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if len(cuts) < 6 { // two of them while it is stored
		t.Errorf("cuts at %v", slices.Sorted(maps.Keys(cuts)))
	}
	if err := errors.Join(s.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	e.Close()
	cuts["no cut"] = node
	for name, node := range cuts {
		e := start(t, node)
		for _, dir := range []string{filepath.Join(node, "replica"), filepath.Join(t.TempDir(), "replica")} {
			r := openReplica(t, e, Options{Dir: dir})
			if err := level(t, r); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if got := len(ids(t, r)); got != 10 {
				t.Errorf("%s: %d events, want 10", name, got)
			}
			_ = r.Close()
		}
		if left, err := filepath.Glob(filepath.Join(node, archiveTemp)); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v are left", name, left, err)
		}
		e.Close()
	}
}

// TestArchiveBesideRemake: a replica that is made anew from an archive, while another one takes its place and the log
// before that is removed, is made anew again, and the former files stay until it has the whole log.
func TestArchiveBesideRemake(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	dir := filepath.Join(t.TempDir(), "replica")
	r := openReplica(t, e, Options{Dir: dir})
	stop := follow(t, r)
	add(t, s, 0, 5)
	eventually(t, "the replica does not follow", func() bool { return len(ids(t, r)) == 5 })
	if err := errors.Join(stop(), r.Close(), os.WriteFile(filepath.Join(dir, "first"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	archive := func(from int) {
		add(t, s, from, 5)
		if err := s.r.Archive(t.Context()); err != nil {
			t.Error(err)
		}
	}
	archive(5)
	r = openReplica(t, e, Options{Dir: dir})
	restored := 0
	e.reached = func(step string) {
		if step != "restored" {
			return
		}
		if restored++; restored <= 2 {
			if _, err := os.Stat(filepath.Join(dir+damaged, unproven)); restored == 2 && err != nil {
				t.Error("the former files:", err)
			}
			if err := r.Archive(t.Context()); err != nil { // the log has no entry of it: nothing is stored
				t.Error(err)
			}
			archive(5 + 5*restored)
		}
	}
	defer follow(t, r)()
	last := func() uint64 { at, _, _ := s.r.Position(); return at }
	eventually(t, "the replica does not follow", func() bool { at, _, _ := r.Position(); return at == last() })
	if got := len(ids(t, r)); got != 20 || restored != 3 {
		t.Errorf("%d events, want 20; restored %d times, want 3", got, restored)
	}
	if _, err := os.Stat(filepath.Join(dir+damaged, "first")); err != nil {
		t.Error("the former files:", err)
	}
	eventually(t, "the former files are needed still", func() bool {
		_, err := os.Stat(filepath.Join(dir+damaged, unproven))
		return err != nil
	})
}

// TestArchiveOfAnotherLog: a replica with an entry that the log does not have stores no archive, and removes nothing.
func TestArchiveOfAnotherLog(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	add(t, s, 0, 5)
	r := openReplica(t, e, Options{})
	if err := level(t, r); err != nil {
		t.Fatal(err)
	}
	at := r.store.Place()
	if _, err := r.store.Apply(store.Entry{Place: store.Place{Sequence: at.Sequence + 1, Chain: 7}, Time: time.Now(),
		Ops: []*store.Op{{Note: &audit.Record{Resource: "schedulers/a"}},
			store.EventsOp("a", []workload.Event{submitted("lost")})}}); err != nil {
		t.Fatal(err)
	}
	r.o.Log = slog.New(slog.DiscardHandler)
	if err := r.Archive(t.Context()); !errors.Is(err, errAhead) {
		t.Errorf("ahead of the log: %v", err)
	}
	add(t, s, 5, 5)
	if err := r.Archive(t.Context()); !errors.Is(err, errChain) {
		t.Errorf("beside the log: %v", err)
	}
	objects, err := e.snapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := archivesOf(t.Context(), objects); err != nil || len(all) > 0 {
		t.Errorf("archives %v, %v", all, err)
	}
	if next := openReplica(t, e, Options{}); level(t, next) != nil || len(ids(t, next)) != 10 {
		t.Error("the log is not whole")
	}
}
