package clitest

import (
	"os"
	"path/filepath"
	"testing"
)

// FakeSlurm puts programs of Slurm's names into PATH that answer from files, and returns slurm.conf's path.
func FakeSlurm(t *testing.T) string {
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
