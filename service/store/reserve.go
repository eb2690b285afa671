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
	// reserveEvery is the least time between two attempts to create the file on a full disk.
	reserveEvery = time.Second
)

// reserve is a file whose space config.db gets when the disk is full: it is removed for a change that does not fit
// otherwise, and events are refused until it can be created again.
type reserve struct {
	path string

	mu      sync.Mutex // must be held by a commit of events, and while the released space is used
	present bool
	lastTry time.Time
}

// ensure creates the file unless it is there. The caller must hold mu.
func (r *reserve) ensure() error {
	if r.present {
		return nil
	}
	if !r.lastTry.IsZero() && time.Since(r.lastTry) < reserveEvery {
		return ErrFull
	}
	r.lastTry = time.Now()
	info, err := os.Stat(r.path)
	if err == nil && info.Size() == reserveSize {
		r.present = true
		return nil
	}
	if err := r.fill(); err != nil {
		return errors.Join(err, os.Remove(r.path))
	}
	r.present, r.lastTry = true, time.Time{}
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

// release removes the file and calls f, while no events are written.
func (r *reserve) release(f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.present = false
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return f()
}

func newReserve(dir string) *reserve {
	r := &reserve{path: filepath.Join(dir, reserveFile)}
	_ = r.ensure() // on a full disk the first events try again
	return r
}
