package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/space"
)

// audited is a change with a record of it.
func audited(t testing.TB, sp *space.Space, revision int64) (c controller.Change) {
	t.Helper()
	c = change(t, sp, revision)
	c.Audit = &audit.Record{Time: c.Scheduler.Updated, Resource: "schedulers/s", RevisionAfter: revision,
		Origin: audit.Origin{Actor: "alice", Verb: "Test"}}
	return c
}

// checkAudit verifies the log of a store and returns its head.
func checkAudit(r *Store) (audit.Head, error) {
	c := audit.NewChecker("")
	var broken error
	err := r.Audit(0, false, func(line []byte) bool {
		broken = c.Add(line)
		return broken == nil
	})
	head, end := c.End()
	return head, errors.Join(err, broken, end)
}

func TestChangesAreChained(t *testing.T) {
	dir, sp := t.TempDir(), testSpace(t)
	var want audit.Head
	for revision := range int64(3) { // over restarts
		r := open(t, dir)
		if err := r.Commit(context.Background(), audited(t, sp, revision+1)); err != nil {
			t.Fatal(err)
		}
		head, err := checkAudit(r)
		if err != nil || head.Sequence != revision+1 || head == want {
			t.Fatal(head, err)
		}
		want = head
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.Audit(0, false, func([]byte) bool { return true }); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	reader, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var lines []string
	if err := reader.Audit(2, false, func(line []byte) bool {
		lines = append(lines, string(line))
		return len(lines) < 2
	}); err != nil || len(lines) != 2 || !strings.Contains(lines[1], want.Hash) {
		t.Fatal(lines, err)
	}
}

func TestARefusedChangeLeavesNoRecord(t *testing.T) {
	sp, r := testSpace(t), open(t, t.TempDir())
	defer r.Close()
	gap := audited(t, sp, 2)
	gap.Scheduler.Version = 1
	if err := r.Commit(context.Background(), gap); !errors.Is(err, errRevision) {
		t.Fatal(err)
	}
	if head, err := checkAudit(r); err != nil || head != (audit.Head{}) {
		t.Fatal(head, err)
	}
}

// A damaged record of the log is found, and keeps nothing from being changed.
func TestADamagedRecordOfTheLogIsNamed(t *testing.T) {
	sp := testSpace(t)
	key := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	for name, damage := range map[string]func(b *bolt.Bucket) error{
		"flipped": func(b *bolt.Bucket) error {
			v := bytes.Clone(b.Get(key(2)))
			v[len(v)/2] ^= 4
			return b.Put(key(2), v)
		},
		"removed": func(b *bolt.Bucket) error { return b.Delete(key(2)) },
		"swapped": func(b *bolt.Bucket) error {
			two, three := bytes.Clone(b.Get(key(2))), bytes.Clone(b.Get(key(3)))
			return errors.Join(b.Put(key(2), three), b.Put(key(3), two))
		},
		"rewritten": func(b *bolt.Bucket) error {
			_, head, err := audit.Parse(mustOpen(key(1), b.Get(key(1))))
			if err != nil {
				return err
			}
			line, _, err := audit.Append(head, audit.Record{Resource: "schedulers/forged"})
			if err != nil {
				return err
			}
			return b.Put(key(2), appendRecord(nil, key(2), func(dst []byte) []byte { return append(dst, line...) }))
		},
	} {
		r := open(t, t.TempDir())
		for revision := range int64(3) {
			if err := r.Commit(context.Background(), audited(t, sp, revision+1)); err != nil {
				t.Fatal(err)
			}
		}
		err := r.config.Update(func(tx *bolt.Tx) error { return damage(tx.Bucket([]byte(auditBucket))) })
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(context.Background(), audited(t, sp, 4)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err = checkAudit(r)
		at := 2
		if name == "rewritten" {
			at = 3 // does not follow it
		}
		says := fmt.Sprintf("at record %d: ", at)
		if err == nil || !errors.Is(err, ErrCorrupt) && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
		_ = r.Close()
	}
}

func mustOpen(key, record []byte) []byte {
	line, err := openRecord(key, record)
	if err != nil {
		panic(err)
	}
	return line
}
