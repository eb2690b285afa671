package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/service/store"
)

// The directory of a service moves to a cluster, once.
func TestMigrate(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err == nil {
		err = s.Close()
	}
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err == nil {
		err = os.WriteFile(file, []byte("node: a\ndir: "+home+"\nembedded: {}\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"admin", "migrate", "--cluster", file, "--dir", dir}
	if code, out, errs := clitest.Run(args...); code != 0 || !strings.Contains(out, "moved: 0 schedulers") {
		t.Fatal(code, out, errs)
	}
	if code, _, errs := clitest.Run(args...); code != 1 || !strings.Contains(errs, "has records already") {
		t.Error(code, errs)
	}
	if code, _, errs := clitest.Run("admin", "migrate", "--cluster", file); code != 0 {
		t.Error(code, errs)
	}
	if code, _, errs := clitest.Run("serve", "--dir", dir, "--listen", "127.0.0.1:0"); code != 1 ||
		!strings.Contains(errs, "moved") {
		t.Error(code, errs)
	}
}
