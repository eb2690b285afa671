package store

import (
	"bytes"
	"context"
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
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/workload"
)

// Compact keeps the records, the versions and the epoch, and gives free pages back. What an interrupted one left is
// not read.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Compact(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
	dir = filepath.Join(dir, "data")
	r := open(t, dir)
	for revision := int64(1); revision <= 3; revision++ {
		if err := r.Commit(t.Context(), audited(t, testSpace(t), revision)); err != nil {
			t.Fatal(err)
		}
	}
	round := bytes.Repeat([]byte("x"), 100_000)
	var keys []controller.RequestKey
	for n := range int64(10) {
		one := controller.Request{ID: fmt.Sprint(n), Digest: string(round), Scheduler: "s"}
		if err := errors.Join(r.KeepRound("u", n+1, round, 2), r.Remember(t.Context(), one)); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, one.Key())
	}
	if err := r.Purge(t.Context(), controller.Expired{Requests: keys}); err != nil {
		t.Fatal(err)
	}
	want, err := describe(r)
	if err != nil {
		t.Fatal(err)
	}
	epoch, secret := r.Epoch(), string(r.Secret())
	if _, _, err := Compact(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("beside a service: %v", err)
	}
	_ = r.Close()
	layout, reader := versionsOf(t, dir)
	for _, name := range []string{configFile, roundsFile} {
		if err := os.WriteFile(filepath.Join(dir, name+compactSuffix), round, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, after, err := Compact(dir)
	if err != nil || after > before/3 {
		t.Errorf("%d bytes of %d are left, %v", after, before, err)
	}
	if l, v := versionsOf(t, dir); l != layout || v != reader {
		t.Errorf("layout %d, reader %d after %d and %d", l, v, layout, reader)
	}
	r = open(t, dir)
	if got, err := describe(r); err != nil || got != want {
		t.Errorf("%v, it holds\n%swant\n%s", err, got, want)
	}
	if r.Epoch() != epoch || string(r.Secret()) != secret || r.NewEpoch() != "" {
		t.Errorf("epoch %v after %v: %s", r.Epoch(), epoch, r.NewEpoch())
	}
	kept := 0
	if err := r.Rounds("u", 0, func(int64, []byte, error) bool { kept++; return true }); err != nil || kept != 2 {
		t.Errorf("%d rounds, %v", kept, err)
	}
	if err := r.Commit(t.Context(), audited(t, testSpace(t), 4)); err != nil {
		t.Error(err)
	}
}

// TestCompactBesideWriters: while a file is copied all others and the file itself are written and read; while the copy
// takes its place events are taken. After a kill at any step nothing that was acknowledged is missing, and nothing that
// was removed meanwhile is back.
func TestCompactBesideWriters(t *testing.T) {
	dir, sp := t.TempDir(), testSpace(t)
	r := openOn(t, dir, damageDay)
	revisions, events, purged := int64(0), 0, 0
	const schedulers = 8 // one to purge for each file and round
	ingest := func() error {
		events++
		return r.AppendEvents(t.Context(), "s", []workload.Event{event(fmt.Sprint(events), time.Duration(events))})
	}
	use := func() error {
		revisions++
		report := reports.Report{Key: reports.Key{Time: damageDay, Instance: fmt.Sprint(revisions)}}
		_, _, err := r.AppendReports("u", []reports.Report{report}, reports.Keep{Most: 2})
		return errors.Join(err, r.Commit(t.Context(), audited(t, sp, revisions)), ingest(),
			r.KeepRound("u", revisions, []byte("round"), 2), r.putText("u", fmt.Sprint(revisions), []byte("text")),
			r.KeepWorkloads("u", map[string]bool{fmt.Sprint(revisions): true}))
	}
	useAndPurge := func() error {
		id := fmt.Sprint("t", purged)
		purged++
		one := controller.Expired{Scheduler: id, UID: id, Audit: &audit.Record{}}
		return errors.Join(use(), r.Purge(t.Context(), one))
	}
	check := func(when string, r *Store) {
		t.Helper()
		saved, _, damage, err := r.Load()
		if err != nil || len(damage) > 0 || saved[0].Fault != nil || len(saved[0].Configurations) != int(revisions) ||
			len(saved) != 1+schedulers-purged {
			t.Errorf("%s: %+v, %v, %v, want %d revisions", when, saved, damage, err, revisions)
		}
		if ids, damage := replayed(t, r); len(ids) != events || len(damage) > 0 {
			t.Errorf("%s: %d events of %d, %v", when, len(ids), events, damage)
		}
		last := int64(0)
		err = r.Rounds("u", 0, func(n int64, _ []byte, _ error) bool { last = n; return false })
		head, auditErr := checkAudit(r)
		if err != nil || auditErr != nil || last != revisions || head.Sequence != revisions+int64(purged) {
			t.Errorf("%s: round %d, audit %+v, %v, %v, want %d", when, last, head, err, auditErr, revisions)
		}
	}
	for range 3 {
		if err := use(); err != nil {
			t.Fatal(err)
		}
	}
	for n := range schedulers {
		id := fmt.Sprint("t", n)
		one := reports.Report{Key: reports.Key{Time: damageDay, Instance: id}}
		_, _, err := r.AppendReports(id, []reports.Report{one}, reports.Keep{Most: 2})
		if err := errors.Join(err, r.Commit(t.Context(), of(t, id)), r.KeepRound(id, 1, []byte("round"), 2),
			r.putText(id, "w", []byte("text"))); err != nil {
			t.Fatal(err)
		}
	}
	steps := map[string]bool{}
	r.onStep = func(step string) {
		done, act := make(chan error, 1), useAndPurge
		if !strings.HasSuffix(step, "copied") {
			act = ingest
		}
		go func() { done <- act() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("at %s: %v", step, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("everyone waits at %s", step)
			return
		}
		steps[step] = true
		image := t.TempDir()
		if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if name, copied := strings.CutSuffix(step, " on disk"); copied {
			want, got := content(t, filepath.Join(image, name)), content(t, filepath.Join(image, name+compactSuffix))
			if got != want {
				t.Errorf("the copy of %s has\n%swant\n%s", name, got, want)
			}
		}
		killed := openOn(t, image, damageDay)
		check("killed at "+step, killed)
		_ = killed.Close()
		for _, name := range append(slices.Clone(auxFiles), configFile) {
			if left, err := os.Stat(filepath.Join(image, name+compactSuffix)); err == nil {
				t.Errorf("killed at %s: %s is left", step, left.Name())
			}
		}
	}
	epoch := r.Epoch()
	for range 2 {
		if _, _, err := r.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(steps) != 12 { // of four files
		t.Errorf("steps %v", steps)
	}
	r.onStep = nil
	for range 2 {
		if err := use(); err != nil {
			t.Fatal(err)
		}
		check("at the end", r)
		_ = r.Close()
		r = openOn(t, dir, damageDay)
	}
	if r.Epoch() != epoch {
		t.Errorf("epoch %v after %v", r.Epoch(), epoch)
	}
}

// content has the records of a file, but the epoch, which differs in a copy.
func content(t *testing.T, path string) string {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out strings.Builder
	var walk func(path string, b *bolt.Bucket) error
	walk = func(path string, b *bolt.Bucket) error {
		fmt.Fprintf(&out, "%s: %d\n", path, b.Sequence())
		return b.ForEach(func(k, v []byte) error {
			if at := fmt.Sprintf("%s/%q", path, k); v == nil {
				return walk(at, b.Bucket(k))
			} else if !bytes.Equal(k, epochKey) {
				fmt.Fprintf(&out, "%s %x\n", at, v)
			}
			return nil
		})
	}
	if err := db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return walk(string(name), b) })
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Compact ends with the call's context and with the store, between two transactions and before the copy takes its
// place, and leaves the file.
func TestCompactStops(t *testing.T) {
	dir := t.TempDir()
	r := openOn(t, dir, damageDay)
	for n := range int64(3) {
		if err := r.KeepRound("u", n+1, make([]byte, compactTx), 3); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, roundsFile)
	to, err := bolt.Open(path+compactSuffix, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls, why := 0, errors.New("stopped")
	err = copyRecords(to, r.rounds.db, func() error {
		if calls++; calls == 3 {
			return why
		}
		return nil
	})
	if !errors.Is(err, why) || calls != 3 {
		t.Errorf("it goes on after %d transactions: %v", calls, err)
	}
	_ = to.Close()
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.onStep = func(step string) {
		if step == roundsFile+" on disk" {
			cancel()
		}
	}
	if _, _, err := r.Compact(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if is, err := os.Stat(path); err != nil || !os.SameFile(is, was) {
		t.Errorf("the copy took its place: %v", err)
	}
	closed := make(chan error, 1)
	r.onStep = func(step string) {
		if step == roundsFile+" on disk" {
			go func() { closed <- r.Close() }()
			<-r.closing
		}
	}
	if _, _, err := r.Compact(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if is, err := os.Stat(path); err != nil || !os.SameFile(is, was) {
		t.Errorf("the copy took its place: %v", err)
	}
}

// A file that was compacted keeps its name in errors.
func TestCompactedFileKeepsItsName(t *testing.T) {
	r := openOn(t, t.TempDir(), damageDay)
	if _, _, err := r.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	var damaged *CorruptError
	err := r.update(func(tx *bolt.Tx) error {
		if err := tx.Bucket([]byte(metaBucket)).Put(readerKey, []byte("x")); err != nil {
			return err
		}
		return raiseReader(tx, 1)
	})
	if !errors.As(err, &damaged) || damaged.File != configFile {
		t.Errorf("it says %v", err)
	}
}

// A file whose pages cannot be read stays as it is.
func TestCompactOfDamagedFile(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	r := openAt(t, dir, &now)
	if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
		t.Fatal(err)
	}
	var page int64
	if err := r.viewConfig(func(tx *bolt.Tx) error {
		page = int64(tx.Bucket([]byte(configsBucket)).Root()) * int64(tx.DB().Info().PageSize)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	path := filepath.Join(dir, configFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		text[page+int64(i)] ^= 0xff // the header of the page
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Compact(dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("it says %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now[page:], text[page:]) {
		t.Errorf("it was changed: %v", err)
	}
}

// Compact of a closed store opens no file, and replaces none that has become stuck. The new file has no old damage.
func TestCompactOfClosedOrStuck(t *testing.T) {
	dir := t.TempDir()
	r := openOn(t, dir, damageDay)
	if err := r.KeepRound("u", 1, []byte("round"), 1); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	if _, _, err := r.Compact(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	r = openOn(t, dir, damageDay)
	if err := r.KeepRound("u", 2, []byte("round"), 1); err != nil { // nothing holds the file
		t.Error(err)
	}
	why := errors.New("a commit panicked")
	r.onStep = func(step string) {
		if step == roundsFile+" copied" {
			r.stuck.Store(roundsFile, &stuckFile{r.rounds.db, why})
		}
	}
	if _, _, err := r.Compact(t.Context()); !errors.Is(err, why) {
		t.Errorf("stuck: %v", err)
	}
	r.onStep = nil
	r.stuck.Delete(roundsFile)
	r.metaErrs.Store(roundsFile, ErrCorrupt)
	if _, _, err := r.Compact(t.Context()); err != nil || r.metaDamage(roundsFile) != nil {
		t.Errorf("the new file has the damage of the one before: %v, %v", err, r.metaDamage(roundsFile))
	}
}
