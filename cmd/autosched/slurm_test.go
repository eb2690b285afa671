package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeSlurm puts programs of Slurm's names into PATH that answer from files, and returns slurm.conf's path.
func fakeSlurm(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	include := write("autosched/autosched.conf", "PriorityWeightAge=10\nSchedulerParameters=bf_interval=1\n", 0o644)
	write("autosched/autosched.conf.prev", "PriorityWeightAge=20\nSchedulerParameters=bf_interval=1\n", 0o644)
	conf := write("slurm.conf", "ClusterName=fake\ninclude "+include+"\n", 0o644)
	write("bin/scontrol", `#!/bin/sh
case "$*" in
"show config")
	echo "ClusterName = fake"; echo "PriorityType = priority/multifactor"; echo "SLURM_VERSION = 22.05.8"
	echo "AccountingStorageTRES = cpu,gres/gpu"
	sed '/^#/d; s/=/ = /' "`+include+`";;
ping) echo "Slurmctld(primary) at host is UP";;
"show partition -o") echo "PartitionName=p MaxTime=1-00:00:00 TRES=gres/gpu=8 TRESBillingWeights=GRES/gpu=1.0";;
esac
`, 0o755)
	write("bin/sacctmgr", `#!/bin/sh
case "$*" in
"-nP show qos"*) echo "normal|0"; echo "high|5";;
*AdminLevel) echo Administrator;;
*) echo;;
esac
`, 0o755)
	for _, name := range []string{"sprio", "sdiag", "sacct", "squeue"} {
		write("bin/"+name, "#!/bin/sh\necho\n", 0o755)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("SLURM_CONF", conf)
	return conf
}

// TestSlurmCommands checks, applies and takes back a file at a Slurm that answers from files.
func TestSlurmCommands(t *testing.T) {
	conf := fakeSlurm(t)
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
		code, out, errs := command(append([]string{"slurm"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("slurm %s: exit %d: %s%s, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	text, err := os.ReadFile(include)
	if err != nil || !strings.Contains(string(text), "PriorityWeightAge=10\n") {
		t.Errorf("after the rollback the file is %q (%v)", text, err)
	}
}
