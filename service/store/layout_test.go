package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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

// setVersions overwrites the versions of a file that is closed; a reader of 0 is none.
func setVersions(t testing.TB, path string, layout, reader uint64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(metaBucket))
		if err := putMetaNumber(b, layoutKey, layout); err != nil {
			return err
		}
		if reader == 0 {
			return b.Delete(readerKey)
		}
		return putMetaNumber(b, readerKey, reader)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// asLayout1 makes a closed directory one of layout 1.
func asLayout1(t testing.TB, dir string) {
	t.Helper()
	setVersions(t, filepath.Join(dir, configFile), 1, 0)
}

// versionsOf returns the versions of a closed directory without an upgrade.
func versionsOf(t testing.TB, dir string) (layout, reader uint64) {
	t.Helper()
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if layout, reader, err = r.store.versions(); err != nil {
		t.Fatal(err)
	}
	return layout, reader
}

// files returns the content of a directory.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

// A directory of a newer layout, or for newer readers, is refused by every way to open it, and stays as it is.
func TestNewerDirectoryIsRefused(t *testing.T) {
	for name, versions := range map[string][2]uint64{
		"layout": {layoutVersion + 1, 0},
		"reader": {layoutVersion, readerVersion + 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := open(t, dir)
			if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
				t.Fatal(err)
			}
			_ = r.Close()
			setVersions(t, filepath.Join(dir, configFile), versions[0], versions[1])
			before := files(t, dir)
			_, opened := Open(dir, Options{})
			_, anew := Open(dir, Options{StartAnew: true})
			_, read := OpenReader(dir)
			_, inspected := Inspect(dir)
			_, raised := Open(dir, Options{NewEpoch: true})
			for _, err := range []error{opened, anew, read, inspected, raised} {
				if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), name) ||
					!strings.Contains(err.Error(), "autosched admin restore") {
					t.Errorf("it says %v", err)
				}
			}
			if !reflect.DeepEqual(files(t, dir), before) {
				t.Error("it was changed")
			}
		})
	}
}

