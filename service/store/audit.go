package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/autosched/autosched/controller/audit"
)

// putAudit appends a record to the audit log. A record after a damaged one breaks the chain, which Verify finds: a
// damaged log must not block changes.
func putAudit(tx *bolt.Tx, r *audit.Record) error {
	b, err := bucket(tx, auditBucket)
	if err != nil {
		return err
	}
	var head audit.Head
	if key, record := b.Cursor().Last(); len(key) == 8 {
		line, err := openRecord(key, record)
		if err == nil {
			_, head, err = audit.Parse(line)
		}
		if err != nil {
			head.Hash = "damaged"
		}
		head.Sequence = int64(binary.BigEndian.Uint64(key))
	}
	line, head, err := audit.Append(head, *r)
	if err != nil {
		return err
	}
	key := revisionKey(head.Sequence)
	b.FillPercent = ascending
	return b.Put(key, appendRecord(nil, key, func(dst []byte) []byte { return append(dst, line...) }))
}

// Audit calls visit with the lines of the audit log until it returns false: in order from a record, or with
// newestFirst backwards from a record, 0 for the last. A damaged record ends it with a CorruptError.
func (r *Store) Audit(from int64, newestFirst bool, visit func(line []byte) bool) error {
	return r.viewConfig(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(auditBucket))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		key, record := c.Seek(revisionKey(from))
		move := c.Next
		if newestFirst {
			if move = c.Prev; key == nil || from == 0 {
				key, record = c.Last()
			} else if !bytes.Equal(key, revisionKey(from)) {
				key, record = c.Prev()
			}
		}
		for ; key != nil; key, record = move() {
			line, err := openRecord(key, record)
			if err != nil {
				return corrupt(auditBucket, recordName(key), err)
			}
			if !visit(line) {
				return nil
			}
		}
		return nil
	})
}

// viewConfig reads config.db.
func (r *Store) viewConfig(f func(tx *bolt.Tx) error) error {
	r.configMu.Lock()
	db := r.config
	r.configMu.Unlock()
	if db == nil {
		return fmt.Errorf("store: %s cannot be opened", configFile)
	}
	err := guardPanics(configFile, func() error { return db.View(f) })
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
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
	err = r.Audit(0, false, func(line []byte) bool {
		broken = c.Add(line)
		return broken == nil
	})
	head, end := c.End()
	return &head, cmp.Or(broken, err, end)
}
