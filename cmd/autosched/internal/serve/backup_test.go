package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestBackupRestoreDoctor: a backup of a running service is a service elsewhere, and doctor finds both well, and names
// the faults of a damaged one.
func TestBackupRestoreDoctor(t *testing.T) {
	dir := t.TempDir()
	data, restored, file := filepath.Join(dir, "data"), filepath.Join(dir, "restored"), filepath.Join(dir, "b.tar.zst")
	address, stop := clitest.StartServe(t, data)
	run := func(args ...string) (int, string, string) {
		t.Helper()
		return clitest.Run(args...)
	}
	ok := func(args ...string) string {
		t.Helper()
		code, out, errs := run(args...)
		if code != 0 {
			t.Fatalf("%v: exit %d, %s\n%s", args, code, errs, out)
		}
		return out
	}
	ok("scheduler", "register", "--builtin", "tiresias", "--nodes", "4", "--gpus-per-node", "8", "--id", "prod",
		"--server", address)
	if out := ok("admin", "backup", "--out", file, "--server", address); !strings.Contains(out, "1 file, 0.0 MiB, verified") {
		t.Error(out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if code, _, errs := run("admin", "backup", "--out", file, "--server", address); code != 1 ||
		!strings.Contains(errs, "exists already") {
		t.Errorf("exit %d, %s", code, errs)
	}
	piped := filepath.Join(dir, "piped.tar")
	code, out, errs := run("admin", "backup", "--out", "-", "--server", address)
	if code != 0 || !strings.Contains(errs, "-: 1 file, 0.0 MiB, verified") {
		t.Fatalf("exit %d, %s", code, errs)
	}
	if err := os.WriteFile(piped, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	ok("admin", "restore", "--backup", piped, "--dir", filepath.Join(dir, "piped"))
	var d checkup.Report
	text := ok("admin", "doctor", "--json", "--server", address)
	if err := json.Unmarshal([]byte(text), &d); err != nil || len(d.Checks) < 10 {
		t.Errorf("%+v, %v", d, err)
	}
	if code, out, _ := run("admin", "doctor", "--dir", data); code != 1 || !strings.Contains(out, "stop the service first") {
		t.Errorf("exit %d, %s", code, out)
	}
	stop()
	if out := ok("admin", "doctor", "--dir", data); !strings.Contains(out, "ok    schedulers    1 scheduler") {
		t.Error(out)
	}
	ok("admin", "restore", "--backup", file, "--dir", restored)
	if code, _, errs := run("admin", "restore", "--backup", file, "--dir", restored); code != 1 ||
		!strings.Contains(errs, "is not empty (config.db): name another directory") {
		t.Errorf("exit %d, %s", code, errs)
	}
	ok("admin", "doctor", "--dir", restored)
	address, stop = clitest.StartServe(t, restored)
	if out := ok("scheduler", "config", "get", "prod", "--server", address); !strings.Contains(out, "prod revision 1 (PUBLISHED)") {
		t.Error(out)
	}
	stop()

	config := filepath.Join(restored, "config.db")
	db, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	id := []byte(`"id":"prod"`)
	const named = "bucket schedulers, key prod"
	for at := bytes.Index(db, id); at >= 0 && !strings.Contains(out, named); { // copies and free pages have it too
		damaged := bytes.Clone(db)
		damaged[at+7] ^= 1
		if err := errors.Join(os.WriteFile(config, damaged, 0o600), os.Chmod(config, 0o644)); err != nil {
			t.Fatal(err)
		}
		code, out, errs = run("admin", "doctor", "--dir", restored)
		next := bytes.Index(db[at+1:], id)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	if code != 1 || !strings.Contains(out, "-> chmod 600 "+config) || !strings.Contains(out, named) ||
		!strings.Contains(errs, "1 check failed") {
		t.Errorf("exit %d, %s\n%s", code, errs, out)
	}
	settings, data := filepath.Join(dir, "serve.yaml"), filepath.Join(dir, "new")
	if err := os.WriteFile(settings, []byte("dir: "+data+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ok("admin", "doctor", "--settings", settings); !strings.Contains(out, "new is not there yet") {
		t.Error(out)
	}
	if code, _, errs := run("admin", "doctor", "--dir", data); code != 1 {
		t.Errorf("a directory that is not there: exit %d, %s", code, errs)
	}
	if code, _, errs := run("admin", "doctor"); code != 2 || !strings.Contains(errs, "--dir") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
