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
)

// What may be large and can be done without has files of its own, in which each scheduler has a bucket by
// its uid: neither their size nor damage to them concerns configurations. A file whose pages are damaged is
// set aside, and a new one begun.
const (
	roundsFile    = "rounds.db"
	reportsFile   = "reports.db"
	workloadsFile = "workloads.db"
	damagedSuffix = ".damaged" // of a file that is not read
)

// asideFiles are the names of these files.
var asideFiles = []string{roundsFile, reportsFile, workloadsFile}

// asideFile is one of these files.
type asideFile struct {
	name string
	mu   sync.Mutex // guards db
	db   *bolt.DB   // nil until it is used, and after a failed write
}

// aside returns the file of a name, nil for others.
func (r *Store) aside(name string) *asideFile {
	for _, s := range []*asideFile{&r.rounds, &r.reports, &r.workloads} {
		if s.name == name {
			return s
		}
	}
	return nil
}

// with calls f with a file, which it opens, and makes, if need be.
func (r *Store) with(s *asideFile, f func(db *bolt.DB) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.closing:
		return ErrClosed
	default:
	}
	err := r.openAside(s)
	if err == nil {
		err = guardPanics(s.name, func() error { return f(s.db) })
	}
	var damaged *CorruptError
	errno := syscall.Errno(0)
	if errors.As(err, &errno) || errors.As(err, &damaged) && damaged.Bucket == "" {
		r.closeAside(s)
	}
	if errors.As(err, &damaged) && damaged.Bucket == "" && !r.readOnly {
		r.stuck.Delete(s.name)
		path := filepath.Join(r.dir, s.name)
		err = errors.Join(fmt.Errorf("%w; it is set aside as %s", err, s.name+damagedSuffix),
			os.Rename(path, path+damagedSuffix), syncDir(r.dir))
	}
	return storageError(err)
}

func (r *Store) openAside(s *asideFile) (err error) {
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

// closeAside closes a file. Its mutex is held, or nothing else uses it.
func (r *Store) closeAside(s *asideFile) {
	if s.db != nil {
		_ = r.closeDB(s.name, s.db)
		s.db = nil
	}
}

// purgeAside removes what a file has of the scheduler with a uid. What belongs to a scheduler whose uid
// cannot be read stays.
func (r *Store) purgeAside(s *asideFile, uid string) error {
	if uid == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(r.dir, s.name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return r.with(s, func(db *bolt.DB) error {
		return r.write(s.name, db, func(tx *bolt.Tx) error {
			err := tx.DeleteBucket([]byte(uid))
			if errors.Is(err, bolterrors.ErrBucketNotFound) {
				return nil
			}
			return err
		})
	})
}

// checkAside returns what is damaged of the records that a file has of the scheduler with a uid.
func (r *Store) checkAside(s *asideFile, uid string) error {
	var damage error
	err := r.with(s, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
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
	})
	return errors.Join(damage, err)
}

func (s *asideFile) corrupt(uid string, key []byte, err error) error {
	return &CorruptError{File: s.name, Bucket: uid, Key: fmt.Sprintf("%x", key), Why: err.Error()}
}
