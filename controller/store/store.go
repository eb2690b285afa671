// Package store keeps what a controller must not lose, in one directory
// of bbolt files: config.db holds schedulers, configurations and
// acknowledgements; events-YYYYMMDD.db holds the events taken in on that day
// (UTC, wall clock), so that old ones are dropped by removing a file. Every
// record carries a CRC32C, and a configuration also its content hash. A call
// that returned without an error is on disk.
//
// The freelist stays synced: without it a large segment takes minutes to open
// after a cold start.
package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// The errors that callers tell apart, besides ErrCorrupt.
var (
	ErrClosed = errors.New("the store is closed")
	ErrLocked = errors.New("the directory is in use by another process")
	ErrFull   = errors.New("the disk is full")
	ErrNewer  = errors.New("the directory was written by a newer version of autosched")
)

// schemaVersion is of the files' layout; records have their own.
const schemaVersion = 1

const (
	configFile  = "config.db"
	metaBucket  = "_meta"
	lockTimeout = time.Second
)

var schemaKey = []byte("schema")

// Options of a store. The zero value is right for a service.
type Options struct {
	// Now is the clock that names event segments; time.Now if nil.
	Now func() time.Time
}

// Store is an open directory. It is safe for concurrent use.
type Store struct {
	dir    string
	now    func() time.Time
	config *bolt.DB

	appends    chan *appendCall
	replays    chan replayCall
	closing    chan struct{}
	writerDone chan struct{}
	closeOnce  sync.Once
	closeErr   error
}

// Open opens a directory, creating it if there is none, and locks it against
// other processes.
func Open(dir string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	r := &Store{dir: dir, now: o.Now, appends: make(chan *appendCall), replays: make(chan replayCall),
		closing: make(chan struct{}), writerDone: make(chan struct{})}
	db, err := r.openDB(configFile, false)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	r.config = db
	go r.writeEvents()
	return r, nil
}

// Close waits for the commit under way and releases the directory.
func (r *Store) Close() error {
	r.closeOnce.Do(func() {
		close(r.closing)
		<-r.writerDone
		r.closeErr = r.config.Close()
	})
	return r.closeErr
}

// openDB opens one file and checks its schema version.
func (r *Store) openDB(name string, readOnly bool) (*bolt.DB, error) {
	path := filepath.Join(r.dir, name)
	_, statErr := os.Stat(path)
	var db *bolt.DB
	err := guardPanics(name, func() (err error) {
		db, err = bolt.Open(path, 0o600,
			&bolt.Options{Timeout: lockTimeout, ReadOnly: readOnly, FreelistType: bolt.FreelistMapType})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &CorruptError{File: name, Why: err.Error()}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, storageError(err))
	}
	check := db.Update
	if readOnly {
		check = db.View
	}
	if err := guardPanics(name, func() error { return check(checkSchema) }); err != nil {
		_ = db.Close()
		return nil, storageError(err)
	}
	if errors.Is(statErr, os.ErrNotExist) {
		if err := syncDir(r.dir); err != nil {
			_ = db.Close()
			return nil, storageError(err)
		}
	}
	return db, nil
}

// checkSchema refuses a newer layout and marks a new file with this one.
func checkSchema(tx *bolt.Tx) error {
	b := tx.Bucket([]byte(metaBucket))
	if b == nil {
		if !tx.Writable() {
			return nil // created, but nothing was committed to it
		}
		var err error
		if b, err = tx.CreateBucket([]byte(metaBucket)); err != nil {
			return err
		}
		return b.Put(schemaKey, appendRecord(nil, schemaKey, func(dst []byte) []byte {
			return binary.AppendUvarint(dst, schemaVersion)
		}))
	}
	payload, err := openRecord(schemaKey, b.Get(schemaKey))
	if err != nil {
		return &CorruptError{File: filepath.Base(tx.DB().Path()), Bucket: metaBucket, Key: string(schemaKey),
			Why: err.Error()}
	}
	if v, n := binary.Uvarint(payload); n <= 0 || v > schemaVersion {
		return fmt.Errorf("%w: layout %d, this one knows up to %d", ErrNewer, v, schemaVersion)
	}
	return nil
}

// syncDir makes a new file's name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// guardPanics turns bbolt's panics on damaged pages into a named error.
func guardPanics(file string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &CorruptError{File: file, Why: fmt.Sprint(p)}
		}
	}()
	return f()
}
