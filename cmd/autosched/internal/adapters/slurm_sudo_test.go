package adapters_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSlurmSudo: by a rule of sudo for exactly the words of the docs, an account puts settings into a file of root, and
// nothing else.
func TestSlurmSudo(t *testing.T) {
	const account = "games" // of every system
	for _, program := range []string{"sudo", "setpriv", "unshare"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			t.Skipf("needs root and %s: install sudo and util-linux (%v)", program, err)
		}
	}
	if out, err := exec.Command("unshare", "-m", "mount", "--make-rprivate", "/").CombinedOutput(); err != nil {
		t.Skipf("mounts of its own are not allowed here: %s", out)
	}
	dir, err := os.MkdirTemp("", "sudo") // that of the test is closed to other accounts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	put := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := put("autosched", fmt.Sprintf("#!/bin/sh\nAUTOSCHED_TEST_MAIN=1 exec %s \"$@\"\n", self), 0o755)
	const first = "PriorityWeightAge=1\n"
	include := put("etc/autosched/autosched.conf", first, 0o644)
	conf := put("etc/slurm.conf", "ClusterName=x\ninclude autosched.conf\n", 0o644)
	if err := os.Symlink("autosched/autosched.conf", filepath.Join(dir, "etc", "autosched.conf")); err != nil {
		t.Fatal(err)
	}
	words := []string{program, "slurm", "install-file", "--slurm-conf", conf}
	rule := put("rule", fmt.Sprintf("%s ALL=(root) NOPASSWD: %s\n", account, strings.Join(words, " ")), 0o440)
	// sudo's rules are this mount's alone.
	const own = `mount -t tmpfs -o mode=755 tmpfs /etc/sudoers.d && install -m 440 "$1" /etc/sudoers.d/autosched &&
as=$2 && shift 2 && exec setpriv --reuid $as --regid $as --clear-groups env SLURM_CONF=/dev/null sudo -n "$@"`
	call := func(text string, words ...string) (string, error) {
		cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", own, "sh", rule, account}, words...)...)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	has := func(path, want string) {
		t.Helper()
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s is %q (%v), want %q", path, text, err, want)
		}
	}
	const second = "PriorityWeightAge=2\n"
	if out, err := call(second, words...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	has(include, second)
	has(include+".prev", first)
	if out, err := call("PriorityWeightAge=3\nProlog=/tmp/x\n", words...); err == nil || !strings.Contains(out, "Prolog") {
		t.Errorf("a program for the nodes: %v %s", err, out)
	}
	for _, other := range [][]string{{program, "slurm", "install-file"}, append(words[:len(words):len(words)], "--include",
		"/etc/passwd"), {program, "slurm", "rollback"}, {"sh"}} {
		if out, err := call(first, other...); err == nil || !strings.Contains(out, "password is required") {
			t.Errorf("%v: %v %s", other, err, out)
		}
	}
	has(include, second)
	if info, err := os.Stat(include); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v %v", info, err)
	}
	if out, err := call(first, words...); err != nil { // the way back
		t.Errorf("%v: %s", err, out)
	}
	has(include, first)
}
