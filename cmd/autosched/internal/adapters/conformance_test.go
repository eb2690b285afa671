package adapters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestConformance: the emulated scheduler and the adapter of files conform, as processes that are killed; a client
// that does nothing fails.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Setenv("AUTOSCHED_TEST_MAIN", "1")
	self, file := os.Args[0], filepath.Join(t.TempDir(), "options.yaml")
	for _, c := range []struct {
		args    string
		code    int
		want    string
		skipped int // checks
	}{
		{"--registered themis --id prod -- " + self +
			" scheduler adapter file --server {address} --id prod --file " + file, 0,
			"PASS     crash-acknowledging\n", 7},
		{"--one-life -- " + self + " scheduler emulate --server {address} --trace sample --to 2017-10-10 --nodes 14 " +
			"--gpus-per-node 8 " +
			"--speedup 600 --faults lag=1m", 0, "PASS     snapshots\n", 4},
		{"--registered lucid --agent " + testshared.FreeAddress(t) + " -- " + self +
			" scheduler adapter file --listen {address} --form lucid --file " + file + ".called", 0, "PASS     crash-idle\n", 4},
		{"--one-life --registered tiresias --agent " + testshared.FreeAddress(t) + " -- " + self + " scheduler emulate --listen {address} --scheduler " +
			"tiresias --trace sample --to 2017-10-10 --nodes 14 --gpus-per-node 8 --speedup 600", 0, "PASS     stream\n", 3},
		{"--registered fifo --timeout 100ms -- sleep 1000", 1, "FAIL     follow: no watch or poll within 100ms\n" +
			"         expected: a watch", 1},
		{"--registered fifo --timeout 100ms --json -- sleep 1000", 1, `"schema": "autosched.conformance/v1"`, 1},
	} {
		code, out, errs := clitest.Run(append([]string{"scheduler", "conformance"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.want) || strings.Count(out, "SKIPPED") != c.skipped {
			t.Errorf("%s: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
	for args, want := range map[string]string{
		"--agent 1.2.3.4:5":        "unencrypted",
		"--agent 127.0.0.1:5":      "needs --registered",
		"--timeout 0s":             "--timeout: 0s is not positive",
		"--refuse queues":          `--refuse: "queues": want parameter=value`,
		"--registered none":        "--registered, --id: ",
		"--listen 0.0.0.0:0":       "is not a loopback address",
		"--refuse queues={}":       "is neither a number",
		"--registered fifo --id /": "--registered, --id: ",
	} {
		if code, _, errs := clitest.Run(append([]string{"scheduler", "conformance"},
			strings.Fields(args)...)...); code != 2 ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}
