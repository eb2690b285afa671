package waste

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/replay"
)

// TestRecommend: jobs of a key that crash are advised to be held, and that is simulated; where
// none crash, nothing is advised.
func TestRecommend(t *testing.T) {
	const head = "job_id,submit_time,duration_s,gpus,user,key,status,wait_s\n"
	at := func(s int) string { return time.Unix(1_700_000_000+int64(s), 0).UTC().Format(time.RFC3339) }
	var jobs, crashes strings.Builder
	for i := range 200 {
		fmt.Fprintf(&jobs, "a%d,%s,9000,4,u%d,k%d,completed,0\n", i, at(600*i), i%5, i%7)
	}
	for k := range 12 {
		fmt.Fprintf(&crashes, "c%d,%s,180,4,bad,train,failed,0\n", k, at(20000+360*k))
	}
	for _, x := range []struct{ name, rows, want string }{
		{"healthy", head + jobs.String(), "none holds"},
		{"crashing", head + jobs.String() + crashes.String(), "Under fifo over"},
	} {
		path := filepath.Join(t.TempDir(), x.name+".csv")
		if err := os.WriteFile(path, []byte(x.rows), 0o666); err != nil {
			t.Fatal(err)
		}
		code, out, errs := clitest.Run("recommend", "--trace", path, "--nodes", "8", "--gpus-per-node", "8", "--scheduler", "fifo", "--rule",
			"crash_loop")
		if code != 0 || !strings.Contains(out, x.want) {
			t.Errorf("%s: exit %d\n%s%s", x.name, code, out, errs)
		}
	}
}

// TestRecommendAStraggler: a job whose workers wait for one runs at their pace in simulation.
func TestRecommendAStraggler(t *testing.T) {
	dir := t.TempDir()
	zero := int64(1_700_000_000)
	rows := "job,worker,step,seconds,time\n"
	for step := range 600 { // a worker is twice as slow for ten hours
		for w := range 4 {
			rows += fmt.Sprintf("slow,%d,%d,%d,%d\n", w, step, 30+w/3*30, zero+60*int64(step+1))
		}
	}
	at := time.Unix(zero, 0).UTC().Format(time.RFC3339)
	jobs := "job_id,submit_time,duration_s,gpus,wait_s\nslow," + at + ",36000,4,0\nnext," + at + ",3600,4,36000\n"
	for name, text := range map[string]string{"jobs.csv": jobs, "steps.csv": rows} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := clitest.Run("recommend", "--trace", filepath.Join(dir, "jobs.csv"), "--iterations",
		filepath.Join(dir, "steps.csv"), "--nodes", "1", "--gpus-per-node", "4", "--scheduler", "fifo", "--rule", "straggler", "--json")
	var r struct{ Advice []recommend.Advice }
	err := json.Unmarshal([]byte(out), &r)
	if code != 0 || err != nil || len(r.Advice) != 1 || r.Advice[0].Simulated == nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	e := r.Advice[0].Simulated
	testshared.Near(t, "freed GPU-hours", e.Freed.Mean, 20, 1)
	testshared.Near(t, "mean wait before in hours", e.Before.WaitS/3600, 5, 1e-6)
	testshared.Near(t, "mean wait after in hours", e.After.WaitS/3600, 2.5, .2)
}

