package store

import (
	"errors"
	"slices"
	"sync"
	"syscall"
)

// Health is the state of a store's files.
type Health struct {
	// Changes and Events are why the last write of each failed, nil if it did not.
	Changes, Events error
	// Damaged are segments with pages that cannot be read.
	Damaged []string
	// Free and Size are of the file system, in bytes.
	Free, Size uint64
}

// Health looks at the file system and at the last writes. It does not wait for one.
func (r *Store) Health() (Health, error) {
	h := Health{Changes: r.changes.get(), Events: r.events.get()}
	r.damaged.Range(func(name, _ any) bool {
		h.Damaged = append(h.Damaged, name.(string))
		return true
	})
	slices.Sort(h.Damaged)
	var err error
	h.Free, h.Size, err = Space(r.dir)
	return h, err
}

// Space returns the free bytes and the size of a directory's file system.
func Space(dir string) (free, size uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	block := uint64(st.Bsize)
	return st.Bavail * block, st.Blocks * block, nil
}

// outcome is the error of the last write.
type outcome struct {
	mu  sync.Mutex
	err error
}

// note takes what a write returned, and returns it. Only what the disk or a file causes counts.
func (o *outcome) note(err error) error {
	errno := syscall.Errno(0)
	if err == nil || errors.As(err, &errno) || errors.Is(err, ErrFull) || errors.Is(err, ErrCorrupt) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = err
	}
	return err
}

func (o *outcome) get() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
