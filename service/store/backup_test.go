package store

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/workload"
)

// TestBackupOfARunningStore: while revisions and events are written, a backup holds what was
// acknowledged before it began, without gaps, and is a store of its own once restored.
func TestBackupOfARunningStore(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	ctx, sp := t.Context(), testSpace(t)
	dir := t.TempDir()
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	yesterday := openOn(t, dir, day.AddDate(0, 0, -1))
	appendOne(t, yesterday, "s", "first")
	if err := yesterday.Close(); err != nil {
		t.Fatal(err)
	}
	r := openOn(t, dir, day)
	if err := r.Commit(ctx, change(t, sp, 1)); err != nil {
		t.Fatal(err)
	}
	appendOne(t, r, "s", "second")
	written, stop, wrote, began := make(chan int, 1), make(chan struct{}), 1, make(chan struct{})
	go func() {
		defer func() { written <- wrote }()
		for i := 2; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			err := errors.Join(r.Commit(ctx, change(t, sp, int64(i))),
				r.AppendEvents(ctx, "s", []workload.Event{event(fmt.Sprint(i), time.Duration(i)*time.Second)}))
			if err != nil {
				t.Error(err)
				return
			}
			if wrote = i; i == 2 {
				close(began)
			}
		}
	}()
	select {
	case <-began:
	case last := <-written:
		t.Fatalf("nothing was written after revision %d", last)
	}
	var archive bytes.Buffer
	for range 5 {
		archive.Reset()
		if _, err := r.Backup(ctx, &archive); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	last := <-written
	m, err := VerifyBackup(bytes.NewReader(archive.Bytes()))
	if err != nil || len(m.Files) != 3 {
		t.Fatalf("%+v, %v", m, err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(bytes.NewReader(archive.Bytes()), restored); err != nil {
		t.Fatal(err)
	}
	again := openOn(t, restored, day)
	saved, _, damage, err := again.Load()
	if err != nil || len(damage) > 0 || len(saved) != 1 || saved[0].Fault != nil {
		t.Fatalf("%+v, %v, %v", saved, damage, err)
	}
	if again.Epoch().Counter <= r.Epoch().Counter {
		t.Errorf("epoch %+v is not after %+v", again.Epoch(), r.Epoch())
	}
	revisions := len(saved[0].Configurations)
	ids, damage := replayed(t, again)
	// Events come after config.db: all but that of the last revision are there.
	for _, f := range m.Files {
		if err := again.metaDamage(f.Name); err != nil {
			t.Error(err)
		}
	}
	if revisions > last || len(ids) < revisions || len(damage) > 0 {
		t.Errorf("%d revisions of %d, %d events, %v", revisions, last, len(ids), damage)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".backup*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestBystandersOfABackup: while a backup stands still, in the copy of any file or at its receiver, changes, events,
// the first ones of a day and records of auxiliary files are stored and read (N17). It has the events up to a place.
func TestBystandersOfABackup(t *testing.T) {
	ctx, sp, dir := t.Context(), testSpace(t), t.TempDir()
	var day atomic.Int64
	r, err := Open(dir, Options{Now: func() time.Time { return damageDay.AddDate(0, 0, int(day.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	use := func() error {
		n++
		uid := fmt.Sprint("w", n)
		w := workloads.Change{Scheduler: "s", SchedulerUID: "u", Text: []byte("text"), Audit: &audit.Record{},
			Record: workloads.Record{ID: uid, UID: uid}}
		gone := w
		gone.Delete = true
		_, _, err := r.AppendReports("u", []reports.Report{{Key: reports.Key{Time: damageDay, Instance: uid}}},
			reports.Keep{Most: 1000})
		found := 0
		count := func(int64, []byte, error) bool { found++; return true }
		err = errors.Join(err, r.Commit(ctx, change(t, sp, int64(n))),
			r.KeepRound("u", int64(n), make([]byte, 5000), 3),
			r.AppendEvents(ctx, "s", []workload.Event{event(uid, time.Duration(n))}), r.ChangeWorkloads(w),
			r.ChangeWorkloads(gone), r.Rounds("u", 0, count))
		if err == nil && found != min(n, 3) {
			err = fmt.Errorf("%d rounds", found)
		}
		return err
	}
	many := make([]workload.Event, replayChunk+5)
	for i := range many {
		many[i] = event(fmt.Sprint(i), time.Hour+time.Duration(i))
	}
	if err := errors.Join(use(), r.AppendEvents(ctx, "s", many)); err != nil {
		t.Fatal(err)
	}
	held, release, ended := make(chan string), make(chan bool), make(chan error, 1)
	stand := func(step string) { held <- step; <-release }
	r.onStep = stand
	var archive bytes.Buffer
	last := ""
	go func() {
		_, err := r.Backup(ctx, writer(func(p []byte) (int, error) {
			if len(p) == 512 { // a header
				stand("its receiver")
			}
			return archive.Write(p)
		}))
		ended <- err
	}()
	steps, want := map[string]int{}, 0
	for last != "ended" {
		select {
		case last = <-held:
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			last = "ended"
			continue
		}
		if steps[last]++; dayOf(last) != "" {
			if want == 0 {
				want = len(many) + n
			}
			day.Add(1)
		}
		done := make(chan error, 1)
		go func() { done <- use() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("beside %s: %v", last, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("everyone waits for %s", last)
		}
		release <- true
	}
	for _, name := range append(slices.Clone(auxFiles), configFile, "its receiver") {
		if steps[name] == 0 {
			t.Errorf("no step at %s: %v", name, steps)
		}
	}
	if segment := "events-20240301.db"; steps[segment] < 3 { // two chunks and the layout
		t.Errorf("steps %v", steps)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(&archive, restored); err != nil {
		t.Fatal(err)
	}
	again := openOn(t, restored, damageDay)
	if ids, damage := replayed(t, again); len(ids) != want || len(damage) > 0 {
		t.Errorf("%d events, want %d, %v", len(ids), want, damage)
	}
	if at, err := again.Cursor("s"); err != nil || at != cursorOf("events-20240301.db", uint64(want)) {
		t.Errorf("the last event is %s, %v", at, err)
	}
}

// oneBackup is an archive of a store with a revision and an event.
func oneBackup(t testing.TB) []byte {
	t.Helper()
	r := open(t, t.TempDir())
	if err := errors.Join(r.Commit(context.Background(), change(t, testSpace(t), 1)),
		r.AppendEvents(context.Background(), "s", []workload.Event{event("1", 0)})); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if _, err := r.Backup(context.Background(), &archive); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// TestBackupOfAnyFolder: the name of the directory is no pattern.
func TestBackupOfAnyFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b")
	r := open(t, dir)
	list := filepath.Join(dir, FindingsFolder, "s.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(list), 0o700), os.WriteFile(list, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	m, err := r.Backup(context.Background(), io.Discard)
	if err != nil || !slices.ContainsFunc(m.Files, func(f ManifestFile) bool { return f.Name == "findings/s.json" }) {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestDamagedBackupIsRefused: a backup that was cut or changed anywhere makes no store.
func TestDamagedBackupIsRefused(t *testing.T) {
	whole := oneBackup(t)
	end := bytes.LastIndexByte(whole, '}') + 1 // of the manifest
	for at := 0; at < end; at += 1 + end/97 {
		for name, text := range map[string][]byte{
			"cut":     whole[:at],
			"flipped": append(append(bytes.Clone(whole[:at]), whole[at]^4), whole[at+1:]...),
		} {
			dir := t.TempDir()
			_, err := Restore(bytes.NewReader(text), dir)
			if _, equal := VerifyBackup(bytes.NewReader(text)); err == nil && equal == nil {
				continue // in a field of the archive that means nothing
			}
			if !errors.Is(err, ErrBackup) && !errors.Is(err, ErrNewer) {
				t.Errorf("%s at %d: %v", name, at, err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s at %d: left %v", name, at, left)
			}
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	whole := oneBackup(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(bytes.NewReader(whole), dir); err == nil || !strings.Contains(err.Error(), "mine") {
		t.Errorf("a directory with a file: %v", err)
	}
	for _, name := range []string{"../config.db", "/config.db", ".hidden", "a/b", reserveFile, "findings/../x", "findings/a/b",
		"findings/.x", "findings/"} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o600}), w.Close()); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(t.TempDir(), "new")
		if _, err := Restore(&archive, at); !errors.Is(err, ErrBackup) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory is left: %v", name, err)
		}
	}
}

// TestFindingsAreInBackups (N13): a backup has the findings with their marks, and a version that earlier programs
// refuse.
func TestFindingsAreInBackups(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if m, err := r.Backup(t.Context(), &archive); err != nil || m.Version != 1 {
		t.Errorf("without findings: %+v, %v", m, err)
	}
	at := filepath.Join(FindingsFolder, "prod.json")
	marks := []byte(`{"version":1,"findings":[{"id":"7","false_positive":{"by":"ann"}}]}`)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, FindingsFolder), 0o700),
		os.WriteFile(filepath.Join(dir, FindingsFolder, ".prod.json.1"), []byte("half"), 0o600),
		os.WriteFile(filepath.Join(dir, at), marks, 0o600)); err != nil {
		t.Fatal(err)
	}
	archive.Reset()
	m, err := r.Backup(t.Context(), &archive)
	if err != nil || m.Version != 2 || len(m.Files) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(&archive, restored); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(restored, at)); !bytes.Equal(got, marks) {
		t.Errorf("restored %s, %v", got, err)
	}
	if left, _ := os.ReadDir(filepath.Join(restored, FindingsFolder)); len(left) != 1 {
		t.Errorf("restored %v", left)
	}
}

// TestBackupStopsWithItsCaller checks that a backup ends with the context.
func TestBackupStopsWithItsCaller(t *testing.T) {
	r := open(t, t.TempDir())
	if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Backup(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
		t.Fatal(err)
	}
	appendOne(t, r, "s", "1")
	c := change(t, testSpace(t), 1)
	if err := r.KeepRound(c.Scheduler.UID, 1, bytes.Repeat([]byte("round"), 20), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("in use: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadDir(dir)
	bad := filepath.Join(dir, "events-20200101.db")
	if err := os.WriteFile(bad, bytes.Repeat([]byte("x"), 9000), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := Inspect(dir)
	if err != nil || len(report.Schedulers) != 1 || len(report.Files) != 4 || len(report.Others) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, f := range report.Files {
		if (f.Damage != nil) != (f.Name == "events-20200101.db") {
			t.Errorf("%+v", f)
		}
	}
	if after, _ := os.ReadDir(dir); len(after) != len(before)+1 {
		t.Errorf("files before %v, after %v", before, after)
	}
	rounds, err := os.ReadFile(filepath.Join(dir, roundsFile))
	if err != nil {
		t.Fatal(err)
	}
	rounds = bytes.ReplaceAll(rounds, []byte("roundround"), []byte("roundbound"))
	if err := os.WriteFile(filepath.Join(dir, roundsFile), rounds, 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err = Inspect(dir); err != nil || !errors.Is(report.Files[3].Damage, ErrCorrupt) {
		t.Errorf("a damaged round: %+v, %v", report, err)
	}
	if err := os.Truncate(filepath.Join(dir, configFile), 5000); err != nil {
		t.Fatal(err)
	}
	if report, err = Inspect(dir); err != nil || !errors.Is(report.Files[0].Damage, ErrCorrupt) {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestHealthHasTheLastWrites(t *testing.T) {
	r := open(t, t.TempDir())
	h, err := r.Health()
	if err != nil || h.Changes != nil || h.Events != nil || h.Free == 0 || h.Size < h.Free {
		t.Errorf("%+v, %v", h, err)
	}
	if err := r.lastChange.record(errRevision); err == nil || r.lastChange.last() != nil {
		t.Errorf("a refused change counts: %v", r.lastChange.last())
	}
	_ = r.lastChange.record(ErrFull)
	if h, _ = r.Health(); !errors.Is(h.Changes, ErrFull) {
		t.Errorf("%+v", h)
	}
	if err := r.Commit(t.Context(), change(t, testSpace(t), 1)); err != nil {
		t.Fatal(err)
	}
	if h, _ = r.Health(); h.Changes != nil {
		t.Errorf("%+v after a change was stored", h)
	}
}

func FuzzVerifyBackup(f *testing.F) {
	f.Add(oneBackup(f))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = VerifyBackup(bytes.NewReader(text)) })
}
