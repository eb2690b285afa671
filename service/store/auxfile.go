package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/autosched/autosched/internal/atomicfile"
)

// Records that may be large and that the service can do without are in auxiliary files beside config.db, in which
// each scheduler has a bucket by its uid: neither their size nor damage to them affects configurations. A file
// with damaged pages is set aside, and a new one begun.
const (
	roundsFile    = "rounds.db"
	reportsFile   = "reports.db"
	workloadsFile = "workloads.db"
	damagedSuffix = ".damaged" // of a file that is not read
	growth        = 256 << 10  // of config.db and of auxiliary files where their mapped part is larger, in bytes
)

// auxFiles are the names of these files.
var auxFiles = []string{roundsFile, reportsFile, workloadsFile}

// auxFile is one of these files.
type auxFile struct {
	name string
	mu   sync.Mutex // guards db
	db   *bolt.DB   // nil until it is used, and after a failed write
}

// aux returns the file of a name, nil for other names.
func (r *Store) aux(name string) *auxFile {
	for _, s := range []*auxFile{&r.rounds, &r.reports, &r.workloads} {
		if s.name == name {
			return s
		}
	}
	return nil
}

// withAux calls f with an open file, which it creates if necessary.
func (r *Store) withAux(s *auxFile, f func(db *bolt.DB) error) error {
	return r.lockAux(s, func() error { return r.openedAux(s, f) })
}

// viewAux calls f with a read transaction of a file, for which no commit waits.
func (r *Store) viewAux(s *auxFile, f func(*bolt.Tx) error) (err error) {
	var tx *bolt.Tx
	if err := r.withAux(s, func(db *bolt.DB) error { tx, err = db.Begin(false); return err }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	return guardPanics(s.name, func() error { return f(tx) })
}

// writeAux commits to a file if there is room beside the reserve. f may be called twice.
func (r *Store) writeAux(s *auxFile, f func(*bolt.Tx) error) error {
	return r.lockAux(s, func() error {
		return r.reserve.use(func() error {
			return r.openedAux(s, func(db *bolt.DB) error { return r.write(s.name, db, f) })
		})
	})
}

// lockAux calls f, which uses a file, and sets a damaged file aside.
func (r *Store) lockAux(s *auxFile, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.ended(); err != nil {
		return err
	}
	err := f()
	var damaged *CorruptError
	if errors.As(err, &damaged) && damaged.Bucket == "" && !r.readOnly {
		r.stuck.Delete(s.name)
		path := filepath.Join(r.dir, s.name)
		err = errors.Join(fmt.Errorf("%w; it is set aside as %s", err, s.name+damagedSuffix),
			os.Rename(path, path+damagedSuffix), atomicfile.SyncDir(r.dir))
	}
	return storageError(err)
}

// openedAux calls f with an open file, and closes it after a failed write. The caller must hold its mutex.
func (r *Store) openedAux(s *auxFile, f func(db *bolt.DB) error) error {
	err := r.openAux(s)
	if err == nil {
		err = guardPanics(s.name, func() error { return f(s.db) })
	}
	var damaged *CorruptError
	errno := syscall.Errno(0)
	if errors.As(err, &errno) || errors.As(err, &damaged) && damaged.Bucket == "" {
		r.closeAux(s)
	}
	return err
}

func (r *Store) openAux(s *auxFile) (err error) {
	if s.db != nil {
		return nil
	}
	if !r.readOnly {
		if err := r.ensure(s.name); err != nil {
			return err
		}
	}
	s.db, err = r.openDB(s.name, r.readOnly)
	return err
}

// closeAux closes a file. The caller must hold its mutex, or be its only user.
func (r *Store) closeAux(s *auxFile) {
	if s.db != nil {
		_ = r.closeDB(s.name, s.db)
		s.db = nil
	}
}

// purgeAux removes the records of the scheduler with a uid from a file. Records of a scheduler whose uid cannot be
// read stay.
func (r *Store) purgeAux(s *auxFile, uid string) error {
	if uid == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(r.dir, s.name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return r.withAux(s, func(db *bolt.DB) error {
		return r.write(s.name, db, func(tx *bolt.Tx) error {
			err := tx.DeleteBucket([]byte(uid))
			if errors.Is(err, bolterrors.ErrBucketNotFound) {
				return nil
			}
			return err
		})
	})
}

// checkAux returns the damage to the records of the scheduler with a uid in a file.
func (r *Store) checkAux(s *auxFile, uid string) error {
	var damage error
	err := r.viewAux(s, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(uid))
		if b == nil {
			return nil
		}
		return ascend(b, uid, func(k, record []byte) error {
			if _, err := openRecord(k, record); err != nil {
				damage = errors.Join(damage, s.corrupt(uid, k, err))
			}
			return nil
		})
	})
	return errors.Join(damage, err)
}

func (s *auxFile) corrupt(uid string, key []byte, err error) error {
	return &CorruptError{File: s.name, Bucket: uid, Key: fmt.Sprintf("%x", key), Why: err.Error()}
}
