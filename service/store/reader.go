package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/workload"
)

// Reader reads a directory that no service has open, and never writes. It must not be used concurrently.
type Reader struct{ store *Store }

// OpenReader opens a directory for reading. The error is ErrLocked while a service has it open.
func OpenReader(dir string) (*Reader, error) {
	r := newStore(dir)
	r.readOnly = true
	if _, err := os.Stat(filepath.Join(dir, configFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store %s: is not the directory of a service: it has no %s", dir, configFile)
	}
	db, err := r.openDB(configFile, true)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	r.config = db
	return &Reader{r}, nil
}

// Load is [Store.Load].
func (r *Reader) Load() ([]controller.Saved, []controller.Request, []controller.Damage, error) {
	return r.store.Load()
}

// ReplayEvents is [Store.ReplayEvents].
func (r *Reader) ReplayEvents(only string, apply func(scheduler string, e workload.Event) error) (
	[]controller.Damage, error) {
	return r.store.ReplayEvents(only, apply)
}

// Audit is [Store.Audit].
func (r *Reader) Audit(from int64, newestFirst bool,
	visit func(place int64, line []byte, err error) bool) error {
	return r.store.Audit(from, newestFirst, visit)
}

// Rounds is [Store.Rounds].
func (r *Reader) Rounds(uid string, before int64, visit func(sequence int64, record []byte, err error) bool) error {
	return r.store.Rounds(uid, before, visit)
}

// EventsUntil is [Store.EventsUntil].
func (r *Reader) EventsUntil(scheduler, cursor string, apply func(workload.Event) error) (unread, err error) {
	return r.store.EventsUntil(scheduler, cursor, apply)
}

// Close releases the directory.
func (r *Reader) Close() error {
	r.store.closeOnce.Do(func() { close(r.store.closing) })
	for _, name := range auxFiles {
		r.store.closeAux(r.store.aux(name))
	}
	return r.store.config.Close()
}
