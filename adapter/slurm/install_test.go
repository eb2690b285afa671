package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstallFile: a file that another account hands over gets nothing into slurm.conf but settings that are tuned, and
// the files before can be put back.
func TestInstallFile(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "autosched")
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	const first = "PriorityWeightAge=1\nSchedulerParameters=bf_interval=30,site_option=1\n"
	put("autosched/autosched.conf", first)
	put("slurm.conf", "AccountingStorageTRES=gres/gpu\nPriorityType=priority/multifactor\ninclude autosched/autosched.conf\n")
	o := Options{Conf: filepath.Join(dir, "slurm.conf")}
	has := func(name, want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(text) != want {
			t.Errorf("%s is %q (%v), want %q", name, text, err, want)
		}
	}
	for text, want := range map[string]string{
		"PriorityWeightAge=2\nProlog=/tmp/x\n":                               "Prolog",
		"include /tmp/x\n":                                                   "Key=value",
		"PriorityWeightAge=2\nHealthCheckProgram=/tmp/x\n":                   "HealthCheckProgram",
		"SchedulerParameters=bf_interval=30,other=1\n":                       "other",
		"PriorityWeightAge=2\\\n,x\n":                                        "continuation",
		"#" + strings.Repeat("x", 4094) + "Prolog=/x\nPriorityWeightAge=2\n": "line 1",
		"#\x00\nPriorityWeightAge=2\n":                                       "line 1",
		"":                                                                   "sets nothing",
	} {
		if err := o.InstallFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
		has("autosched.conf", first)
	}
	const second, third = "PriorityWeightAge=2\nSchedulerParameters=site_option=1,bf_interval=20\n", "PriorityWeightAge=3\n"
	for _, step := range []struct{ text, previous string }{{second, first}, {third, second}, {second, second},
		{putBack + first, second}} {
		if err := o.InstallFile([]byte(step.text)); err != nil {
			t.Fatal(err)
		}
		has("autosched.conf", step.text)
		has("autosched.conf.prev", step.previous)
		has("autosched.conf.orig", first)
	}
	for _, path := range []string{folder, filepath.Join(folder, "autosched.conf")} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := o.InstallFile([]byte(third)); err == nil || !strings.Contains(err.Error(), "other accounts") {
			t.Errorf("%s may be written by others: %v", path, err)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The adapter hands its text to a command.
	target := Target{Options: Options{Include: filepath.Join(folder, "autosched.conf"),
		Install: []string{"tee", filepath.Join(dir, "handed")}}}
	if err := target.place(t.Context(), []byte(third)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "handed")); err != nil || string(text) != third {
		t.Errorf("%q %v", text, err)
	}
	target.Install = []string{"sh", "-c", "echo no rule; exit 1"}
	if err := target.place(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no rule") {
		t.Errorf("%v", err)
	}
}
