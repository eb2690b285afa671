package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/internal/atomicfile"
)

// The audit log is in config.db since its last anchor, and before that in files by day, audit-YYYYMMDD.db, which are
// never changed. A record's key is its place in the log, which counts all records.
const (
	auditBucket = "audit"
	headsBucket = "audit_heads" // the heads of chains by resource, and that of the anchors by anchorsKey
	auditPrefix = "audit-"
	auditReader = 4 // the reader version of chains by resource
)

var anchorsKey = []byte("anchors")

// putAudit appends a record to the chain of its resource. A record after a damaged head breaks the chain, which Verify
// finds: a damaged log must not block changes.
func putAudit(tx *bolt.Tx, r *audit.Record) error {
	one := *r
	one.Chain = one.Resource
	_, err := appendAudit(tx, one)
	return err
}

// appendAudit appends a record to its chain, and returns its place.
func appendAudit(tx *bolt.Tx, one audit.Record) (place uint64, err error) {
	if err := raiseReader(tx, auditReader); err != nil {
		return 0, err
	}
	b, err := bucket(tx, auditBucket)
	if err != nil {
		return 0, err
	}
	heads := tx.Bucket([]byte(headsBucket))
	if heads == nil {
		if heads, err = tx.CreateBucket([]byte(headsBucket)); err == nil {
			err = beginChains(b, heads)
		}
		if err != nil {
			return 0, err
		}
	}
	chain := []byte(one.Chain)
	if len(chain) == 0 {
		chain = anchorsKey
	}
	var head audit.Head
	if record := heads.Get(chain); record != nil && getJSON(chain, record, &head) != nil {
		head = audit.Head{Hash: "damaged"}
	}
	line, head, err := audit.Append(head, one)
	if err == nil {
		place, err = b.NextSequence()
	}
	if err != nil {
		return 0, err
	}
	key := revisionKey(int64(place))
	b.FillPercent = ascending
	err = b.Put(key, appendRecord(nil, key, func(dst []byte) []byte { return append(dst, line...) }))
	return place, errors.Join(err, putPlain(heads, chain, head))
}

// beginChains makes the chain of an older version, which all resources share, that of the anchors.
func beginChains(b, heads *bolt.Bucket) error {
	key, record := b.Cursor().Last()
	if len(key) != 8 {
		return nil
	}
	head := audit.Head{Hash: "damaged"}
	if line, err := openRecord(key, record); err == nil {
		if _, one, err := audit.Parse(line); err == nil {
			head = one
		}
	}
	head.Sequence = int64(binary.BigEndian.Uint64(key))
	return errors.Join(b.SetSequence(uint64(head.Sequence)), putPlain(heads, anchorsKey, head))
}

