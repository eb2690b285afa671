package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/client"
)

// TestElsewhere names lines of any file that set tuned parameters, and none of the include file.
func TestElsewhere(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	include := file("autosched.conf", "PriorityWeightAge=1\n")
	file("more.conf", "# PriorityWeightAge=5\npriorityweightage = 3\n")
	conf := file("slurm.conf", "ClusterName=x\ninclude more.conf\nInclude "+include+"\n")
	got, err := elsewhere(conf, include, owned([]string{weightAge}))
	if err != nil || len(got) != 1 || !strings.HasSuffix(got[0], "more.conf:2: priorityweightage") {
		t.Errorf("%q %v", got, err)
	}
	copied := map[string]string{}
	top, err := stageFile(t.TempDir(), conf, include, []byte("PriorityWeightAge=2\n"), copied)
	if err != nil || len(copied) != 3 {
		t.Fatalf("%v %v", copied, err)
	}
	text, err := os.ReadFile(copied[include])
	if err != nil || string(text) != "PriorityWeightAge=2\n" {
		t.Errorf("%s is staged as %q (%v)", top, text, err)
	}
}

func TestDiagnostics(t *testing.T) {
	text, err := os.ReadFile("testdata/sdiag.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := diagnosticsOf(string(text))
	const warning = "Backfilling stats (WARNING: data obtained in the middle of backfilling execution.)\n"
	if inCycle := diagnosticsOf(strings.Replace(string(text), "Backfilling stats\n", warning, 1)); inCycle != d {
		t.Errorf("in the middle of a cycle %+v, want %+v", inCycle, d)
	}
	if d.now.Unix() != 1795401357 || d.queue != 0 || d.backfill != 2867*time.Microsecond {
		t.Errorf("%+v", d)
	}
}

// TestFatalFilesAreRemembered, whatever their comments say.
func TestFatalFilesAreRemembered(t *testing.T) {
	target := &Target{Fatal: filepath.Join(t.TempDir(), "fatal")}
	if err := target.noteFatal([]byte("# a\nPriorityWeightAge=1\n")); err != nil {
		t.Fatal(err)
	}
	if was, err := target.wasFatal([]byte("# b\nPriorityWeightAge=1\n")); !was || err != nil {
		t.Error(was, err)
	}
	if was, err := target.wasFatal([]byte("PriorityWeightAge=2\n")); was || err != nil {
		t.Error(was, err)
	}
	if !errors.Is(target.ended("/does/not/exist", 0, nil), client.ErrRefused) {
		t.Error("an end of slurmctld is no refusal")
	}
}

// TestWhatIsRefused: a file that slurmctld refuses is at fault, one that the account may not have it read is not.
func TestWhatIsRefused(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/scontrol", `#!/bin/sh
case "$1" in
ping) echo "Slurmctld(primary) at fake is UP" ;;
show) echo "ClusterName = fake" ;;
reconfigure) cat "`+f.dir+`/said" >&2; exit 1 ;;
esac
`)
	for said, refused := range map[string]bool{
		"slurm_reconfigure error: SelectType change requires restart of the slurmctld daemon": true,
		"scontrol: fatal: Unable to process configuration file":                               true,
		"slurm_reconfigure error: Invalid user id":                                            false,
		"slurm_reconfigure error: Access/permission denied":                                   false,
		"sudo: a password is required":                                                        false,
	} {
		f.write("said", said+"\n")
		err := (&Target{}).reconfigure(t.Context(), "/does/not/exist")
		if err == nil || !strings.Contains(err.Error(), said) || errors.Is(err, client.ErrRefused) != refused {
			t.Errorf("%s: %v", said, err)
		}
	}
}
