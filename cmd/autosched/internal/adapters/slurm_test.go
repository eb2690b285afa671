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
		{qos, "run --id x --allow-qos all", 2, "--allow-qos"},
		{"PriorityWeightAge=5\nSchedulerParameters=bf_interval=1\n", "apply " + file, 0, "in force by " + include},
		{"PriorityWeightAge=6\nSchedulerParameters=bf_interval=1\n", "apply " + file + " --install tee," + include +
			" --state-dir " + filepath.Join(t.TempDir(), "notes"), 0, "PriorityWeightAge = 6"},
		{"PriorityWeightAge=7\nSchedulerParameters=bf_interval=1\n", "apply " + file + " --install false --state-dir " +
			filepath.Join(t.TempDir(), "notes"), 1, "false: exit status 1"},
		{"", "install-file --slurm-conf " + conf, 1, "it sets nothing"},
		{"", "rollback", 0, "PriorityWeightAge=10"},
		{"", "doctor", 0, "partition p: GRES/gpu=1.0"},
		{"", "run --mode maybe --id x", 2, "--mode"},
		{"", "run", 2, "--id: is missing"},
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

// TestSlurmDoor: no configuration is taken from a service that anyone commands; one that asks who calls is no obstacle.
func TestSlurmDoor(t *testing.T) {
	clitest.FakeSlurm(t)
	dir := t.TempDir()
	pki := filepath.Join(dir, "pki")
	if code, _, errs := clitest.Run("admin", "certs", pki, "--host", "127.0.0.1", "--id", "prod"); code != 0 {
		t.Fatal(errs)
	}
	as := func(name string) []string {
		return []string{"--tls-ca", filepath.Join(pki, "ca.pem"), "--tls-cert", filepath.Join(pki, name+".pem"), "--tls-key",
			filepath.Join(pki, name+".key")}
	}
	_, open := clitest.ServeProcess(t, filepath.Join(dir, "open"), "127.0.0.1:0")
	_, asks := clitest.ServeProcess(t, filepath.Join(dir, "asks"), "127.0.0.1:0", "--tls-cert",
		filepath.Join(pki, "server.pem"), "--tls-key", filepath.Join(pki, "server.key"), "--client-ca",
		filepath.Join(pki, "ca.pem"), "--roles", filepath.Join(pki, "roles.yaml"))
	for _, c := range []struct {
		server, mode    string
		register, flags []string
		want            string
	}{
		{open, "recommend", nil, nil, "does not ask who calls"},
		{open, "auto", nil, nil, "does not ask who calls"},
		{open, "recommend", nil, []string{"--allow-anonymous"}, "no such file"},
		{asks, "recommend", as("admin"), as("scheduler-prod"), "no such file"},
		{asks, "auto", as("admin"), as("scheduler-prod"), "autosched scheduler update prod --mode auto"},
	} {
		clitest.Run(append([]string{"scheduler", "register", "--server", c.server, "--builtin", "slurm", "--id", "prod",
			"--mode", "recommend", "--nodes", "4", "--gpus-per-node", "8"}, c.register...)...)
		code, _, errs := clitest.Run(append([]string{"slurm", "run", "--server", c.server, "--id", "prod", "--mode",
			c.mode, "--slurm-conf", filepath.Join(dir, "slurm.conf")}, c.flags...)...)
		if code != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s %v: %d %s, want %q", c.mode, c.flags, code, errs, c.want)
		}
	}
}
