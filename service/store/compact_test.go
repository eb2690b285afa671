package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
)

// Compact keeps the records, the versions and the epoch, and gives free pages back. What an interrupted one left is
// not read.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Compact(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
	dir = filepath.Join(dir, "data")
	r := open(t, dir)
	for revision := int64(1); revision <= 3; revision++ {
		if err := r.Commit(t.Context(), audited(t, testSpace(t), revision)); err != nil {
			t.Fatal(err)
		}
	}
	round := bytes.Repeat([]byte("x"), 100_000)
	var keys []controller.RequestKey
	for n := range int64(10) {
		one := controller.Request{ID: fmt.Sprint(n), Digest: string(round), Scheduler: "s"}
		if err := errors.Join(r.KeepRound("u", n+1, round, 2), r.Remember(t.Context(), one)); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, one.Key())
	}
	if err := r.Purge(t.Context(), controller.Expired{Requests: keys}); err != nil {
		t.Fatal(err)
	}
	want, err := describe(r)
	if err != nil {
		t.Fatal(err)
	}
	epoch, secret := r.Epoch(), string(r.Secret())
	if _, _, err := Compact(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("beside a service: %v", err)
	}
	_ = r.Close()
	layout, reader := versionsOf(t, dir)
	for _, name := range []string{configFile, roundsFile} {
		if err := os.WriteFile(filepath.Join(dir, name+compactSuffix), round, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, after, err := Compact(dir)
	if err != nil || after > before/3 {
		t.Errorf("%d bytes of %d are left, %v", after, before, err)
	}
	if l, v := versionsOf(t, dir); l != layout || v != reader {
		t.Errorf("layout %d, reader %d after %d and %d", l, v, layout, reader)
	}
	r = open(t, dir)
	if got, err := describe(r); err != nil || got != want {
		t.Errorf("%v, it holds\n%swant\n%s", err, got, want)
	}
	if r.Epoch() != epoch || string(r.Secret()) != secret || r.NewEpoch() != "" {
		t.Errorf("epoch %v after %v: %s", r.Epoch(), epoch, r.NewEpoch())
	}
	kept := 0
	if err := r.Rounds("u", 0, func(int64, []byte, error) bool { kept++; return true }); err != nil || kept != 2 {
		t.Errorf("%d rounds, %v", kept, err)
	}
	if err := r.Commit(t.Context(), audited(t, testSpace(t), 4)); err != nil {
		t.Error(err)
	}
}

// A file whose pages cannot be read stays as it is.
func TestCompactOfDamagedFile(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	r := openAt(t, dir, &now)
	if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
		t.Fatal(err)
	}
	var page int64
	if err := r.viewConfig(func(tx *bolt.Tx) error {
		page = int64(tx.Bucket([]byte(configsBucket)).Root()) * int64(tx.DB().Info().PageSize)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	path := filepath.Join(dir, configFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		text[page+int64(i)] ^= 0xff // the header of the page
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Compact(dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("it says %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now[page:], text[page:]) {
		t.Errorf("it was changed: %v", err)
	}
}
