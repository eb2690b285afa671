package store

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
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

// metaSum is the checksum that a meta page must have.
func metaSum(meta []byte) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write(meta[:metaSize])
	return sum.Sum64()
}

// readMetas reads the meta pages of a file, as far as they are sound. The second error is the damage to one.
func readMetas(in io.ReaderAt, pageSize int64) (metas [2][]byte, err, damage error) {
	for page := range metas {
		b := make([]byte, metaSize+8)
		if _, err := in.ReadAt(b, int64(page)*pageSize+pageHeader); err != nil {
			return metas, err, nil
		}
		if binary.NativeEndian.Uint64(b[metaSize:]) != metaSum(b) || page == 1 && metas[0] != nil &&
			binary.NativeEndian.Uint64(b[metaCommit:]) == binary.NativeEndian.Uint64(metas[0][metaCommit:]) {
			damage = fmt.Errorf("meta page %d is damaged: the last commit may be missing", page)
			continue
		}
		metas[page] = b
	}
	return metas, nil, damage
}

// checkMetas registers a file that was just opened in metaErrs if one of its meta pages is damaged.
func (r *Store) checkMetas(name string, db *bolt.DB) error {
	f, err := os.Open(db.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	_, err, damage := readMetas(f, int64(db.Info().PageSize))
	if damage != nil {
		r.metaErrs.Store(name, &CorruptError{File: name, Why: damage.Error()})
	}
	return err
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
		binary.NativeEndian.PutUint64(before[metaSize:], metaSum(before[:]))
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
