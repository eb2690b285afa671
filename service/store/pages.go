package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/internal/atomicfile"
)

// bbolt checks the two meta pages of a file and nothing else: a bit that changes in the count of a page, the root of a
// bucket or the list of free pages takes records away, at once or at a later commit, and no record has a wrong sum.
// A check of a file's pages finds it: each page belongs to one place or is free, keys ascend, the data of a page follow
// each other without a gap, as bbolt writes them, and the records have their sums.

// The layout of pages: header and elements, then keys and values. All are in the byte order of the machine.
const (
	elementSize  = 16
	bucketHeader = 16 // root and sequence of a bucket, before its page where that is inside of the value
	branchPage   = 0x01
	leafPage     = 0x02
	freePage     = 0x10
	bucketFlag   = 0x01
	manyFree     = 0xffff // a count that is in the first element
)

var (
	errPages = errors.New("its pages are damaged")
	errFree  = errors.New("its list of free pages is damaged")
)

// pageCheck is a check of a file.
type pageCheck struct {
	in     io.ReaderAt
	size   uint64 // of a page
	end    uint64 // the first page after the last
	used   []bool
	record func(path []string, key, value []byte) error
	bucket func(path []string, sequence, keys uint64) error
}

// checkPages checks the pages of a file that nothing writes, and visits its records and buckets.
func checkPages(in io.ReaderAt, length int64, record func(path []string, key, value []byte) error,
	bucket func(path []string, sequence, keys uint64) error) error {
	p := pageCheck{in: in, record: record, bucket: bucket}
	meta, err := p.meta()
	if err != nil {
		return err
	}
	number := func(at int) uint64 { return binary.NativeEndian.Uint64(meta[at:]) }
	root, free := number(16), number(32)
	if p.end = number(40); p.size == 0 || p.end > uint64(length)/p.size {
		return fmt.Errorf("%w: %d pages of %d bytes, in %d bytes", errPages, p.end, p.size, length)
	}
	p.used = make([]bool, p.end)
	p.used[0], p.used[1] = true, true
	if err := p.walk(root, &level{}, nil, true); err != nil {
		return err
	}
	return p.free(free)
}

// meta reads the meta page in force. Both must be sound.
func (p *pageCheck) meta() (newest []byte, err error) {
	var size [4]byte
	if _, err := p.in.ReadAt(size[:], pageHeader+8); err != nil {
		return nil, err
	}
	p.size = uint64(binary.NativeEndian.Uint32(size[:]))
	metas, err, damage := readMetas(p.in, int64(p.size))
	if err != nil || damage != nil {
		return nil, cmp.Or(damage, err)
	}
	return slices.MaxFunc(metas[:], func(a, b []byte) int {
		return cmp.Compare(binary.NativeEndian.Uint64(a[metaCommit:]), binary.NativeEndian.Uint64(b[metaCommit:]))
	}), nil
}

