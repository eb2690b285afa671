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

// reserve is a file whose space configurations get when the disk is full: it is removed for a change that does not fit
// otherwise, and all writers but those of configurations are refused until it can be created again.
type reserve struct {
	path string
	// shed removes records that are worth less than others, and reports whether there were any. Not called if nil.
	shed func() bool

	// mu must be shared by every write that may not use the reserve, and held while the released space is used. The
	// holder may change the fields below.
	mu      sync.RWMutex
	present bool
	lastTry time.Time
}

// use calls f, which writes, while the file is there. If the disk is full, it sheds records and tries again, once.
func (r *reserve) use(f func() error) error {
	err := r.try(f)
	if !errors.Is(err, ErrFull) || r.shed == nil || !r.shed() {
		return err
	}
	r.mu.Lock()
	r.lastTry = time.Time{}
	r.mu.Unlock()
	return r.try(f)
}

func (r *reserve) try(f func() error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for !r.present {
		r.mu.RUnlock()
		r.mu.Lock()
		err := r.ensure()
		r.mu.Unlock()
		r.mu.RLock()
		if err != nil {
			return err
		}
	}
	return storageError(f())
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

// release removes the file and calls f, while nothing else is written.
func (r *reserve) release(f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.present = false
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return f()
}

// Room calls f, which writes beside the store, unless the disk is full: only configurations may use the reserve.
func (r *Store) Room(f func() error) error { return r.reserve.use(f) }

func newReserve(dir string, shed func() bool) *reserve {
	r := &reserve{path: filepath.Join(dir, reserveFile), shed: shed}
	_ = r.ensure() // on a full disk the first events try again
	return r
}
