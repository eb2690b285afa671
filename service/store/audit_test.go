package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
func checkAudit(r Records) (audit.Head, error) {
	c := audit.NewChecker("")
	var broken error
	err := r.Audit(0, false, func(_ int64, line []byte, err error) bool {
		if broken = err; err == nil {
			broken = c.Add(line)
		}
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
		if err := r.Audit(0, false, func(int64, []byte, error) bool { return true }); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	reader, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var lines []string
	if err := reader.Audit(2, false, func(_ int64, line []byte, err error) bool {
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
			line, _, err := audit.Append(head, audit.Record{Resource: "schedulers/s", Chain: "schedulers/s"})
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

// openAt opens a store on a clock.
func openAt(t *testing.T, dir string, now *time.Time) *Store {
	t.Helper()
	r, err := Open(dir, Options{Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// auditedBy commits changes of schedulers, one after another, at a time.
func auditedBy(t testing.TB, r Records, at time.Time, version int64, ids ...string) {
	t.Helper()
	for _, id := range ids {
		c := of(t, id)
		if c.Scheduler.Version = version; version > 1 {
			c.Configurations = nil
		}
		c.Audit = &audit.Record{Time: at, Resource: "schedulers/" + id, Origin: audit.Origin{Actor: "alice",
			Verb: "Test"}}
		if err := r.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// places lists the places of the records that can be read, in the order of Audit.
func places(t testing.TB, r Records, from int64, newestFirst bool) (out []int64) {
	t.Helper()
	if err := r.Audit(from, newestFirst, func(place int64, _ []byte, err error) bool {
		if err == nil {
			out = append(out, place)
		}
		return true
	}); err != nil && !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	return out
}

// The records of former days go into files, in which they are read and verified as before, and which are dropped by
// day. A backup has them.
func TestAuditLogIsKeptByDay(t *testing.T) {
	dir, now := t.TempDir(), damageDay
	o := Options{Now: func() time.Time { return now }}
	r := openRecords(t, dir, o)
	auditedBy(t, r, now, 1, "a", "b")
	for range 2 { // nothing to do today
		if err := r.ArchiveAudit(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	days := []time.Time{now}
	for day := range int64(3) {
		now = now.Add(24 * time.Hour)
		days = append(days, now)
		auditedBy(t, r, now, day+2, "a", "b")
		if err := r.ArchiveAudit(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	names, err := auditFiles(RecordsOf(dir))
	if err != nil || len(names) != 3 || names[0] != "audit-"+days[1].Format(dayLayout)+".db" {
		t.Fatal(names, err)
	}
	all := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11} // 5, 8 and 11 are anchors
	check := func(r Records, want []int64) {
		t.Helper()
		if got := places(t, r, 0, false); !slices.Equal(got, want) {
			t.Errorf("records %v, want %v", got, want)
		}
		back := places(t, r, 0, true)
		if slices.Reverse(back); !slices.Equal(back, want) {
			t.Errorf("backwards %v, want %v", back, want)
		}
		if head, err := checkAudit(r); err != nil || head.Sequence != int64(len(want)) {
			t.Error(head, err)
		}
	}
	check(r, all)
	if got := places(t, r, 6, false); !slices.Equal(got, all[5:]) {
		t.Errorf("from 6: %v", got)
	}
	if got := places(t, r, 6, true); !slices.Equal(got, []int64{6, 5, 4, 3, 2, 1}) {
		t.Errorf("back from 6: %v", got)
	}
	var archive bytes.Buffer
	if _, err := r.Backup(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(&archive, restored); err != nil {
		t.Fatal(err)
	}
	check(openAt(t, restored, &now), all)
	if err := r.ArchiveAudit(t.Context(), days[2]); err != nil {
		t.Fatal(err)
	}
	check(r, all[4:]) // from an anchor
	_ = r.Close()
	if report, err := Inspect(RecordsOf(dir)); err != nil || len(report.Others) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if RecordsOf(dir) != dir { // of a node, which is not started anew
		return
	}
	if _, err := Open(dir, Options{StartAnew: true}); err != nil {
		t.Error(err)
	}
}

// An archive that is interrupted at any step loses no record, and the next one completes it.
func TestInterruptedArchive(t *testing.T) {
	for _, step := range []string{"anchored", "written", "renamed", "trimmed"} {
		dir, now := t.TempDir(), damageDay
		r := openAt(t, dir, &now)
		auditedBy(t, r, now, 1, "a", "b")
		if step == "trimmed" { // in several commits
			one := audit.Record{Time: now, Resource: "schedulers/a"}
			if err := r.change(func(tx *bolt.Tx) error {
				for range 2 * maxCommit {
					if err := putAudit(tx, &one); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(24 * time.Hour)
		stop := errors.New("killed")
		r.onStep = func(at string) {
			if at == step {
				panic(stop)
			}
		}
		func() {
			defer func() {
				if p := recover(); p != stop {
					t.Fatal(p)
				}
			}()
			_ = r.ArchiveAudit(t.Context(), time.Time{})
		}()
		copied := t.TempDir() // as a kill leaves it: the files may still be open
		for name, text := range files(t, dir) {
			if err := os.WriteFile(filepath.Join(copied, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r = openAt(t, copied, &now)
		auditedBy(t, r, now, 2, "a", "b")
		for range 2 {
			if got := places(t, r, 0, false); !slices.Equal(got[:5], []int64{1, 2, 3, 4, 5}) {
				t.Errorf("%s: records %v", step, got)
			}
			if head, err := checkAudit(r); err != nil {
				t.Errorf("%s: %v, %v", step, head, err)
			}
			if err := r.ArchiveAudit(t.Context(), time.Time{}); err != nil {
				t.Errorf("%s: %v", step, err)
			}
		}
		if names, err := auditFiles(copied); err != nil || len(names) == 0 {
			t.Errorf("%s: %v, %v", step, names, err)
		}
		if err := r.viewConfig(func(tx *bolt.Tx) error {
			if n := tx.Bucket([]byte(auditBucket)).Inspect().KeyN; n > 3 {
				t.Errorf("%s: %d records are left", step, n)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// One flipped bit of a file of the audit log costs at most the file, by name, and stops neither changes nor the start.
func TestDamagedAuditFile(t *testing.T) {
	dir, now := t.TempDir(), damageDay
	r := openAt(t, dir, &now)
	for day := range int64(2) {
		auditedBy(t, r, now, day+1, "a", "b")
		now = now.Add(24 * time.Hour)
		if err := r.ArchiveAudit(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	_ = r.Close()
	names, err := auditFiles(dir)
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	path := filepath.Join(dir, names[0])
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := 0; at < len(whole); at += 97 {
		bad := bytes.Clone(whole)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(report.Files, func(f FileReport) bool { return f.Name == names[0] })
		r := openAt(t, dir, &now)
		got := places(t, r, 0, false)
		_, broken := checkAudit(r)
		if len(got) < 2 || got[len(got)-1] != 6 || len(got) == 6 && broken != nil {
			t.Fatalf("bit in byte %d: records %v, %v", at, got, broken)
		}
		if len(got) < 6 {
			if found++; report.Files[i].Damage == nil || !strings.Contains(fmt.Sprint(broken), names[0]) {
				t.Fatalf("bit in byte %d: the damage is not named: %v, %v", at, report.Files[i].Damage, broken)
			}
		}
		_ = r.Close()
	}
	if found == 0 {
		t.Error("no bit mattered")
	}
}

// The records of a file that cannot be read are one damaged record, in pages of any size and in both directions.
func TestUnreadableAuditFile(t *testing.T) {
	dir, now := t.TempDir(), damageDay
	r := openAt(t, dir, &now)
	for day := range int64(4) {
		auditedBy(t, r, now, day+1, "a", "b")
		if err := r.ArchiveAudit(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(24 * time.Hour)
	}
	names, err := auditFiles(dir) // of records 1 to 4, 5 to 7 and 8 to 10
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	for i, tc := range []struct{ back, forth []int64 }{ // damaged records are negative
		{[]int64{11, 10, 9, 8, 7, 6, 5, -1}, []int64{-4, 5, 6, 7, 8, 9, 10, 11}},
		{[]int64{11, 10, 9, 8, -5, 4, 3, 2, 1}, []int64{1, 2, 3, 4, -7, 8, 9, 10, 11}},
		{[]int64{11, -8, 7, 6, 5, 4, 3, 2, 1}, []int64{1, 2, 3, 4, 5, 6, 7, -10, 11}},
	} {
		path := filepath.Join(dir, names[i])
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, len(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		page := func(from int64, newestFirst bool, n int) (out []int64) {
			_ = r.Audit(from, newestFirst, func(place int64, _ []byte, err error) bool {
				if err != nil && !strings.Contains(err.Error(), names[i]) {
					t.Error(err)
				}
				if err != nil {
					place = -place
				}
				out = append(out, place)
				return len(out) < n
			})
			return out
		}
		if got := page(0, false, 99); !slices.Equal(got, tc.forth) {
			t.Errorf("%s: %v, want %v", names[i], got, tc.forth)
		}
		for n := 1; n < 12; n++ {
			var all []int64
			for from := int64(0); ; {
				got := page(from, true, n)
				all = append(all, got...)
				if len(got) < n || max(got[n-1], -got[n-1]) == 1 {
					break
				}
				from = max(got[n-1], -got[n-1]) - 1
			}
			if !slices.Equal(all, tc.back) {
				t.Errorf("%s, pages of %d: %v, want %v", names[i], n, all, tc.back)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
