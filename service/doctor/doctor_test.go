package doctor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/service/store"
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
