package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// small mounts a file system of 12 MiB.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		t.Skip("a file system cannot be mounted here:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Events that fill the disk leave configurations their space: changes are committed on, also after
// a restart, and events go on once there is space for both.
func TestConfigurationsHaveTheirReserve(t *testing.T) {
	ctx, dir, sp := context.Background(), small(t), testSpace(t)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r := openOn(t, dir, damageDay)
	acked := 0
	fill := func() error {
		for {
			batch := make([]workload.Event, 500)
			for i := range batch {
				batch[i] = event(fmt.Sprint("e", acked+i), time.Duration(acked+i)*time.Second)
			}
			if err := r.AppendEvents(ctx, "s", batch); err != nil {
				return err
			}
			acked += len(batch)
		}
	}
	if err := fill(); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	// Something else takes the rest.
	if err := os.WriteFile(filepath.Join(dir, "rest"), make([]byte, 12<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	revision := int64(0)
	commit := func() {
		t.Helper()
		for range 100 {
			revision++
			if err := r.Commit(ctx, change(t, sp, revision)); err != nil {
				t.Fatalf("revision %d: %v", revision, err)
			}
			if err := fill(); !errors.Is(err, ErrFull) {
				t.Fatalf("events after revision %d: %v", revision, err)
			}
		}
	}
	commit()
	_ = r.Close()
	r = openOn(t, dir, damageDay)
	commit()
	if err := errors.Join(os.Remove(ballast), os.Remove(filepath.Join(dir, "rest"))); err != nil {
		t.Fatal(err)
	}
	before := acked
	for deadline := time.Now().Add(2 * time.Minute); acked == before; {
		if err := fill(); !errors.Is(err, ErrFull) || time.Now().After(deadline) {
			t.Fatal("events do not go on:", err)
		}
	}
	if ids, damage := replayed(t, r); len(ids) != acked || len(damage) > 0 {
		t.Errorf("%d events of %d acknowledged: %+v", len(ids), acked, damage)
	}
	if saved, _, _, err := r.Load(); err != nil || len(saved[0].Configurations) != int(revision) {
		t.Error(len(saved), err)
	}
}

// Compact refuses a file whose copy would fill the disk, and sheds nothing for it.
func TestCompactNeedsRoom(t *testing.T) {
	dir := small(t) // the reserve alone leaves less than it needs
	r, err := Open(dir, Options{Shed: func() bool { t.Error("records are shed"); return false }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.KeepRound("u", 1, make([]byte, 1<<20), 1); err != nil {
		t.Fatal(err)
	}
	r.onStep = func(step string) { t.Errorf("%s in spite of that", step) }
	_, _, err = r.Compact(t.Context())
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "MiB of free space") {
		t.Errorf("it says %v", err)
	}
}
