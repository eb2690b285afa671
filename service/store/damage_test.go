package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/study"
	"github.com/autosched/autosched/workload"
)

var damageDay = time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)

func openOn(t *testing.T, dir string, day time.Time) *Store {
	t.Helper()
	r, err := Open(dir, Options{Now: func() time.Time { return day }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func appendOne(t *testing.T, r *Store, scheduler, id string) {
	t.Helper()
	if err := r.AppendEvents(context.Background(), scheduler, []workload.Event{event(id, time.Second)}); err != nil {
		t.Fatal(err)
	}
}

func replayed(t *testing.T, r *Store) (ids []string, damage []controller.Damage) {
	t.Helper()
	damage, err := r.ReplayEvents("", func(_ string, e workload.Event) error {
		ids = append(ids, e.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, damage
}

// A crash at any step of making a file leaves a directory that opens and takes events.
func TestFilesHalfMadeAreMadeAgain(t *testing.T) {
	const today = "events-20240301.db"
	whole := func(t *testing.T, name string) []byte {
		dir := t.TempDir()
		r := openOn(t, dir, damageDay)
		appendOne(t, r, "s", "1")
		_ = r.Close()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	initialised := func(t *testing.T, _ string) []byte { // by bbolt, nothing committed
		path := filepath.Join(t.TempDir(), "x")
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	empty := func(*testing.T, string) []byte { return nil }
	torn := func(t *testing.T, name string) []byte { return initialised(t, name)[:5000] }
	for _, step := range []struct {
		name, file string
		content    func(t *testing.T, name string) []byte
	}{
		{"opened", today + newSuffix, empty},
		{"torn", today + newSuffix, torn},
		{"initialised", today + newSuffix, initialised},
		{"config opened", configFile + newSuffix, empty},
		{"config torn", configFile + newSuffix, torn},
		{"config initialised", configFile + newSuffix, initialised},
		{"config not renamed", configFile + newSuffix, whole},
		{"in place, by an earlier version", today, empty},
		{"initialised in place", today, initialised},
	} {
		t.Run(step.name, func(t *testing.T) {
			dir := t.TempDir()
			if !strings.HasPrefix(step.file, configFile) {
				_ = openOn(t, dir, damageDay).Close()
			}
			data := step.content(t, strings.TrimSuffix(step.file, newSuffix))
			if err := os.WriteFile(filepath.Join(dir, step.file), data, 0o600); err != nil {
				t.Fatal(err)
			}
			r := openOn(t, dir, damageDay)
			if ids, damage := replayed(t, r); len(ids) > 0 || len(damage) > 0 {
				t.Fatal(ids, damage)
			}
			appendOne(t, r, "s", "1")
			_ = r.Close()
			r = openOn(t, dir, damageDay)
			if ids, damage := replayed(t, r); !reflect.DeepEqual(ids, []string{"1"}) || len(damage) > 0 {
				t.Error(ids, damage)
			}
		})
	}
}

// A directory without its config.db is not taken for a new one.
func TestLostConfigIsRefused(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := openOn(t, dir, damageDay)
			appendOne(t, r, "s", "1")
			_ = r.Close()
			if err := lose(filepath.Join(dir, configFile)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the refusal itself makes nothing
				_, err := Open(dir, Options{})
				if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "backup") ||
					!strings.Contains(err.Error(), "--start-anew") {
					t.Fatalf("open: %v", err)
				}
			}
			r, err := Open(dir, Options{StartAnew: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if ids, damage := replayed(t, r); len(ids) > 0 || len(damage) > 0 {
				t.Error(ids, damage)
			}
			if _, err := os.Stat(filepath.Join(dir, "events-20240301.db"+orphanSuffix)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLostConfigOfExternalSchedulers: files other than events show that there was a config.db (N9).
func TestLostConfigOfExternalSchedulers(t *testing.T) {
	for _, left := range []string{reserveFile, roundsFile, reportsFile, workloadsFile} {
		dir := t.TempDir()
		r := openOn(t, dir, damageDay)
		if err := r.KeepRound("uid", 1, []byte("{}"), 1); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		if left != reserveFile {
			if err := errors.Join(os.Rename(filepath.Join(dir, roundsFile), filepath.Join(dir, left)),
				os.Remove(filepath.Join(dir, reserveFile))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(filepath.Join(dir, configFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), left) {
			t.Fatalf("beside %s: %v", left, err)
		}
		r, err := Open(dir, Options{StartAnew: true})
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
	}
}

// A config.db whose pages cannot be read is refused with a remedy, and set aside on request.
func TestDamagedConfigIsSetAside(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"short":    func(path string) error { return os.Truncate(path, 100) },
		"nonsense": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("no"), 9000), 0o600) },
		"pages but the first two": func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				copy(text[8192:], bytes.Repeat([]byte{0xff}, len(text)))
				err = os.WriteFile(path, text, 0o600)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := openOn(t, dir, damageDay)
			if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
				t.Fatal(err)
			}
			appendOne(t, r, "s", "1")
			_ = r.Close()
			path := filepath.Join(dir, configFile)
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			damaged, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			other := t.TempDir() // a file on which bbolt panicked stays locked in this process
			if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			r, err = Open(other, Options{})
			if err == nil {
				_, _, _, err = r.Load()
				_ = r.Close()
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "--start-anew") {
				t.Fatalf("open: %v", err)
			}
			if r, err = Open(dir, Options{StartAnew: true}); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			saved, _, damage, err := r.Load()
			if ids, _ := replayed(t, r); err != nil || len(saved)+len(damage)+len(ids) > 0 {
				t.Error(saved, damage, ids, err)
			}
			if kept, err := os.ReadFile(path + orphanSuffix); err != nil || !bytes.Equal(kept, damaged) {
				t.Errorf("the damaged file is not kept: %v", err)
			}
		})
	}
}

// A store that can be read is not set aside.
func TestStartAnewKeepsWhatIsGood(t *testing.T) {
	dir := t.TempDir()
	r := openOn(t, dir, damageDay)
	if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	r, err := Open(dir, Options{StartAnew: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if saved, _, _, err := r.Load(); err != nil || len(saved) != 1 {
		t.Error(saved, err)
	}
}

// A segment with damaged pages costs the records on them: others are read, and today's events go to another file.
func TestDamagedSegmentCostsItself(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 8192) },
		"short":     func(path string) error { return os.Truncate(path, 100) },
		"nonsense":  func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("no", 9000)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, id := range []string{"1", "2", "3"} {
				r := openOn(t, dir, damageDay.AddDate(0, 0, i))
				appendOne(t, r, "s", id)
				_ = r.Close()
			}
			if err := harm(filepath.Join(dir, "events-20240303.db")); err != nil {
				t.Fatal(err)
			}
			r := openOn(t, dir, damageDay.AddDate(0, 0, 2))
			ids, damage := replayed(t, r)
			if !reflect.DeepEqual(ids, []string{"1", "2"}) || len(damage) != 1 ||
				damage[0].File != "events-20240303.db" || !errors.Is(damage[0].Err, ErrCorrupt) {
				t.Fatal(ids, damage)
			}
			appendOne(t, r, "s", "4")
			_ = r.Close()
			r = openOn(t, dir, damageDay.AddDate(0, 0, 2))
			if ids, damage := replayed(t, r); !reflect.DeepEqual(ids, []string{"1", "2", "4"}) || len(damage) != 1 {
				t.Error(ids, damage)
			}
		})
	}
}

// A damaged event costs itself, a damaged scheduler too, and a revision if its copy is damaged as well. A damaged copy
// costs nothing, and is named.
func TestDamagedRecordCostsItself(t *testing.T) {
	ctx, dir, sp := context.Background(), t.TempDir(), testSpace(t)
	r := openOn(t, dir, damageDay)
	for revision := int64(1); revision <= 4; revision++ {
		if err := r.Commit(ctx, change(t, sp, revision)); err != nil {
			t.Fatal(err)
		}
	}
	other := change(t, sp, 1)
	other.Scheduler.ID = "t"
	if err := r.Commit(ctx, other); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3"} {
		appendOne(t, r, "s", id)
	}
	record := study.Record{ID: "x", Version: 1, Spec: study.Spec{Params: sp.Params()}}
	if err := r.EnqueueStudy(studies.Change{Scheduler: "s", Study: record})(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	harm := func(file string, key []byte, path ...string) { // flips a bit of a record, the first if key is nil
		t.Helper()
		db, err := bolt.Open(filepath.Join(dir, file), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(path[0]))
			for _, name := range path[1:] {
				b = b.Bucket([]byte(name))
			}
			if key == nil {
				key, _ = b.Cursor().First()
			}
			v := append([]byte(nil), b.Get(key)...)
			v[len(v)-1] ^= 4
			return b.Put(key, v)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	harm("events-20240301.db", nil, "s")
	for _, also := range []string{"", copies} {
		harm(configFile, revisionKey(2), configsBucket+also, "s")
		harm(configFile, []byte("t"), schedulersBucket+also)
	}
	harm(configFile, revisionKey(3), configsBucket, "s")
	harm(configFile, revisionKey(4), configsBucket+copies, "s")
	harm(configFile, []byte("x"), studiesBucket+copies, "s")

	r = openOn(t, dir, damageDay)
	ids, damage := replayed(t, r)
	if !reflect.DeepEqual(ids, []string{"2", "3"}) || len(damage) != 1 || damage[0].Records != 1 {
		t.Error(ids, damage)
	}
	saved, _, damage, err := r.Load()
	if err != nil || len(saved) != 2 || len(damage) != 5 || !strings.Contains(damage[0].Err.Error(), "0003: record") {
		t.Fatal(saved, damage, err)
	}
	for i, copied := range []string{"configurations_copies/s, key 0000000000000002: ",
		"configurations_copies/s, key 0000000000000004: ", "studies_copies/s, key 78: ", "schedulers_copies, key t: "} {
		if d := damage[1+i]; d.Records != 1 || !strings.Contains(d.Err.Error(), copied) {
			t.Errorf("%+v, want a copy: %s", d, copied)
		}
	}
	if saved[0].Fault != nil || len(saved[0].Configurations) != 4 {
		t.Fatalf("%+v", saved[0])
	}
	for _, c := range saved[0].Configurations {
		if lost := c.State == rollout.Lost; lost != (c.Revision == 2) || lost && !strings.Contains(c.Reason, "CRC32C") {
			t.Errorf("%+v", c)
		}
	}
	if saved[1].Scheduler.ID != "t" || !errors.Is(saved[1].Fault, ErrCorrupt) {
		t.Errorf("%+v", saved[1])
	}
	err = r.config.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(schedulersBucket)) })
	if err != nil {
		t.Fatal(err)
	}
	if saved, _, _, err := r.Load(); err != nil || len(saved) != 2 || !errors.Is(saved[1].Fault, ErrCorrupt) {
		t.Errorf("without records of schedulers: %+v, %v", saved, err)
	}
	if err := r.Commit(ctx, change(t, sp, 5)); err != nil { // it goes on from its copy
		t.Error(err)
	}
	appendOne(t, r, "s", "4")
}

// A scheduler has its copy where its record is under a damaged key, in order or not, or nowhere, and goes on from it.
func TestCopyOfMissingScheduler(t *testing.T) {
	ctx, sp := context.Background(), testSpace(t)
	for _, key := range []string{"", "r", "w", "\xf3"} {
		t.Run(key, func(t *testing.T) {
			dir := t.TempDir()
			r := open(t, dir)
			for _, id := range []string{"a", "s", "u"} {
				one := change(t, sp, 1)
				one.Scheduler.ID = id
				if err := r.Commit(ctx, one); err != nil {
					t.Fatal(err)
				}
			}
			var at int64
			var record []byte
			err := r.config.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte(schedulersBucket))
				at, record = int64(b.Root())*int64(tx.DB().Info().PageSize), bytes.Clone(b.Get([]byte("s")))
				if key == "" {
					return b.Delete([]byte("s"))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if key != "" {
				_ = r.Close()
				path := filepath.Join(dir, configFile)
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				i := bytes.Index(data[at:], append([]byte("s"), record...))
				if i < 0 {
					t.Fatal("no key")
				}
				data[at+int64(i)] = key[0]
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				r = open(t, dir)
			}
			for version := int64(1); version <= 2; version++ {
				saved, _, damage, err := r.Load()
				if err != nil || len(saved) != 3 || (len(damage) > 0) != (version == 1 || key != "") {
					t.Fatal(len(saved), damage, err)
				}
				for i, id := range []string{"a", "s", "u"} {
					one := saved[i]
					if one.Scheduler.ID != id || one.Fault != nil {
						t.Errorf("%s: %v", one.Scheduler.ID, one.Fault)
					}
				}
				if s := saved[1]; s.Scheduler.Version != version || len(s.Configurations) != int(version) {
					t.Errorf("version %d with %d configurations, want %d", s.Scheduler.Version, len(s.Configurations),
						version)
				}
				if version == 1 {
					if err := r.Commit(ctx, change(t, sp, 2)); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// Keys out of order are named with the file that has them.
func TestKeysOutOfOrder(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	const first = 1 << 40 // unlike the number of a page
	for n := range int64(3) {
		if err := r.KeepRound("u", first+n, []byte("round"), 3); err != nil {
			t.Fatal(err)
		}
	}
	_ = r.Close()
	path := filepath.Join(dir, roundsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, revisionKey(first+1), revisionKey(first+9))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	err = r.checkAux(&r.rounds, "u")
	if err == nil || !strings.Contains(err.Error(), "out of order") || strings.Contains(err.Error(), configFile) {
		t.Errorf("it says %v", err)
	}
}