// TestRecommendAConfiguration: where a queue feeds on itself, the rule that all commands share says whether other
// settings are better, and the commands that apply them follow.
func TestRecommendAConfiguration(t *testing.T) {
	text := "job_id,submit_time,duration_s,gpus,user,tenant,key,wait_s\n"
	zero := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for day := range 12 {
		for k := range 144 { // of 6 and of 4 GPUs in turn, more than FIFO runs of them without backfill
			at := zero.Add(time.Duration(day)*24*time.Hour + time.Duration(k)*75*time.Second)
			text += fmt.Sprintf("d%d-%d,%s,90,%d,u,team%d,k,%d\n", day, k, at.Format(time.RFC3339), 6-2*(k%2), k%2,
				15*k)
		}
	}
	path := filepath.Join(t.TempDir(), "spiral.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"recommend", "--trace", path, "--nodes", "1", "--gpus-per-node", "8", "--scheduler",
		"fifo", "--rule", "queue_spiral"}
	code, out, errs := clitest.Run(append(args, "--service", "prod")...)
	for _, want := range []string{"\n   Whether other settings are better is said below.\n",
		"\nChange once: set backfill=true. Expected average JCT -",
		"\n   Check:     autosched scheduler what-if prod --set backfill=true\n",
		"\n   Apply:     autosched scheduler config pin prod --set backfill=true --reason 'autosched recommend'\n",
		"\n   Take back: autosched scheduler config unpin prod\n"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %q is missing in %s%s", code, want, out, errs)
		}
	}
	code, _, errs = clitest.Run(append(args, "--set", "backfill=true", "--recorded-scheduler", "fifo")...)
	if code != 1 || !strings.Contains(errs, "does not describe the recorded cluster") {
		t.Errorf("a history that is not described: exit %d: %s", code, errs)
	}
	code, out, errs = clitest.Run(append(args, "--set", "backfill=true", "--json")...)
	var r struct {
		Verdict struct{ Change bool }
		Apply   []string
	}
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Verdict.Change || r.Apply != nil {
		t.Errorf("beside backfill nothing is better: exit %d, %v: %+v %s", code, err, r, errs)
	}
}

// TestRecommendAtASite: of a Slurm site, advice is compared with its configuration, and the advice ends with the
// change of slurm.conf, which is written.
func TestRecommendAtASite(t *testing.T) {
	dir := t.TempDir()
	site, tuned, trace := filepath.Join(dir, "site"), filepath.Join(dir, "tuned.conf"), filepath.Join(dir, "sacct.psv")
	if code, _, errs := clitest.Run("slurm", "init", "--saved", clitest.Listings, "--out", site); code != 0 {
		t.Fatal(errs)
	}
	var b strings.Builder
	b.WriteString("JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|" +
		"ReqTRES|AllocTRES|NNodes|NodeList\n")
	for day := range 8 {
		for k := range 144 { // a wide job a day, and others that wait longer and longer behind it
			gpus, nodes, run := 1+k%3, 1, 700
			if k == 10 {
				gpus, nodes, run = 16, 2, 600
			}
			submit := 1_700_000_000 + 86400*day + 75*k
			start := submit + 15*k
			tres := fmt.Sprintf("cpu=%d,gres/gpu=%d,mem=1G,node=%d", gpus, gpus, nodes)
			fmt.Fprintf(&b, "%d|j|u%d|%s|train|normal|COMPLETED|%d|%d|%d|%d|%d|%d|%s|%s|%d|g[1-%d]\n", 144*day+k+1, k%5,
				[]string{"vc1", "team"}[k/2%2], submit, submit, start, start+run, run, 2*run/60, tres, tres, nodes,
				nodes)
		}
	}
	if err := os.WriteFile(trace, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"recommend", "--trace", trace, "--site", site, "--rule", "queue_spiral", "--set",
		"PriorityWeightTRES.gpu=0", "--ignore-fidelity", "--guard", "off", "--conf-out", tuned}
	code, out, errs := clitest.Run(append(args, "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	var a struct {
		Verdict  replay.Verdict
		Settings *replay.SettingsChange
		Apply    []string
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	apply := "autosched slurm apply " + tuned
	if !a.Verdict.Change || a.Settings == nil || len(a.Settings.Waits) == 0 ||
		!slices.Equal(a.Apply, []string{apply + " --dry-run", apply, "autosched slurm rollback"}) {
		t.Fatalf("%+v", a)
	}
	if text, err := os.ReadFile(tuned); err != nil || string(text) != a.Settings.Text ||
		!strings.Contains(a.Settings.Text, "PriorityWeightJobSize=") {
		t.Errorf("%v: the file is\n%s\nand the advice has\n%s", err, text, a.Settings.Text)
	}
	if code, out, _ = clitest.Run(args...); code != 0 || !strings.Contains(out, "\n  "+apply+"\n") ||
		strings.Contains(out, "scheduler config pin") {
		t.Errorf("exit %d, %s", code, out)
	}
	if code, _, errs = clitest.Run(append(args, "--service", "prod")...); code != 2 ||
		!strings.Contains(errs, "--site and --service exclude each other") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
