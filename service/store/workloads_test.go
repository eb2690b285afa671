package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/workloads"
)

func addWorkload(t *testing.T, s Records, id string, text []byte) {
	t.Helper()
	if err := s.ChangeWorkloads(workloads.Change{Scheduler: "s", SchedulerUID: "us", Text: text,
		Record: workloads.Record{ID: id, UID: "u" + id, Stored: int64(len(text))}, Audit: &audit.Record{Resource: id},
		Request: &controller.Request{ID: "r" + id}}); err != nil {
		t.Fatal(err)
	}
}

// A workload has its jobs, its record in the audit log and its request after the store is opened again; a deleted
// one has nothing, and what a crash left goes.
func TestWorkloads(t *testing.T) {
	dir := t.TempDir()
	s := openRecords(t, dir, Options{})
	long := bytes.Repeat([]byte("0123456789abcdef"), 100_000) // several parts
	addWorkload(t, s, "a", long)
	addWorkload(t, s, "b", []byte("of b"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openRecords(t, dir, Options{})
	saved, damage, err := s.LoadWorkloads()
	if err != nil || len(damage) > 0 || len(saved) != 2 || saved[0].Scheduler != "s" || saved[0].Record.UID != "ua" {
		t.Fatalf("%+v %v %v", saved, damage, err)
	}
	if text, err := s.WorkloadText("us", "ua"); err != nil || !bytes.Equal(text, long) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	audited := 0
	count := func(int64, []byte, error) bool { audited++; return true }
	if err := s.Audit(0, false, count); err != nil || audited != 2 {
		t.Errorf("%d records of the audit log, %v", audited, err)
	}
	if _, requests, _, err := s.Load(); err != nil || len(requests) != 2 {
		t.Errorf("%v %v", requests, err)
	}
	if err := s.ChangeWorkloads(workloads.Change{Scheduler: "s", SchedulerUID: "us", Delete: true,
		Record: workloads.Record{ID: "a", UID: "ua"}, Audit: &audit.Record{Resource: "a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WorkloadText("us", "ua"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the text of a deleted workload: %v", err)
	}
	if err := s.KeepWorkloads("us", nil); err != nil {
		t.Error(err)
	}
	if _, err := s.WorkloadText("us", "ub"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the text of a workload that is not kept: %v", err)
	}
	addWorkload(t, s, "c", []byte("of c"))
	if err := s.Purge(context.Background(), controller.Expired{Scheduler: "s", UID: "us",
		Audit: &audit.Record{Resource: "s"}}); err != nil {
		t.Fatal(err)
	}
	if saved, _, err := s.LoadWorkloads(); err != nil || len(saved) > 0 {
		t.Errorf("after the scheduler was purged: %v %v", saved, err)
	}
	if _, err := s.WorkloadText("us", "uc"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the text of a purged scheduler: %v", err)
	}
}

// A file of texts that is damaged is set aside: records stay, and workloads can be added.
func TestDamagedWorkloads(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	addWorkload(t, s, "a", []byte("of a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "workloads.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.WorkloadText("us", "ua"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("of a damaged file: %v", err)
	}
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Error(err)
	}
	addWorkload(t, s, "b", []byte("of b"))
	if text, err := s.WorkloadText("us", "ub"); err != nil || string(text) != "of b" {
		t.Errorf("%s %v", text, err)
	}
	if saved, _, err := s.LoadWorkloads(); err != nil || len(saved) != 2 {
		t.Errorf("%v %v", saved, err)
	}
}

// A backup has the jobs of workloads, and an inspection names the workload whose jobs are damaged or gone.
func TestWorkloadsInBackups(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := change(t, testSpace(t), 1)
	c.Scheduler.UID = "us"
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	addWorkload(t, s, "a", []byte("of a"))
	addWorkload(t, s, "b", []byte("of b"))
	var archive bytes.Buffer
	if _, err := s.Backup(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(&archive, restored); err != nil {
		t.Fatal(err)
	}
	again, err := Open(restored, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := again.WorkloadText("us", "ua"); err != nil || string(text) != "of a" {
		t.Errorf("restored: %s %v", text, err)
	}
	if err := errors.Join(s.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
	damage := func(dir string) error {
		t.Helper()
		report, err := Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Others) > 0 {
			t.Errorf("not part of a store: %v", report.Others)
		}
		for _, f := range report.Files {
			if f.Name == "workloads.db" {
				return f.Damage
			}
		}
		return nil
	}
	if err := damage(dir); err != nil {
		t.Errorf("of what is whole: %v", err)
	}
	path := filepath.Join(dir, "workloads.db")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("of b"), []byte("of x")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := damage(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "workload s/b") ||
		strings.Contains(err.Error(), "s/a") {
		t.Errorf("of a damaged text: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := damage(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "2 workloads") {
		t.Errorf("without the file: %v", err)
	}
}

// A workload that is deleted while a backup is written has its jobs in the backup, where its record is.
func TestWorkloadDeletedDuringBackup(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	addWorkload(t, s, "a", []byte("of a"))
	var archive bytes.Buffer
	remove := sync.OnceValue(func() error {
		return s.ChangeWorkloads(workloads.Change{Scheduler: "s", SchedulerUID: "us", Delete: true,
			Record: workloads.Record{ID: "a", UID: "ua"}, Audit: &audit.Record{Resource: "a"}})
	})
	if _, err := s.Backup(t.Context(), writer(func(p []byte) (int, error) { // config.db is copied before
		archive.Write(p)
		return len(p), remove()
	})); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(&archive, restored); err != nil {
		t.Fatal(err)
	}
	again, err := Open(restored, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	saved, _, err := again.LoadWorkloads()
	if err != nil || len(saved) != 1 {
		t.Fatalf("%v %v", saved, err)
	}
	if text, err := again.WorkloadText("us", "ua"); err != nil || string(text) != "of a" {
		t.Errorf("restored: %s %v", text, err)
	}
	if err := s.KeepWorkloads("us", nil); err != nil {
		t.Error(err)
	}
	if _, err := s.WorkloadText("us", "ua"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("after a restart the deleted one has its text: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestFullAuxiliaryFile: a commit that failed on a full disk is made again whole, on another descriptor, once records
// are shed.
func TestFullAuxiliaryFile(t *testing.T) {
	sheds := 0
	s, err := Open(t.TempDir(), Options{Shed: func() bool { sheds++; return true }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, file := range []*auxFile{&s.rounds, &s.reports, &s.workloads} {
		var calls []*bolt.DB
		sheds = 0
		err := s.writeAux(file, func(tx *bolt.Tx) error {
			if calls = append(calls, tx.DB()); len(calls) == 1 {
				return syscall.ENOSPC
			}
			return nil
		})
		if err != nil || sheds != 1 || len(calls) != 2 || calls[0] == calls[1] {
			t.Errorf("%s: %v, shed %d times, commits on %v", file.name, err, sheds, calls)
		}
	}
}
