package adapters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestSlurmCommands checks, applies and takes back a file at a Slurm that answers from files.
func TestSlurmCommands(t *testing.T) {
	conf := clitest.FakeSlurm(t)
	include := filepath.Join(filepath.Dir(conf), "autosched", "autosched.conf")
	file := filepath.Join(t.TempDir(), "tuned.conf")
	const qos = "#QOS.high.Priority=7\nPriorityWeightAge=5\nSchedulerParameters=bf_interval=1\n"
	for _, c := range []struct {
		text, args string
		code       int
		want       string
	}{
		{"PriorityWeightAge=5\nSchedulerParameters=bf_interval=1\n", "apply " + file + " --dry-run", 0, "PriorityWeightAge = 5"},
		{"PriorityWeightTRES=GRES/foo=5\n", "apply " + file + " --dry-run", 1, "GRES/foo"},
		{"NodeName=x\n", "apply " + file, 1, "NodeName"},
		{qos, "apply " + file + " --dry-run", 1, "QOS.high.Priority: sacctmgr sets it: give --allow-qos"},
		{qos, "apply " + file + " --dry-run --allow-qos own", 0, "sacctmgr -i modify qos high set Priority=7\n"},
		{qos, "apply " + file + " --allow-qos all", 2, "--allow-qos"},
		{qos, "run --scheduler x --allow-qos all", 2, "--allow-qos"},
		{"PriorityWeightAge=5\nSchedulerParameters=bf_interval=1\n", "apply " + file, 0, "in force by " + include},
		{"", "rollback", 0, "PriorityWeightAge=10"},
		{"", "doctor", 0, "partition p: GRES/gpu=1.0"},
		{"", "run --mode maybe --scheduler x", 2, "--mode"},
		{"", "run", 2, "--scheduler: is missing"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := clitest.Run(append([]string{"slurm"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("slurm %s: exit %d: %s%s, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	text, err := os.ReadFile(include)
	if err != nil || !strings.Contains(string(text), "PriorityWeightAge=10\n") {
		t.Errorf("after the rollback the file is %q (%v)", text, err)
	}
}
