package adapters

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

func TestSlurmInit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "slurm.conf")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ClusterName=emulated\nPriorityWeightAge=1000\nSchedulerParameters=bf_interval=20\nMailProg=/bin/true\n")
	site := filepath.Join(dir, "site")
	code, out, errs := clitest.Run("slurm", "init", "--saved", clitest.Listings, "--slurm-conf", file, "--out", site, "--json")
	var r slurmInit
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("%d %v: %s", code, err, errs)
	}
	if len(r.Move) != 2 || r.Move[0] != file+":2: PriorityWeightAge" || r.Move[1] != file+":3: SchedulerParameters" {
		t.Errorf("lines to move are %q", r.Move)
	}
	if r.Present || r.Include != "include autosched.conf" || r.Link == "" || len(r.Files) != 5 {
		t.Errorf("%+v", r)
	}
	write("ClusterName=emulated\ninclude " + filepath.Join(site, "autosched.conf") + "\n")
	code, out, errs = clitest.Run("slurm", "init", "--saved", clitest.Listings, "--slurm-conf", file, "--out", site,
		"--include", filepath.Join(site, "autosched.conf"))
	if code != 0 || !strings.Contains(out, "includes it already") || strings.Contains(out, "take out") {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
	// The other commands take the written files, and the file in force has the values of current.yaml.
	cluster, current := filepath.Join(site, "cluster.json"), filepath.Join(site, "current.yaml")
	simulate := func(args ...string) string {
		code, out, errs := clitest.Run(append([]string{"simulate", "--trace", "sample", "--cluster", cluster, "--scheduler",
			"slurm", "--to", "6h", "--skip-wider", "--json"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: %d %s", args, code, errs)
		}
		var r struct{ Configuration, Metrics any }
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(r)
		return string(text)
	}
	a, b := simulate("--config", current), simulate("--slurm-conf", filepath.Join(clitest.Listings, "config.txt"))
	if c := simulate("--slurm-conf", filepath.Join(site, "autosched.conf")); a != b || a != c {
		t.Errorf("%s\n%s\n%s", a, b, c)
	}
	code, _, errs = clitest.Run("scheduler", "validate", filepath.Join(site, "scheduler.json"))
	if code != 0 {
		t.Errorf("the registration: %d %s", code, errs)
	}
}

// TestTuneQOS: priorities of QOS that init opens are parameters of the registration, and of simulations of the site.
func TestTuneQOS(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	site, tuned := filepath.Join(dir, "site"), filepath.Join(dir, "tuned.conf")
	if code, _, errs := clitest.Run("slurm", "init", "--saved", clitest.Listings, "--out", site, "--tune-qos",
		"all"); code != 0 {
		t.Fatal(errs)
	}
	if code, out, errs := clitest.Run("scheduler", "validate", filepath.Join(site, "scheduler.json")); code != 0 ||
		!strings.Contains(out, "QOS.high.Priority") {
		t.Errorf("the registration: %d %s%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(site, "autosched.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tuned, []byte(strings.Replace(string(text), "high.Priority=100", "high.Priority=40", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	// The one row is by name, and the other by the file: they are the same configuration.
	code, out, errs := clitest.Run("compare", "--trace", export(t, dir), "--site", site, "--ignore-fidelity", "--json",
		"--slurm-conf", tuned, "--row", "mine=slurm:QOS.high.Priority=40")
	var r struct {
		Rows []struct{ Configuration map[string]any }
	}
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("%d %v: %s", code, err, errs)
	}
	for _, row := range r.Rows {
		if row.Configuration["QOS.high.Priority"] != 40.0 || row.Configuration["QOS.normal.Priority"] != 50.0 {
			t.Errorf("a row has %v", row.Configuration)
		}
	}
	for args, want := range map[string]string{
		"simulate --trace sample --nodes 4 --scheduler slurm --slurm-conf " + tuned: "QOS.high.Priority: is not tuned here",
		"slurm init --saved " + clitest.Listings + " --tune-qos bulk --out " + dir:  "--tune-qos: there is no QOS \"bulk\"",
	} {
		if code, _, errs := clitest.Run(strings.Fields(args)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s, want %q", args, code, errs, want)
		}
	}
}

func TestSlurmInitRefuses(t *testing.T) {
	empty := t.TempDir()
	bad := filepath.Join(empty, "slurm.conf")
	if err := os.WriteFile(bad, []byte("ClusterName=a\n\nSchedulerParameters=bf_interval=1d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := filepath.Join(empty, "cluster.json")
	if err := os.WriteFile(cluster, []byte(`{"groups":[{"nodes":-1,"gpus_per_node":8}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	simulate := []string{"simulate", "--trace", "sample"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"slurm", "init", "--saved", empty, "--out", empty}, "write into it what scontrol show config prints"},
		{[]string{"slurm", "init", "--saved", clitest.Listings, "--out", "-"}, "--out: - is no name of a folder"},
		{[]string{"slurm", "init", "--saved", clitest.Listings, "--slurm-conf", empty + "/none", "--out", empty}, "--slurm-conf"},
		{append(simulate, "--scheduler", "slurm", "--slurm-conf", bad, "--nodes", "4"),
			"slurm.conf:3: SchedulerParameters.bf_interval"},
		{append(simulate, "--slurm-conf", bad, "--nodes", "4"), "give --scheduler slurm"},
		{append(simulate, "--scheduler", "slurm", "--slurm-conf", bad, "--preset", "small", "--nodes", "4"),
			"exclude each other"},
		{append(simulate, "--cluster", cluster), "cluster.json"},
		{append(simulate, "--cluster", cluster, "--nodes", "4"), "exclude each other"},
		{append(simulate, "--cluster", empty+"/none"), "--cluster"},
	} {
		if code, _, errs := clitest.Run(c.args...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %s, want %q", c.args, code, errs, c.want)
		}
	}
}