// anchor appends an anchor of all chains. Chains that ended begin anew after it.
func (r *Store) anchor() (place uint64, err error) {
	err = r.change(func(tx *bolt.Tx) error {
		if key, record := tx.Bucket([]byte(auditBucket)).Cursor().Last(); len(key) == 8 {
			line, err := openRecord(key, record)
			if r, _, parsed := audit.Parse(line); err == nil && parsed == nil && r.Verb == audit.Anchor && r.Chain == "" {
				place = binary.BigEndian.Uint64(key) // of an archive that failed
				return nil
			}
		}
		heads := map[string]audit.Head{}
		b := tx.Bucket([]byte(headsBucket))
		if b != nil {
			err := ascend(b, headsBucket, func(chain, record []byte) error {
				var head audit.Head
				if getJSON(chain, record, &head) != nil {
					head.Hash = "damaged"
				}
				if string(chain) != string(anchorsKey) {
					heads[string(chain)] = head
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if place, err = appendAudit(tx, audit.NewAnchor(r.now().UTC(), heads)); err != nil {
			return err
		}
		for chain, head := range heads {
			if head.Ended {
				if err := tx.Bucket([]byte(headsBucket)).Delete([]byte(chain)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return place, err
}

// ArchiveAudit implements controller.Store.
func (r *Store) ArchiveAudit(_ context.Context, keep time.Time) error {
	names, err := auditFiles(r.dir)
	if err != nil {
		return err
	}
	dropped := false
	for _, name := range names {
		if !keep.IsZero() && auditDay(name) < keep.UTC().Format(dayLayout) {
			dropped = true
			err = errors.Join(err, remove(filepath.Join(r.dir, name)))
		}
	}
	if dropped {
		err = errors.Join(err, atomicfile.SyncDir(r.dir))
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	old := false
	today := r.now().UTC().Format(dayLayout)
	err = r.viewConfig(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(auditBucket)); b != nil {
			c := b.Cursor()
			if key, record := c.First(); key != nil {
				line, _ := openRecord(key, record)
				first, _, _ := audit.Parse(line) // a damaged one is old
				next, _ := c.Next()
				old = next != nil && first.Time.UTC().Format(dayLayout) < today
			}
		}
		return nil
	})
	if err != nil || !old {
		return err
	}
	place, err := r.anchor()
	if err != nil {
		return err
	}
	r.reached("anchored")
	if err := r.reserve.use(func() error { return r.archive(names, today, place) }); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return r.trimAudit(revisionKey(int64(place)))
}

// trimAudit removes the records before a key, which a file has, in several commits.
func (r *Store) trimAudit(end []byte) error {
	for n := maxCommit; n == maxCommit; {
		err := r.change(func(tx *bolt.Tx) error {
			n = 0
			return dropFirst(tx.Bucket([]byte(auditBucket)), func(key []byte) bool {
				old := n < maxCommit && bytes.Compare(key, end) < 0
				if old {
					n++
				}
				return old
			})
		})
		if err != nil {
			return err
		}
		r.reached("trimmed")
	}
	return nil
}

// archive copies the records before a place that no file has into a file of a day, or of a later one that has none.
func (r *Store) archive(names []string, day string, place uint64) error {
	next := uint64(1)
	if len(names) > 0 {
		last := names[len(names)-1]
		_ = r.viewAudit(last, func(b *bolt.Bucket) error { // of a damaged file, all are copied
			if key, _ := b.Cursor().Last(); len(key) == 8 {
				next = binary.BigEndian.Uint64(key) + 1
			}
			return nil
		})
		if at, err := time.Parse(dayLayout, auditDay(last)); err == nil {
			day = max(day, at.AddDate(0, 0, 1).Format(dayLayout))
		}
	}
	if next >= place {
		return nil
	}
	return r.makeFile(auditPrefix+day+segmentSuffix, func(made string, db *bolt.DB) error {
		return r.viewConfig(func(tx *bolt.Tx) error {
			c := tx.Bucket([]byte(auditBucket)).Cursor()
			key, record := c.Seek(revisionKey(int64(next)))
			for key != nil && bytes.Compare(key, revisionKey(int64(place))) < 0 {
				err := r.write(made, db, func(to *bolt.Tx) error {
					b, err := bucket(to, auditBucket)
					if err != nil {
						return err
					}
					b.FillPercent = ascending
					for n := 0; key != nil && n < maxCommit; n++ {
						if bytes.Compare(key, revisionKey(int64(place))) < 0 {
							err = errors.Join(err, b.Put(key, record))
						}
						key, record = c.Next()
					}
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// auditFiles returns the files of the audit log in a directory, the oldest first.
func auditFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if auditDay(e.Name()) != "" && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// auditDay returns the day of a file of the audit log, YYYYMMDD, "" for other names.
func auditDay(name string) string {
	day, ok := strings.CutPrefix(name, auditPrefix)
	day, suffix := strings.CutSuffix(day, segmentSuffix)
	if _, err := time.Parse(dayLayout, day); err != nil || !ok || !suffix {
		return ""
	}
	return day
}

// viewAudit reads a file of the audit log.
func (r *Store) viewAudit(name string, f func(b *bolt.Bucket) error) error {
	db, err := r.openDB(name, true)
	if err != nil {
		return err
	}
	defer db.Close()
	return guardPanics(name, func() error {
		return db.View(func(tx *bolt.Tx) error {
			if b := tx.Bucket([]byte(auditBucket)); b != nil {
				return f(b)
			}
			return &CorruptError{File: name, Bucket: auditBucket, Why: "it is missing"}
		})
	})
}

// Audit implements [controller.Store].
func (r *Store) Audit(from int64, newestFirst bool, visit func(place int64, line []byte, err error) bool) error {
	step := int64(1)
	if newestFirst {
		step = -1
		if from == 0 {
			from = math.MaxInt64
		}
	}
	more := true
	var damage, unread error // of all files, and of the ones since the last record
	emit := func(place int64, line []byte, err error) {
		from = place + step
		more = visit(place, line, err)
	}
	read := func(file string, b *bolt.Bucket) error {
		c := b.Cursor()
		key, record := c.Seek(revisionKey(from))
		move := c.Next
		if newestFirst {
			if move = c.Prev; key == nil {
				key, record = c.Last()
			} else if !bytes.Equal(key, revisionKey(from)) {
				key, record = c.Prev()
			}
		}
		for ; key != nil && more; key, record = move() {
			place := int64(binary.BigEndian.Uint64(key))
			if unread != nil && place != from { // the last place of the gap, after which a reader goes on
				emit(place-step, nil, unread)
			}
			if unread = nil; !more {
				break
			}
			line, err := openRecord(key, record)
			if err != nil {
				line, err = nil, &CorruptError{File: file, Bucket: auditBucket, Key: recordName(key), Why: err.Error()}
			}
			emit(place, line, err)
		}
		return nil
	}
	err := r.viewConfig(func(tx *bolt.Tx) error { // a state before the files: what was moved since is in both
		names, err := auditFiles(r.dir)
		if err != nil {
			return err
		}
		names = append(names, configFile)
		if newestFirst {
			slices.Reverse(names)
		}
		for _, name := range names {
			if !more {
				break
			}
			if name != configFile {
				err = r.viewAudit(name, func(b *bolt.Bucket) error { return read(name, b) })
			} else if b := tx.Bucket([]byte(auditBucket)); b != nil {
				err = read(name, b)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) { // dropped meanwhile
				damage, unread = errors.Join(damage, err), errors.Join(unread, err)
			}
		}
		return nil
	})
	if newestFirst && more && unread != nil && from >= 1 {
		emit(1, nil, unread)
	}
	return errors.Join(err, damage)
}

// viewConfig reads config.db; again where a compaction replaced it meanwhile.
func (r *Store) viewConfig(f func(tx *bolt.Tx) error) error {
	for {
		r.configMu.Lock()
		db := r.config
		r.configMu.Unlock()
		if db == nil {
			return fmt.Errorf("store: %s cannot be opened", configFile)
		}
		err := guardPanics(configFile, func() error { return db.View(f) })
		if !errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			return err
		}
		if err := r.ended(); err != nil {
			return err
		}
	}
}

// recordName is the sequence number of a key, in decimal if it is one.
func recordName(key []byte) string {
	if len(key) != 8 {
		return fmt.Sprintf("%x", key)
	}
	return fmt.Sprint(binary.BigEndian.Uint64(key))
}

// VerifyAudit checks the chain of the audit log in the directory of a service, and returns its
// head. The log must hold the hash want unless that is empty.
func VerifyAudit(dir, want string) (*audit.Head, error) {
	r, err := OpenReader(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := audit.NewChecker(want)
	var broken error
	err = r.Audit(0, false, func(_ int64, line []byte, err error) bool {
		if broken = err; err == nil {
			broken = c.Add(line)
		}
		return broken == nil
	})
	head, end := c.End()
	return &head, cmp.Or(broken, err, end)
}