// page reads a page with those that it flows over to.
func (p *pageCheck) page(id uint64) ([]byte, error) {
	if id < 2 || id >= p.end {
		return nil, fmt.Errorf("%w: page %d of %d", errPages, id, p.end)
	}
	b := make([]byte, p.size)
	if _, err := p.in.ReadAt(b, int64(id*p.size)); err != nil {
		return nil, err
	}
	more := uint64(binary.NativeEndian.Uint32(b[12:]))
	if more >= p.end-id || binary.NativeEndian.Uint64(b) != id {
		return nil, fmt.Errorf("%w: the header of page %d", errPages, id)
	}
	for i := id; i <= id+more; i++ {
		if p.used[i] {
			return nil, fmt.Errorf("%w: page %d is used twice", errPages, i)
		}
		p.used[i] = true
	}
	if more > 0 {
		b = make([]byte, (more+1)*p.size)
		if _, err := p.in.ReadAt(b, int64(id*p.size)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// level is a bucket that is being walked.
type level struct {
	path []string
	last []byte // key
	keys uint64
}

// next checks the order of a key, which must not be below the one by which its page is found.
func (l *level) next(key, floor []byte) bool {
	return bytes.Compare(key, floor) >= 0 && (l.last == nil || bytes.Compare(key, l.last) > 0)
}

// walk checks a page and those below it. top says that no other page of the bucket leads to it.
func (p *pageCheck) walk(id uint64, l *level, floor []byte, top bool) error {
	b, err := p.page(id)
	if err != nil {
		return err
	}
	wrong := func(why string) error { return fmt.Errorf("%w: %s of page %d", errPages, why, id) }
	switch count := binary.NativeEndian.Uint16(b[8+2:]); {
	case top && l.path == nil && isEmpty(b): // of a file that was just made
		return nil
	case count == 0:
		return wrong("no element")
	case binary.NativeEndian.Uint16(b[8:]) == leafPage:
		_, err := p.leaf(b, l, floor, wrong)
		return err
	case binary.NativeEndian.Uint16(b[8:]) == branchPage:
		_, err := elements(b, 0, wrong, func(at, key, _ []byte) error {
			if !l.next(key, floor) {
				return wrong("the order")
			}
			return p.walk(binary.NativeEndian.Uint64(at[8:]), l, key, false)
		})
		return err
	}
	return wrong("the kind")
}

// isEmpty reports whether a page is that of a file without records.
func isEmpty(b []byte) bool {
	return binary.NativeEndian.Uint16(b[8:]) == leafPage && len(bytes.Trim(b[pageHeader-6:], "\x00")) == 0
}

// elements visits the elements of a page and returns where its data end. valueSize is where an element has the size
// of its value, 0 of a page whose elements have none.
func elements(b []byte, valueSize int, wrong func(string) error,
	visit func(element, key, value []byte) error) (int, error) {
	count, position := int(binary.NativeEndian.Uint16(b[8+2:])), 0
	if valueSize > 0 {
		position = 4 // after the flags
	}
	data := pageHeader + count*elementSize
	if data > len(b) {
		return 0, wrong("the count")
	}
	for i := range count {
		start := pageHeader + i*elementSize
		at := b[start : start+elementSize]
		keySize, size := int(binary.NativeEndian.Uint32(at[position+4:])), 0
		if valueSize > 0 {
			size = int(binary.NativeEndian.Uint32(at[valueSize:]))
		}
		if start+int(binary.NativeEndian.Uint32(at[position:])) != data || keySize == 0 || keySize+size > len(b)-data {
			return 0, wrong("an element")
		}
		if err := visit(at, b[data:data+keySize], b[data+keySize:data+keySize+size]); err != nil {
			return 0, err
		}
		data += keySize + size
	}
	return data, nil
}

// leaf checks the records of a leaf page and returns where its data end.
func (p *pageCheck) leaf(b []byte, l *level, floor []byte, wrong func(string) error) (int, error) {
	return elements(b, 12, wrong, func(at, key, value []byte) error {
		if !l.next(key, floor) {
			return wrong("the order")
		}
		l.last = key
		l.keys++
		switch binary.NativeEndian.Uint32(at) {
		case 0:
			return p.record(l.path, key, value)
		case bucketFlag:
			return p.nested(append(slices.Clone(l.path), string(key)), value, wrong)
		}
		return wrong("an element")
	})
}

// nested checks a bucket in a bucket.
func (p *pageCheck) nested(path []string, value []byte, wrong func(string) error) error {
	if len(value) < bucketHeader {
		return wrong("a bucket")
	}
	l := level{path: path}
	root, sequence := binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
	page := value[bucketHeader:]
	switch {
	case root != 0:
		if len(page) > 0 {
			return wrong("a bucket")
		}
		if err := p.walk(root, &l, nil, true); err != nil {
			return err
		}
	case len(page) < pageHeader || binary.NativeEndian.Uint16(page[8:]) != leafPage:
		return wrong("a bucket")
	default:
		end, err := p.leaf(page, &l, nil, wrong)
		if err != nil {
			return err
		}
		if end != len(page) {
			return wrong("a bucket")
		}
	}
	return p.bucket(path, sequence, l.keys)
}

// free checks that each page that is not used is in the list of free ones.
func (p *pageCheck) free(id uint64) error {
	if id == ^uint64(0) { // the file has no list
		return nil
	}
	b, err := p.page(id)
	if err != nil {
		return fmt.Errorf("%w: %w", errFree, err)
	}
	count, ids := uint64(binary.NativeEndian.Uint16(b[8+2:])), b[pageHeader:]
	if count == manyFree {
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if binary.NativeEndian.Uint16(b[8:]) != freePage || count > uint64(len(ids)/8) {
		return fmt.Errorf("%w: page %d", errFree, id)
	}
	for i := range count {
		one := binary.NativeEndian.Uint64(ids[8*i:])
		if one >= p.end || p.used[one] {
			return fmt.Errorf("%w: page %d is free and used", errFree, one)
		}
		p.used[one] = true
	}
	if lost := slices.Index(p.used, false); lost >= 0 {
		return fmt.Errorf("%w: page %d is neither used nor free", errFree, lost)
	}
	return nil
}

// isRecords reports whether a file of a directory has records that this package writes.
func isRecords(name string) bool {
	return name == configFile || dayOf(name) != "" || auditDay(name) != "" || slices.Contains(auxFiles, name)
}

// checkFile checks the pages of a file that is not written, and with sums its records.
func (r *Store) checkFile(name string, sums bool) error {
	f, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 { // its creation was interrupted
		return err
	}
	damaged := func(path []string, key []byte, why string) error {
		return &CorruptError{File: name, Bucket: strings.Join(path, "/"), Key: recordName(key), Why: why}
	}
	names := map[string]map[string]bool{}
	err = checkPages(f, info.Size(), func(path []string, key, value []byte) error {
		mark := bytes.Equal(key, replicaKey) || bytes.Equal(key, movedKey)
		if !sums || mark && len(path) == 1 && path[0] == metaBucket { // a mark has no sum
			return nil
		}
		if _, _, err := openVersioned(key, value); err != nil {
			return damaged(path, key, err.Error())
		}
		return nil
	}, func(path []string, sequence, keys uint64) error {
		if dayOf(name) != "" && path[0] != metaBucket && sequence != keys {
			return damaged(path, nil, fmt.Sprintf("it has %d of %d events", keys, sequence))
		}
		if len(path) == 2 {
			if names[path[0]] == nil {
				names[path[0]] = map[string]bool{}
			}
			names[path[0]][path[1]] = true
		}
		return nil
	})
	for of, copied := range names {
		of, is := strings.CutSuffix(of, copies)
		if is && sums && err == nil && !maps.Equal(names[of], copied) {
			err = damaged([]string{of}, nil, "its buckets are not those of its copies")
		}
	}
	var found *CorruptError
	errno := syscall.Errno(0)
	if err != nil && !errors.As(err, &found) && !errors.As(err, &errno) {
		err = &CorruptError{File: name, Why: err.Error(), free: errors.Is(err, errFree)}
	}
	return err
}

// ofFree reports whether an error of checkFile is of the list of free pages alone.
func ofFree(err error) bool {
	var found *CorruptError
	return errors.As(err, &found) && found.free
}

// prepare checks the pages of a file that is about to be written. It writes a file anew whose list of free pages is
// damaged, as a commit would write over records. A segment with another damage must not be written.
func (r *Store) prepare(name string) error {
	err := r.checkFile(name, false)
	if !ofFree(err) {
		if dayOf(name) == "" || errors.Is(err, os.ErrNotExist) {
			err = nil // records of other files are checked when they are read
		}
		return err
	}
	db, err := r.openDB(name, true)
	if err != nil {
		return err
	}
	defer db.Close()
	why := r.checkFile(name, false) // while no other process writes
	if !ofFree(why) {
		return nil
	}
	path := filepath.Join(r.dir, name)
	to, err := newCopy(path + compactSuffix)
	if err != nil {
		return err
	}
	err = guardPanics(name, func() error { return copyRecords(to, db, func() error { return nil }) })
	if err == nil { // an empty commit, so that both meta pages know the content
		err = to.Update(func(*bolt.Tx) error { return nil })
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = os.Rename(path+compactSuffix, path)
	}
	if err != nil {
		return errors.Join(storageError(err), remove(path+compactSuffix))
	}
	r.log.Warn("a file is written anew from its records", "file", name, "err", why)
	return storageError(atomicfile.SyncDir(r.dir))
}

// checkFiles checks all files of a replica before anything is written to them.
func (r *Store) checkFiles() error {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if err == nil && isRecords(e.Name()) {
			err = r.checkFile(e.Name(), true)
		}
	}
	return err
}
