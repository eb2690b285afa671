package adapters

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	slurmsite "github.com/autosched/autosched/adapter/slurm/site"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// The history of export: jobs a minute apart on each of some days.
const (
	exportDays   = 12
	exportPerDay = 100
	exportBegin  = 1_700_000_000
)

// export writes the output of sacct for jobs that waited: narrow ones behind wide ones, and short ones behind long
// ones.
func export(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|" +
		"ReqTRES|AllocTRES|NNodes|NodeList\n")
	for i := range exportDays * exportPerDay {
		gpus, nodes, run := 1+i%3, 1, 400+60*(i%7)
		if i%6 == 0 {
			gpus, nodes, run = 16, 2, 4000
		}
		submit := exportBegin + 86400*(i/exportPerDay) + 60*(i%exportPerDay)
		start := submit + 300*(i%4)
		tres := fmt.Sprintf("cpu=%d,gres/gpu=%d,mem=1G,node=%d", gpus, gpus, nodes)
		fmt.Fprintf(&b, "%d|j|u%d|%s|train|normal|COMPLETED|%d|%d|%d|%d|%d|%d|%s|%s|%d|g[1-%d]\n", i+1, i%5,
			[]string{"vc1", "team"}[i%2], submit, submit, start, start+run, run, 2*run/60, tres, tres, nodes, nodes)
	}
	path := filepath.Join(dir, "sacct.psv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSite(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	site, tuned, trace := filepath.Join(dir, "site"), filepath.Join(dir, "tuned.conf"), export(t, dir)
	saved := filepath.Join(dir, "saved")
	if err := os.CopyFS(saved, os.DirFS(clitest.Listings)); err != nil {
		t.Fatal(err)
	}
	events := "NodeName|TimeStart|TimeEnd|State\ng2|1700000000|1700009999|DRAIN\n"
	if err := os.WriteFile(filepath.Join(saved, "events.txt"), []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := clitest.Run("slurm", "init", "--saved", saved, "--out", site); code != 0 {
		t.Fatal(errs)
	}
	run := func(args ...string) map[string]json.RawMessage {
		t.Helper()
		code, out, errs := clitest.Run(append(args, "--trace", trace, "--site", site, "--ignore-fidelity", "--json")...)
		if code != 0 {
			t.Fatalf("%v: %d %s", args, code, errs)
		}
		var r map[string]json.RawMessage
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	// The adopted values are in the file, and the incumbent has the values that init read.
	r := run("tune", "--guard", "off", "--budget", "100", "--futures", "2", "--horizon", "30m", "--conf-out", tuned)
	var change replay.SettingsChange
	if err := json.Unmarshal(r["settings_change"], &change); err != nil {
		t.Fatalf("%v: %s", err, r["reason"])
	}
	text, err := os.ReadFile(tuned)
	if err != nil || string(text) != change.Text {
		t.Errorf("%v: the file is\n%s\nand the report has\n%s", err, text, change.Text)
	}
	configs := func(path string) string {
		t.Helper()
		c, err := conf.Read(path, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		config, _, err := c.Current()
		if err != nil {
			t.Fatal(err)
		}
		return config.Canonical()
	}
	if got := string(r["best"]); !same(t, got, configs(tuned)) {
		t.Errorf("the file puts in force\n%s\nand the search found\n%s", configs(tuned), got)
	}
	// Backfill keeps to the ranges of init: the window in force, and ten seconds.
	var best space.Values
	if err := json.Unmarshal(r["best"], &best); err != nil || best["SchedulerParameters.bf_window"].Float() < 1440 ||
		best["SchedulerParameters.bf_interval"].Float() < 10 {
		t.Errorf("%v: backfill is %s", err, r["best"])
	}
	if got := string(r["incumbent"]); !same(t, got, configs(filepath.Join(site, "autosched.conf"))) {
		t.Errorf("the incumbent is %s", got)
	}
	if a := change.Waits[0]; a.By != "all" || a.Jobs != exportDays*exportPerDay || !strings.HasPrefix(change.Patch, "--- "+site) {
		t.Errorf("%+v\n%s", a, change.Patch)
	}
	if got := string(r["at"]); got != time.Unix(exportBegin+86400*(exportDays-1)+60*(exportPerDay-1), 0).UTC().Format(`"`+time.RFC3339+`"`) {
		t.Errorf("tuned at %s, want the last submission", got)
	}
	node, err := os.ReadFile(filepath.Join(site, "node-events.csv"))
	const drained = "time,node,event,gpus\n2023-11-14T22:13:20Z,1,drain,\n2023-11-15T00:59:59Z,1,up,\n"
	if err != nil || string(node) != drained {
		t.Errorf("%v: the node events are\n%s\nwant\n%s", err, node, drained)
	}
	r = run("compare")
	var rows []struct{ Name string }
	if err := json.Unmarshal(r["rows"], &rows); err != nil || rows[0].Name != "current" {
		t.Errorf("%v: the baseline is %+v, want what the site runs", err, rows)
	}
	r = run("evaluate", "--from", "2023-11-25T00:00:00Z", "--interval", "2h", "--seeds", "1", "--futures", "2",
		"--horizon", "30m", "--methods", "current,fixed-oracle", "--budget", "6", "--conf-out", tuned)
	var answer struct{ Configuration string }
	if err := json.Unmarshal(r["answer"], &answer); err != nil {
		t.Fatal(err)
	}
	if (answer.Configuration == "") != (r["settings_change"] == nil) {
		t.Errorf("the answer is %s, and the change %s", r["answer"], r["settings_change"])
	}
	// A history of a day is too short to answer.
	code, out, errs := clitest.Run("compare", "--trace", trace, "--site", site, "--ignore-fidelity", "--from",
		"2023-11-25T00:00:00Z", "--row",
		"slow=slurm:SchedulerParameters.bf_interval=300,SchedulerParameters.sched_interval=300", "--conf-out", dir+"/none")
	if _, err := os.Stat(dir + "/none"); code != 0 || err == nil || !strings.Contains(out, dir+"/none is not written") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	code, out, errs = clitest.Run("fidelity", "--trace", trace, "--site", site)
	if code != 0 || !strings.Contains(out, "slurm (recorded: slurm)") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

// same reports whether two texts are the same JSON.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y space.Values
	for text, to := range map[string]*space.Values{a: &x, b: &y} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func TestSiteRefuses(t *testing.T) {
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	if code, _, errs := clitest.Run("slurm", "init", "--saved", clitest.Listings, "--out", site); code != 0 {
		t.Fatal(errs)
	}
	for args, want := range map[string]string{
		"tune --site " + dir:                            "cluster.json is missing: name the folder",
		"tune --conf-out x":                             "describe the cluster with --site",
		"evaluate --site " + site + " --scheduler fifo": "--scheduler is fifo",
		"compare --site " + site + " --nodes 4":         "exclude each other",
		"fidelity --site " + site + " --cluster x.json": "exclude each other",
	} {
		if code, _, errs := clitest.Run(append(strings.Fields(args), "--trace", "sample")...); code == 0 ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: %d %s, want %q", args, code, errs, want)
		}
	}
}

// TestSitePresets: under --site a preset changes the order of jobs, and leaves the site's intervals as they are.
func TestSitePresets(t *testing.T) {
	site := filepath.Join(t.TempDir(), "site")
	if code, _, errs := clitest.Run("slurm", "init", "--saved", clitest.Listings, "--out", site); code != 0 {
		t.Fatal(errs)
	}
	registration := filepath.Join(site, "scheduler.json")
	text, err := os.ReadFile(registration)
	if err != nil {
		t.Fatal(err)
	}
	registered, err := cli.LoadSpace(text, registration)
	if err != nil {
		t.Fatal(err)
	}
	s, err := slurmsite.Narrow(registered)
	if err != nil {
		t.Fatal(err)
	}
	current, err := os.ReadFile(filepath.Join(site, "current.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range s.Presets {
		names = append(names, p.Name)
		for _, id := range slurm.Intervals {
			if line := id + ": " + p.Config.Get(id).String(); !strings.Contains(string(current), line+"\n") {
				t.Errorf("%s: %q is not in the site's settings:\n%s", p.Name, line, current)
			}
		}
	}
	if want := []string{"few-gpus", "small", "site", "default-order"}; !slices.Equal(names, want) {
		t.Errorf("presets %v, want %v", names, want)
	}
}
