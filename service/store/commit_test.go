package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
)

// of is the first change of another scheduler.
func of(t testing.TB, id string) controller.Change {
	c := change(t, testSpace(t), 1)
	c.Scheduler.ID, c.Configurations[0].Scheduler = id, id
	return c
}

// Changes that wait share a commit, in their order. Refused ones fail alone and leave nothing.
func TestChangesShareACommit(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	stale := of(t, "stale")
	stale.Scheduler.Version = 7
	gap := of(t, "gap")
	gap.Configurations[0].Revision = 2
	r.changing = true
	var waits []func() error
	for _, c := range []controller.Change{stale, of(t, "a"), gap, of(t, "b"), of(t, "c"), stale} {
		put := func(tx *bolt.Tx) error { return r.putChange(tx, storedChangeOf(&c)) }
		waits = append(waits, r.enqueue(put, false))
	}
	r.commitChanges()
	for i, want := range []error{controller.ErrStale, nil, errRevision, nil, nil, controller.ErrStale} {
		if err := waits[i](); !errors.Is(err, want) {
			t.Errorf("change %d: %v, want %v", i, err, want)
		}
	}
	_ = r.Close()
	saved, _, damage, err := open(t, dir).Load()
	if err != nil || len(damage) > 0 || len(saved) != 3 {
		t.Fatalf("%d schedulers are stored, %v, %v", len(saved), damage, err)
	}
	for i, id := range []string{"a", "b", "c"} {
		if s := saved[i]; s.Scheduler.ID != id || s.Fault != nil || len(s.Configurations) != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// A record that was damaged while the service runs is replaced by the next change, and logged.
func TestAChangeReplacesADamagedRecord(t *testing.T) {
	var log bytes.Buffer
	r, err := Open(t.TempDir(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := of(t, "s")
	if err := r.Commit(t.Context(), c); err != nil || log.Len() > 0 {
		t.Fatal(log.String(), err)
	}
	if err := r.change(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(schedulersBucket))
		bad := bytes.Clone(b.Get([]byte("s")))
		bad[len(bad)/2] ^= 4
		return b.Put([]byte("s"), bad)
	}); err != nil {
		t.Fatal(err)
	}
	c.Scheduler.Version++
	if err := r.Commit(t.Context(), c); err != nil || !strings.Contains(log.String(), `schedulers`) {
		t.Fatal(log.String(), err)
	}
	saved, _, damage, err := r.Load()
	if err != nil || len(damage) > 0 || len(saved) != 1 || saved[0].Fault != nil || saved[0].Scheduler.Version != 2 {
		t.Errorf("%+v, %v, %v", saved, damage, err)
	}
}

// A full disk is known until a change is written: one that is refused says nothing about it.
func TestRefusedChangesLeaveTheHealth(t *testing.T) {
	r := open(t, t.TempDir())
	_ = r.lastChange.record(ErrFull)
	stale := of(t, "s")
	stale.Scheduler.Version = 7
	if err := r.Commit(t.Context(), stale); !errors.Is(err, controller.ErrStale) {
		t.Fatal(err)
	}
	if h, err := r.Health(); err != nil || !errors.Is(h.Changes, ErrFull) {
		t.Errorf("after a refused change: %v, %v", h.Changes, err)
	}
	damaged := &CorruptError{File: configFile}
	if err := r.change(func(*bolt.Tx) error { return damaged }); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if h, err := r.Health(); err != nil || !errors.Is(h.Changes, ErrCorrupt) {
		t.Errorf("after a change that met damage: %v, %v", h.Changes, err)
	}
	if err := r.Commit(t.Context(), of(t, "s")); err != nil {
		t.Fatal(err)
	}
	if h, err := r.Health(); err != nil || h.Changes != nil {
		t.Errorf("after a change that is written: %v, %v", h.Changes, err)
	}
}

// BenchmarkChanges commits a change of each of several schedulers at a time, and reports the changes per plain fsync
// of a page, which is measured beside.
func BenchmarkChanges(b *testing.B) {
	for _, schedulers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(schedulers), func(b *testing.B) {
			r := open(b, b.TempDir())
			plain, err := os.Create(filepath.Join(b.TempDir(), "plain"))
			if err != nil {
				b.Fatal(err)
			}
			defer plain.Close()
			page := make([]byte, 4096)
			synced := 0
			var changing, syncing time.Duration
			version := int64(0)
			for b.Loop() {
				version++
				began := time.Now()
				var all sync.WaitGroup
				for i := range schedulers {
					c := of(b, fmt.Sprint("s", i))
					c.Scheduler.Version = version
					all.Go(func() {
						if err := r.Commit(b.Context(), c); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
				changing += time.Since(began)
				began = time.Now()
				if _, err = plain.WriteAt(page, 0); err == nil {
					err = plain.Sync()
				}
				if err != nil {
					b.Fatal(err)
				}
				synced++
				syncing += time.Since(began)
			}
			perSecond := float64(version) * float64(schedulers) / changing.Seconds()
			b.ReportMetric(perSecond, "changes/s")
			b.ReportMetric(float64(synced)/syncing.Seconds(), "fsyncs/s")
			b.ReportMetric(perSecond*syncing.Seconds()/float64(synced), "changes/fsync")
		})
	}
}
