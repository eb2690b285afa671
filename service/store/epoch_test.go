package store

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
)

// A restart keeps the epoch. A copy of the directory, a restored one and one started anew have
// another, with a higher counter, also where the clock went back.
func TestEpochs(t *testing.T) {
	dir := t.TempDir()
	now := time.UnixMilli(1_700_000_000_000)
	o := Options{Now: func() time.Time { return now }}
	opened := func(dir string, o Options) (controller.Epoch, string) {
		t.Helper()
		r, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return r.Epoch(), r.NewEpoch()
	}
	first, why := opened(dir, o)
	if first.ID == "" || first.Counter != now.UnixMilli() || why == "" {
		t.Fatalf("%+v: %s", first, why)
	}
	if again, why := opened(dir, o); again != first || why != "" {
		t.Errorf("after a restart %+v, because %s", again, why)
	}
	now = now.Add(-time.Hour)
	raise := o
	raise.NewEpoch = true
	restored, _ := opened(dir, raise)
	if restored.ID == first.ID || restored.Counter != first.Counter+1 {
		t.Errorf("restored %+v", restored)
	}
	if again, _ := opened(dir, o); again != restored {
		t.Errorf("after a restart %+v, want %+v", again, restored)
	}
	now = now.Add(2 * time.Hour)
	if runtime.GOOS == "linux" {
		copied := t.TempDir()
		text, err := os.ReadFile(filepath.Join(dir, configFile))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, configFile), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if second, why := opened(copied, o); second.Counter <= restored.Counter || why != "config.db is a copy" {
			t.Errorf("copy %+v: %s", second, why)
		}
	}
	if err := os.Truncate(filepath.Join(dir, configFile), 0); err != nil {
		t.Fatal(err)
	}
	o.StartAnew = true
	if anew, _ := opened(dir, o); anew.ID == restored.ID || anew.Counter <= restored.Counter {
		t.Errorf("started anew %+v, want after %+v", anew, restored)
	}
}
