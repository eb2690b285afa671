package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/internal/atomicfile"
)

// compactTx is the size of a transaction that copies, in bytes.
const compactTx = 1 << 20

// Compact rewrites config.db and the files of rounds, reports and workloads of a stopped service without their free
// pages, and returns their sizes in bytes. A copy takes the place of its file once it is on disk; records and the epoch
// stay as they are. The error is ErrLocked while a service has the directory open.
func Compact(dir string) (before, after int64, err error) {
	if _, err := os.Stat(filepath.Join(dir, configFile)); err != nil {
		return 0, 0, fmt.Errorf("store %s: is not the directory of a service: %w", dir, err)
	}
	r, err := Open(dir, Options{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, name := range append(slices.Clone(auxFiles), configFile) { // the lock is that of config.db
		was, is, err := r.compact(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return before, after, fmt.Errorf("store %s: %s: %w", dir, name, err)
		}
		before, after = before+was, after+is
	}
	return before, after, nil
}

// compact rewrites a file, which no other goroutine uses, and returns its sizes.
func (r *Store) compact(name string) (before, after int64, err error) {
	path := filepath.Join(r.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	from := r.config
	if name != configFile {
		if from, err = r.openDB(name, false); err != nil {
			return 0, 0, err
		}
		defer from.Close()
	}
	made := path + compactSuffix
	if err := remove(made); err != nil {
		return 0, 0, err
	}
	to, err := bolt.Open(made, 0o600, &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return 0, 0, storageError(err)
	}
	err = guardPanics(name, func() error { return bolt.Compact(to, from, compactTx) })
	if err == nil && name == configFile { // or the next start would take it for a copy
		r.epoch.File = fileIdentity(made)
		err = to.Update(func(tx *bolt.Tx) error { return putJSON(tx, epochKey, r.epoch, metaBucket) })
	}
	if err == nil { // an empty commit, so that both meta pages know the content
		err = to.Update(func(*bolt.Tx) error { return nil })
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return 0, 0, errors.Join(storageError(err), remove(made))
	}
	written, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	return info.Size(), written.Size(), storageError(atomicfile.SyncDir(r.dir))
}
