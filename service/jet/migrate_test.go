package jet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
)

// A directory moves whole, once, and is served by no program after it; a move that ended before the epoch is repeated.
func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		err = errors.Join(err, s.AppendEvents(t.Context(), "a", []workload.Event{submitted(fmt.Sprint(i))}),
			s.Note(t.Context(), audit.Record{Resource: "schedulers/a"}))
	}
	before, secret := s.Epoch(), string(s.Secret())
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	e := start(t, home)
	// As a move leaves it that ended before the epoch: marked, and with an archive.
	if s, err = store.Open(dir, store.Options{}); err == nil {
		err = errors.Join(s.NoteMove("elsewhere"), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrReplica) {
		t.Errorf("a directory whose records moved: %v", err)
	}
	missing := *e.o // as of a node that has no server in it
	missing.Dir = filepath.Join(home, "missing")
	e.o = &missing
	m, err := Migrate(t.Context(), dir, e, Options{Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	if m.Events != 10 || m.Audit != 10 || m.Head == "" || m.Epoch.Counter <= before.Counter || m.Epoch.ID == before.ID {
		t.Errorf("%+v after epoch %+v", m, before)
	}
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrReplica) {
		t.Errorf("a directory whose records moved: %v", err)
	}
	if _, err := Migrate(t.Context(), dir, e, Options{}); err == nil {
		t.Error("records move to a cluster that has some")
	}
	r := openReplica(t, e, Options{})
	led := lead(t, r, 1)
	if led.Epoch() != m.Epoch || string(led.Secret()) != secret {
		t.Errorf("epoch %+v, want %+v", led.Epoch(), m.Epoch)
	}
	add(t, led, 10, 1)
	if got := ids(t, r); len(got) != 11 {
		t.Errorf("%d events", len(got))
	}
}

// No node leads before the epoch of a move is there.
func TestMoveThatDidNotEnd(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	archive, err := os.Create(filepath.Join(t.TempDir(), "archive"))
	if err == nil {
		_, err = s.Backup(t.Context(), archive)
	}
	e := start(t, t.TempDir())
	if err = errors.Join(err, e.putArchive(t.Context(), archive, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := openReplica(t, e, Options{}).Lead(t.Context(), 1); !errors.Is(err, ErrMigration) {
		t.Error(err)
	}
}

// When a majority of the servers lost their files, the records move from a replica that is left to new servers, and
// nothing that was acknowledged is lost. The directory says how far the replica is.
func TestMigrateFromReplica(t *testing.T) {
	old := start(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "replica")
	s := lead(t, openReplica(t, old, Options{Dir: dir}), 1)
	if err := s.Note(t.Context(), audit.Record{Resource: "schedulers/a"}); err != nil {
		t.Fatal(err)
	}
	add(t, s, 0, 700) // some after the last mark in config.db
	last, _, _ := s.r.Position()
	epoch := s.Epoch()
	if err := errors.Join(s.Close(), s.r.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Inspect(dir); err != nil || !r.Replica || r.Last != last {
		t.Errorf("a replica %v, at entry %d of %d: %v", r.Replica, r.Last, last, err)
	}
	e := start(t, t.TempDir())
	m, err := Migrate(t.Context(), dir, e, Options{Log: testLog(t)})
	if err != nil || m.Events != 700 || m.Audit != 1 {
		t.Fatalf("%+v: %v", m, err)
	}
	led := lead(t, openReplica(t, e, Options{}), 1)
	if led.Epoch().Counter <= epoch.Counter {
		t.Errorf("epoch %+v after %+v", led.Epoch(), epoch)
	}
	add(t, led, 700, 1)
	if got := ids(t, led.r); len(got) != 701 {
		t.Errorf("%d events", len(got))
	}
}
