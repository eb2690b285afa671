package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/telemetry"
)

// statuses returns the worst status of each check of a directory.
func statuses(dir string) (map[string]checkup.Status, error) {
	var r checkup.Report
	Directory(&r, dir, time.Now())
	out := map[string]checkup.Status{}
	for _, c := range r.Checks {
		if out[c.Name] != checkup.Fail && (out[c.Name] != checkup.Warn || c.Status == checkup.Fail) {
			out[c.Name] = c.Status
		}
	}
	return out, r.Err()
}

func TestDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if got, err := statuses(dir); err == nil || got["directory"] != checkup.Fail {
		t.Errorf("a missing directory: %v, %v", got, err)
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := statuses(dir); err == nil || got["lock"] != checkup.Fail {
		t.Errorf("a store in use: %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := statuses(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"directory", "layout", "files", "schedulers", "studies", "clock", "audit"} {
		if got[name] != checkup.OK {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	if _, ok := got["replica"]; ok {
		t.Error("a directory of its own is a replica")
	}
	replica := filepath.Join(t.TempDir(), "replica")
	if s, err = store.Open(replica, store.Options{Replica: true}); err == nil {
		err = s.Close()
	}
	if got, again := statuses(replica); err != nil || again != nil || got["replica"] != checkup.OK {
		t.Errorf("of a replica: %v, %v, %v", got, err, again)
	}
	config := filepath.Join(dir, store.ConfigFile)
	if err := os.Chmod(config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = statuses(dir); err != nil || got["file"] != checkup.Warn || got["others"] != checkup.Warn {
		t.Errorf("an open file beside a foreign one: %v, %v", got, err)
	}
	if err := os.Truncate(config, 100); err != nil {
		t.Fatal(err)
	}
	if got, err = statuses(dir); err == nil {
		t.Errorf("a truncated %s passes: %v", store.ConfigFile, got)
	}
}

// TestTelemetry: a flipped bit in a file of telemetry or findings is named, and their folders are no strangers (N4).
func TestTelemetry(t *testing.T) {
	good := t.TempDir()
	s, err := store.Open(good, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	kept, err := samples.Open(filepath.Join(good, samples.Folder), samples.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for hour := range 3 {
		at := time.Duration(hour) * time.Hour
		err := errors.Join(kept.Append(t.Context(), "prod", []telemetry.GPUSample{{Time: at,
			GPU: telemetry.GPU{Node: "n"}}, {Time: at + 1, GPU: telemetry.GPU{Node: "n"}}}),
			kept.AppendIterations(t.Context(), "prod", []telemetry.Iteration{{Job: "j", Took: 1, Time: at}}))
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = kept.Close()
	list := filepath.Join(good, store.FindingsFolder, "prod.json")
	err = errors.Join(os.Mkdir(filepath.Dir(list), 0o700), os.WriteFile(list, []byte(`{"version":1}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := statuses(good); err != nil || got["telemetry"] != checkup.OK || got["findings"] != checkup.OK ||
		got["others"] != "" {
		t.Errorf("%v, %v", got, err)
	}
	files, err := filepath.Glob(filepath.Join(good, samples.Folder, "prod", "*"))
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, list) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(good, file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, text...) // the end of a log may be cut off, the middle not
		text[0] ^= 8
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		check := "telemetry"
		if file == list {
			check = "findings"
		}
		if got, err := statuses(dir); err != nil || got[check] != checkup.Warn {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestUnreadableFolder: a folder that cannot be read hides no damage of another one.
func TestUnreadableFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	folder := filepath.Join(dir, samples.Folder)
	if err := errors.Join(os.MkdirAll(filepath.Join(folder, "prod"), 0o700),
		os.WriteFile(filepath.Join(folder, "prod", "raw-20250301T00"), []byte("no frame"), 0o600),
		os.Symlink("loop", filepath.Join(folder, "loop"))); err != nil {
		t.Fatal(err)
	}
	var r checkup.Report
	Directory(&r, dir, time.Now())
	var got []checkup.Status
	for _, c := range r.Checks {
		if c.Name == "telemetry" {
			got = append(got, c.Status)
		}
	}
	if !slices.Equal(got, []checkup.Status{checkup.Warn, checkup.Warn}) {
		t.Errorf("%v", r.Checks)
	}
}
