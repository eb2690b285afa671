package store

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	reserveFile = "reserve"
	reserveSize = 4 << 20
	// reserveEvery is the least time between two attempts to make the file on a full disk.
	reserveEvery = time.Second
)

// reserve is a file whose space config.db gets when the disk is full: it is given up for a change
// that does not fit otherwise, and events are refused until there is space for it again.
type reserve struct {
	path string

	mu    sync.Mutex // held by a commit of events, and while what was given up is used
	there bool
	tried time.Time
}

// make fills the file unless it is there. mu is held.
func (r *reserve) make() error {
	if r.there {
		return nil
	}
	if !r.tried.IsZero() && time.Since(r.tried) < reserveEvery {
		return ErrFull
	}
	r.tried = time.Now()
	info, err := os.Stat(r.path)
	if err == nil && info.Size() == reserveSize {
		r.there = true
		return nil
	}
	if err := r.fill(); err != nil {
		return errors.Join(err, os.Remove(r.path))
	}
	r.there, r.tried = true, time.Time{}
	return nil
}

func (r *reserve) fill() error {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return storageError(err)
	}
	_, err = f.Write(make([]byte, reserveSize))
	if err == nil {
		err = f.Sync()
	}
	return storageError(errors.Join(err, f.Close()))
}

// giveUp calls f once the space of the file is free and no events are written.
func (r *reserve) giveUp(f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.there = false
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return f()
}

func newReserve(dir string) *reserve {
	r := &reserve{path: filepath.Join(dir, reserveFile)}
	_ = r.make() // on a full disk the first events try again
	return r
}
