package store

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"

	bolt "go.etcd.io/bbolt"
)

// A bbolt file begins with two meta pages, which commits write in turn; the newer one with a valid checksum is in
// force. If the page of the last commit is damaged, the file is in the state before it, and bbolt does not report
// that.

// The layout of a meta page: a header, the fields that the checksum (FNV-1a) covers, with the number of the commit
// last, and the checksum. The two pages must be of different commits.
const (
	pageHeader = 16
	metaCommit = 48
	metaSize   = 56
)

// checkMetas registers a file that was just opened in metaErrs if one of its meta pages is damaged.
func (r *Store) checkMetas(name string, db *bolt.DB) error {
	f, err := os.Open(db.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	var commits [2]uint64
	for page := range commits {
		b := make([]byte, metaSize+8)
		if _, err := f.ReadAt(b, int64(page)*int64(db.Info().PageSize)+pageHeader); err != nil {
			return err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(b[:metaSize])
		commits[page] = binary.NativeEndian.Uint64(b[metaCommit:])
		if binary.NativeEndian.Uint64(b[metaSize:]) != sum.Sum64() || page == 1 && commits[0] == commits[1] {
			r.metaErrs.Store(name, &CorruptError{File: name,
				Why: fmt.Sprintf("meta page %d is damaged: the last commit may be missing", page)})
		}
	}
	return nil
}

// orderMetas swaps the meta pages of a copy if they are in each other's place.
func orderMetas(f *os.File, pageSize int) error {
	var b [2][metaSize + 8]byte
	at := [2]int64{pageHeader, int64(pageSize) + pageHeader}
	for page := range b {
		if _, err := f.ReadAt(b[page][:], at[page]); err != nil {
			return err
		}
	}
	if binary.NativeEndian.Uint64(b[0][metaCommit:])%2 == 0 {
		return nil
	}
	for page := range b {
		if _, err := f.WriteAt(b[1-page][:], at[page]); err != nil {
			return err
		}
	}
	return nil
}

// undoCommit removes a failed commit from a file, which must not be open: its meta page, which may have been
// written, becomes a copy of the page before it.
func undoCommit(path string, commit uint64, pageSize int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return storageError(err)
	}
	defer f.Close()
	var b [2][metaSize + 8]byte
	for page := range b {
		if _, err := f.ReadAt(b[page][:], int64(page)*pageSize+pageHeader); err != nil {
			return storageError(err)
		}
	}
	for page := range b {
		if binary.NativeEndian.Uint64(b[page][metaCommit:]) != commit {
			continue
		}
		before := b[1-page]
		binary.NativeEndian.PutUint64(before[metaCommit:], commit)
		sum := fnv.New64a()
		_, _ = sum.Write(before[:metaSize])
		binary.NativeEndian.PutUint64(before[metaSize:], sum.Sum64())
		if _, err := f.WriteAt(before[:], int64(page)*pageSize+pageHeader); err != nil {
			return storageError(err)
		}
		return storageError(f.Sync())
	}
	return nil
}

// metaDamage returns the error of checkMetas, nil for a sound file.
func (r *Store) metaDamage(name string) error {
	if err, ok := r.metaErrs.Load(name); ok {
		return err.(error)
	}
	return nil
}
