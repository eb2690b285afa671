package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/workload"
)

// KeepRound stores the record of a round of the scheduler with a uid, replaces one with the same sequence, and drops
// all but the newest keep.
func (r *Store) KeepRound(uid string, sequence int64, record []byte, keep int) error {
	return r.writeAux(&r.rounds, func(tx *bolt.Tx) error {
		b, err := bucket(tx, uid)
		if err != nil {
			return err
		}
		b.FillPercent = ascending
		key := revisionKey(sequence)
		put := appendRecord(nil, key, func(dst []byte) []byte { return append(dst, record...) })
		if err := b.Put(key, put); err != nil {
			return err
		}
		oldest := revisionKey(max(0, sequence-int64(keep)+1))
		return dropFirst(b, func(key []byte) bool { return bytes.Compare(key, oldest) < 0 })
	})
}

// dropFirst deletes the first records of a bucket, as long as old says so of their keys, which it is asked once. They
// are found before any is deleted: a cursor passes the pages that are emptied again each time.
func dropFirst(b *bolt.Bucket, old func(key []byte) bool) error {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.First(); k != nil && old(k); k, _ = c.Next() {
		if n := len(keys); n > 0 && bytes.Compare(k, keys[n-1]) <= 0 {
			break // damaged pages
		}
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// Rounds calls visit with the records of the scheduler with a uid before a sequence, 0 for all, newest first, until
// it returns false. A damaged record comes with an error.
func (r *Store) Rounds(uid string, before int64, visit func(sequence int64, record []byte, err error) bool) error {
	for {
		key, value, err := r.roundBefore(uid, before)
		if r.readOnly && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || key == nil {
			return err
		}
		sequence := int64(binary.BigEndian.Uint64(key))
		record, err := openRecord(key, value)
		if err != nil {
			err = &CorruptError{File: roundsFile, Bucket: uid, Key: fmt.Sprint(sequence), Why: err.Error()}
		}
		if !visit(sequence, record, err) || sequence <= 1 {
			return nil
		}
		before = sequence
	}
}

// roundBefore copies the newest record before a sequence, 0 for all, so that no caller holds the file.
func (r *Store) roundBefore(uid string, before int64) (key, value []byte, err error) {
	err = r.withAux(&r.rounds, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(uid))
			if b == nil {
				return nil
			}
			c := b.Cursor()
			k, v := c.Last()
			if before > 0 {
				if from, _ := c.Seek(revisionKey(before)); from != nil {
					k, v = c.Prev()
				}
			}
			for k != nil && len(k) != 8 {
				k, v = c.Prev()
			}
			key, value = bytes.Clone(k), bytes.Clone(v)
			return nil
		})
	})
	return key, value, err
}

// A cursor is a place in the events of a scheduler: a segment and the number of an event in it.

func cursorOf(segment string, sequence uint64) string { return fmt.Sprintf("%s/%d", segment, sequence) }

func parseCursor(text string) (segment string, sequence uint64, err error) {
	segment, number, ok := strings.Cut(text, "/")
	if sequence, err = strconv.ParseUint(number, 10, 64); err != nil || !ok {
		return "", 0, fmt.Errorf("store: %q is not a cursor", text)
	}
	return segment, sequence, nil
}

// Cursor returns the place of the last event of a scheduler, "" if there is none. It may miss events that are
// appended meanwhile.
func (r *Store) Cursor(scheduler string) (string, error) {
	if at, ok := r.cursors.Load(scheduler); ok {
		return at.(string), nil
	}
	r.dropMu.RLock()
	defer r.dropMu.RUnlock()
	names, err := segmentNames(r.dir)
	if err != nil {
		return "", err
	}
	for i := len(names) - 1; i >= 0; i-- {
		last := uint64(0)
		err := r.view(names[i], func(tx *bolt.Tx) error {
			if b := tx.Bucket([]byte(scheduler)); b != nil {
				last = b.Sequence()
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return "", err
		}
		if last > 0 {
			at := cursorOf(names[i], last)
			r.cursors.Store(scheduler, at)
			return at, nil
		}
	}
	return "", nil
}

// EventsUntil calls apply with the stored events of a scheduler up to a cursor, as ReplayEvents does. It skips
// damaged events and returns the error of the first as unread. The error is ErrDropped if a checkpoint replaced the
// file of the cursor.
func (r *Store) EventsUntil(scheduler, cursor string, apply func(workload.Event) error) (unread, err error) {
	last, sequence, err := parseCursor(cursor)
	if err != nil {
		return nil, err
	}
	r.dropMu.RLock()
	defer r.dropMu.RUnlock()
	names, err := segmentNames(r.dir)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && isCheckpoint(names[0]) && names[0] != last && dayOf(last) <= dayOf(names[0]) {
		return nil, fmt.Errorf("store: events up to %s: %w", dayOf(names[0]), controller.ErrDropped)
	}
	for _, name := range names {
		until := uint64(0)
		if name == last {
			until = sequence
		} else if name > last {
			break
		}
		damage, err := r.replaySegment(name, scheduler, until, func(_ string, e workload.Event) error {
			return apply(e)
		})
		if err != nil {
			return unread, err
		}
		unread = cmp.Or(unread, damage.Err)
	}
	return unread, nil
}