// A directory of layout 1 keeps its records, refuses earlier programs from then on, and is upgraded once.
func TestLayout1IsUpgraded(t *testing.T) {
	dir, sp := t.TempDir(), testSpace(t)
	r := open(t, dir)
	if err := errors.Join(r.Commit(t.Context(), change(t, sp, 1)),
		r.AppendEvents(t.Context(), "s", []workload.Event{event("1", time.Hour)})); err != nil {
		t.Fatal(err)
	}
	want, err := describe(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	asLayout1(t, dir)
	before := files(t, dir)
	if report, err := Inspect(dir); err != nil || report.Layout != 1 || report.Files[0].Damage != nil {
		t.Errorf("inspecting says %+v, %v", report, err)
	}
	if !reflect.DeepEqual(files(t, dir), before) {
		t.Error("reading changes it")
	}
	for range 2 {
		r = open(t, dir)
		if got, err := describe(r); err != nil || got != want {
			t.Errorf("it holds %s, %v, want %s", got, err, want)
		}
		_ = r.Close()
		if layout, reader := versionsOf(t, dir); layout != layoutVersion || reader != layout1Reader {
			t.Errorf("layout %d, reader %d", layout, reader)
		}
		before := files(t, dir)
		_ = open(t, dir).Close()
		if files(t, dir)[configFile] != before[configFile] {
			t.Error("it is upgraded twice")
		}
	}
}

// A record that an earlier reader would cut raises the version in the transaction that stores it: an error of
// the transaction leaves neither.
func TestReaderIsRaisedWithTheRecord(t *testing.T) {
	sp := testSpace(t)
	raised := func(t *testing.T, write func(r *Store) error, ok bool) uint64 {
		t.Helper()
		dir := t.TempDir()
		r := open(t, dir)
		if err := r.Commit(t.Context(), change(t, sp, 1)); err != nil {
			t.Fatal(err)
		}
		if err := write(r); (err == nil) != ok {
			t.Fatal(err)
		}
		_ = r.Close()
		_, reader := versionsOf(t, dir)
		return reader
	}
	frozen := change(t, sp, 2)
	frozen.Scheduler.Freeze = &rollout.Freeze{Reason: "holiday"}
	pinned := change(t, sp, 2)
	pinned.Scheduler.Pin = &rollout.Pin{Revision: 1}
	parked := change(t, sp, 2)
	parked.Scheduler.Parks = []rollout.Park{{Hash: "h"}}
	aside := change(t, sp, 2)
	aside.Configurations[0].State, aside.Configurations[0].Review = rollout.Parked, &rollout.Review{Parked: true}
	fails := change(t, sp, 3)
	fails.Scheduler.Freeze = frozen.Scheduler.Freeze
	lends := change(t, sp, 2)
	lends.Scheduler.Cluster.VCs = []workload.VC{{Tenant: "a", GPUs: 1, Lend: workload.BoundOf(0)}}
	trial := studies.Change{Scheduler: "s", Study: study.Record{ID: "a", UID: "u", Version: 1},
		Trials: []*study.Trial{{ID: 1, RetryOf: 1}}}
	all := maps.Clone(fieldReaders)
	defer func() { fieldReaders = all }()
	delete(fieldReaders, "Scheduler.version") // of every record
	delete(fieldReaders, "Study.version")
	for _, field := range []string{"Event.Labels", "Event.Job.QOS"} {
		fieldReaders[field] = 1
	}
	labelled, asking := event("1", time.Hour), event("1", time.Hour)
	labelled.Labels = "debug"
	snapshot := workload.Event{ID: "2", Kind: workload.TakenSnapshot, Active: []workload.Event{labelled}}
	asking.Job.Requested = workload.Request{QOS: "high"}.Shared()
	commit := func(c controller.Change) func(r *Store) error {
		return func(r *Store) error { return r.Commit(t.Context(), c) }
	}
	events := func(e workload.Event) func(r *Store) error {
		return func(r *Store) error { return r.AppendEvents(t.Context(), "s", []workload.Event{e}) }
	}
	for name, tc := range map[string]struct {
		write func(r *Store) error
		ok    bool
		want  uint64
	}{
		"plain":    {commit(change(t, sp, 2)), true, 0},
		"frozen":   {commit(frozen), true, 1},
		"pinned":   {commit(pinned), true, 1},
		"parked":   {commit(parked), true, 1},
		"proposal": {commit(aside), true, 9},
		"lends":    {commit(lends), true, 6},
		"refused":  {commit(fails), false, 0},
		"trial":    {func(r *Store) error { return r.EnqueueStudy(trial)() }, true, 1},
		"event":    {events(event("1", time.Hour)), true, 0},
		"labels":   {events(labelled), true, 1},
		"snapshot": {events(snapshot), true, 1},
		"request":  {events(asking), true, 1},
	} {
		if got := raised(t, tc.write, tc.ok); got != tc.want {
			t.Errorf("%s: reader %d, want %d", name, got, tc.want)
		}
	}
	fieldReaders["Study.version"] = all["Study.version"] // a lower reader would leave its copy stale
	trial.Trials = nil
	if got := raised(t, func(r *Store) error { return r.EnqueueStudy(trial)() }, true); got != all["Study.version"] {
		t.Errorf("a study: reader %d, want %d", got, all["Study.version"])
	}
}

// A backup carries the versions, and restoring keeps them.
func TestBackupCarriesVersions(t *testing.T) {
	r := open(t, t.TempDir())
	frozen := change(t, testSpace(t), 1)
	frozen.Scheduler.Freeze = &rollout.Freeze{Reason: "holiday"}
	if err := r.Commit(t.Context(), frozen); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	m, err := r.Backup(t.Context(), &archive)
	if err != nil || m.Layout != layoutVersion || m.Reader != fieldReaders["Scheduler.version"] {
		t.Fatal(m, err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(bytes.NewReader(archive.Bytes()), dir); err != nil {
		t.Fatal(err)
	}
	if layout, reader := versionsOf(t, dir); layout != layoutVersion || reader != m.Reader {
		t.Errorf("layout %d, reader %d", layout, reader)
	}
	newer := bytes.Replace(archive.Bytes(), fmt.Appendf(nil, `"layout":%d`, layoutVersion), []byte(`"layout":9`), 1)
	dir = filepath.Join(t.TempDir(), "refused")
	if _, err := Restore(bytes.NewReader(newer), dir); !errors.Is(err, ErrNewer) {
		t.Errorf("restoring says %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused backup leaves a directory")
	}
}

// storedFields appends the fields of a record with their paths. Types that encode themselves have none.
func storedFields(out []string, path string, typ reflect.Type) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	encodes := reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Marshaler]()) || typ.PkgPath() == "time"
	if typ.Kind() != reflect.Struct || encodes {
		return append(out, path)
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		at, stored := fieldPath(path, f)
		switch {
		case !stored, at == "Event.Active": // the parts of a snapshot are events
		case fieldReaders[at] > 0:
			out = append(out, at)
			for _, inner := range storedFields(nil, at, f.Type) {
				if fieldReaders[inner] > 0 {
					out = append(out, inner)
				}
			}
		case f.Type == reflect.TypeFor[workload.Requested]():
			out = storedFields(out, at, reflect.TypeFor[workload.Request]())
		default:
			out = storedFields(out, at, f.Type)
		}
	}
	return out
}

// Every field of a record is in fieldReaders or in testdata/fields.txt.
func TestEveryFieldHasAReader(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "fields.txt"))
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(text))
	var fields []string
	for typ, name := range recordNames {
		fields = storedFields(fields, name, typ)
	}
	slices.Sort(fields)
	for _, f := range slices.Compact(fields) {
		if in := slices.Contains(known, f); in == (fieldReaders[f] > 0) {
			t.Errorf("%s is in both or neither of fieldReaders and testdata/fields.txt. An earlier program drops a "+
				"new field: unless that changes no decision, it needs reader version %d in fieldReaders", f,
				readerVersion+1)
		}
	}
	highest := uint64(replicaReader)
	for f, version := range fieldReaders {
		if highest = max(highest, version); !slices.Contains(fields, f) {
			t.Errorf("fieldReaders: no record has %s", f)
		}
	}
	if highest != readerVersion {
		t.Errorf("the highest reader version is %d, readerVersion is %d", highest, readerVersion)
	}
}
