package store

import (
	"errors"
	"slices"
	"sync"
	"syscall"
)

// Health is the state of a store's files.
type Health struct {
	// Changes and Events are the errors of the last write of each, nil for success.
	Changes, Events error
	// Damaged are segments with pages that cannot be read.
	Damaged []string
	// Free and Size are of the file system, in bytes.
	Free, Size uint64
}

// Health returns the state of the file system and of the last writes. It waits for none.
func (r *Store) Health() (Health, error) {
	h := Health{Changes: r.lastChange.last(), Events: r.lastEvents.last()}
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

// record keeps the error of a write, if it is nil or caused by the disk or a file, and returns it.
func (o *outcome) record(err error) error {
	errno := syscall.Errno(0)
	if err == nil || errors.As(err, &errno) || errors.Is(err, ErrFull) || errors.Is(err, ErrCorrupt) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = err
	}
	return err
}

func (o *outcome) last() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
