package samples

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// TestFullDiskOfCompaction: the files of an hour that do not fit are made once there is room.
func TestFullDiskOfCompaction(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("a file system cannot be mounted here:", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	from := func(hour time.Duration) time.Duration { return begin + hour*time.Hour }
	for name, send := range map[string]func(s *Store, hour time.Duration) error{
		names[Raw]: func(s *Store, hour time.Duration) error {
			return s.Append(t.Context(), "prod", fleet(20, 4, from(hour), from(hour)+time.Minute))
		},
		iterationRaw: func(s *Store, hour time.Duration) error {
			var all []telemetry.Iteration
			for k := range 2000 {
				all = append(all, telemetry.Iteration{Job: fmt.Sprint("j", k), Took: 1,
					Time: from(hour) + time.Duration(k)})
			}
			return s.AppendIterations(t.Context(), "prod", all)
		},
	} {
		calls, full, ballast := 0, 0, filepath.Join(dir, "ballast")
		room := func(write func() error) error {
			if calls++; calls == 3 { // after two hours were appended
				_ = os.WriteFile(ballast, make([]byte, 8<<20), 0o600)
			}
			err := write()
			if errors.Is(err, syscall.ENOSPC) {
				full++
				err = errors.Join(os.Remove(ballast), write())
			}
			return err
		}
		folder := filepath.Join(dir, name)
		s, err := Open(folder, Options{Room: room})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(send(s, 0), send(s, 3)); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		hours, err := s.hours("prod", name)
		if err != nil || len(hours) != 1 || full != 1 {
			t.Errorf("%s: hours that are over: %v, %v; full %d times", name, hours, err, full)
		}
		if _, damage, err := Inspect(folder); err != nil || len(damage) > 0 {
			t.Errorf("%s: %+v, %v", name, damage, err)
		}
	}
}
