package waste

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/patterns"
)

// scanFiles writes a trace of one job on one node, telemetry of it, and returns their paths. The
// job does not use its GPUs.
func scanFiles(t *testing.T) (trace, gpus string) {
	t.Helper()
	dir := t.TempDir()
	trace, gpus = filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "gpus.csv")
	rows := "job_id,submit_time,duration_s,gpus,user,tenant,wait_s,nodes,status\n" +
		"a,2026-01-05T00:00:00Z,14400,2,u,t,0,n1,completed\n"
	var b strings.Builder
	b.WriteString("time,node,gpu,utilization_percent\n")
	for m := range 240 {
		for g := range 2 {
			fmt.Fprintf(&b, "2026-01-05T%02d:%02d:00Z,n1,%d,0\n", m/60, m%60, g)
		}
	}
	for path, text := range map[string]string{trace: rows, gpus: b.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return trace, gpus
}

// TestPatternsScanEvents: a log of events has more than a trace of jobs, such as preemptions.
func TestPatternsScanEvents(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events.jsonl")
	code, _, errs := clitest.Run("simulate", "--trace", "sample", "--scheduler", "tiresias", "--events-out", log)
	if code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := clitest.Run("patterns", "scan", "--trace", log, "--json")
	var r patternsScan
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatal(err, errs)
	}
	found := map[string]bool{}
	for _, f := range r.Findings {
		found[f.Rule] = true
		if f.Opened.Year() != 2017 {
			t.Errorf("%s of %v opened in %v", f.Rule, f.Entity, f.Opened)
		}
	}
	if !found["preemption_thrash"] || !found["fragmentation"] {
		t.Errorf("found %v", found)
	}
}

// TestHealthyTrace: of a trace with telemetry and nothing wrong, scan and recommend say so, and name the rules that
// were not examined.
func TestHealthyTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs, gpus := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "gpus.csv")
	rows := "job_id,submit_time,duration_s,gpus,user,key,status,wait_s\n"
	samples := "time,node,gpu,job,utilization_percent,memory_used_mib,memory_total_mib,power_w\n"
	zero := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	at := func(s int) string { return zero.Add(time.Duration(s) * time.Second).Format(time.RFC3339) }
	for i := range 12 {
		rows += fmt.Sprintf("j%d,%s,7000,1,u%d,k,completed,0\n", i, at(7200*i), i%3)
	}
	for k := range 24 * 240 {
		if s := k * 15; s%7200 < 7000 {
			samples += fmt.Sprintf("%s,n1,0,j%d,%d,30000,81920,400\n", at(s), s/7200, 85+k%10)
		}
	}
	for path, text := range map[string]string{jobs: rows, gpus: samples} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--trace", jobs, "--nodes", "1", "--gpus-per-node", "2", "--telemetry", gpus}
	const want = "Nothing is wrong in what could be examined: 8 of 15 rules had what they need, and none holds; the others " +
		"lack: measurements of guardrails, nodes of all running jobs, preemptions, quotas, times of iterations."
	for _, x := range []struct {
		verb []string
		want string
	}{
		{[]string{"patterns", "scan"}, want},
		{[]string{"recommend"}, want},
		{[]string{"recommend", "--rule", "hoarding", "--rule", "idle_allocation"},
			"Nothing is wrong: 2 of 2 rules had what they need, and none holds."},
		{[]string{"recommend", "--rule", "config_regression"},
			"Nothing could be examined: all 1 rules lack what they need: measurements of guardrails."},
	} {
		code, out, errs := clitest.Run(append(x.verb, args...)...)
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), x.want) {
			t.Errorf("%v: exit %d: %s\n%s", x.verb, code, errs, out)
		}
	}
}

func TestPatternsScan(t *testing.T) {
	jobs, gpus := scanFiles(t)
	args := []string{"patterns", "scan", "--trace", jobs, "--nodes", "1", "--gpus-per-node", "2"}
	code, out, errs := clitest.Run(append(args, "--telemetry", gpus, "--price", "2", "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	var r patternsScan
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) != 1 {
		t.Fatalf("found %v", r.Findings)
	}
	f := r.Findings[0]
	if f.Rule != "idle_allocation" || f.Entity.Name != "a" || f.WastedGPUHours < 7 || f.WastedGPUHours > 8 ||
		f.Cost != 2*f.WastedGPUHours || f.Opened.Hour() != 1 {
		t.Errorf("found %+v", f)
	}
	code, out, errs = clitest.Run(args...)
	if code != 0 || !strings.Contains(out, "Nothing is wrong in what could be examined: ") ||
		!strings.Contains(out, "no samples of GPUs: hoarding") {
		t.Errorf("without telemetry: %s\n%s", errs, out)
	}
	text, err := os.ReadFile(gpus)
	if err == nil {
		bad := string(text) + "2026-01-05T04:00:00Z,n1,0,NaN\nyesterday,n1,0,5\n"
		err = os.WriteFile(gpus, []byte(bad), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs = clitest.Run(append(args, "--telemetry", gpus)...)
	if want := "2 of 482 rows of " + gpus + ` rejected, first gpus.csv:482: utilization_percent: "NaN": is not a number; see ` +
		"'autosched telemetry validate'"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("bad rows are not reported: %s\n%s", errs, out)
	}
	for _, c := range []struct{ args, want string }{
		{"patterns scan", "name a trace, telemetry, or several"},
		{"patterns scan --trace " + jobs + " --rule hoardin", `"hoardin" is not one of hoarding, idle_allocation`},
		{"patterns scan --telemetry " + jobs, "not telemetry in a known format"},
		{"patterns scan --queue " + gpus, "GPU samples, which are not what is asked for"},
		{"patterns scan --trace " + jobs + " --labels " + jobs, "want the columns job_id and label"},
		{"patterns lint " + jobs, "line"},
		{"patterns rules nothing", `"nothing" is not one of`},
	} {
		if code, _, errs := clitest.Run(strings.Fields(c.args)...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %q, want %q", c.args, code, errs, c.want)
		}
	}
}

// TestGuardrails: a configuration after which guardrails leave their forecast is found by scan and by watch.
func TestGuardrails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guardrails.csv")
	text := "time,revision,name,value,low,high,applied\n"
	for hour, value := range []int{2, 5, 6, 7} {
		text += fmt.Sprintf("2026-01-05T%02d:00:00Z,r7,p95_wait_h,%d,1,3,2026-01-05T00:00:00Z\n", hour+1, value)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := clitest.Run("patterns", "scan", "--guardrails", path, "--json")
	var r patternsScan
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatal(err, errs)
	}
	if len(r.Findings) != 1 || r.Findings[0].Rule != "config_regression" || r.Findings[0].Entity.Name != "r7" ||
		r.Findings[0].Opened.Hour() != 4 {
		t.Errorf("scan: %s", out)
	}
	code, _, errs = clitest.Run("patterns", "scan", "--guardrails", path+"x")
	if code == 0 || !strings.Contains(errs, "--guardrails: ") {
		t.Errorf("without the file: exit %d, %s", code, errs)
	}
}

// TestFolded: findings of one rule and action are one cause: the largest is printed whole, the next in a line each.
func TestFolded(t *testing.T) {
	at := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	r := patternsScan{Size: "1 node", titles: map[string]string{"hoarding": "A job holds GPUs"}}
	add := func(rule, action, job string, hours float64, evidence ...patterns.Evidence) {
		r.Findings = append(r.Findings, &patterns.Finding{Rule: rule, Action: action, Words: "Words of " + job + ".",
			Entity: patterns.Entity{Kind: "job", Name: job}, WastedGPUHours: hours, Began: at, Opened: at, Closed: at,
			Evidence: evidence})
	}
	add("hoarding", "right_size", "1", 9, patterns.Evidence{What: "mean busy", Value: .1, Threshold: .15,
		Unit: "share"},
		patterns.Evidence{What: "GPUs with max busy", Value: 4, Threshold: 4, Unit: "GPUs"},
		patterns.Evidence{What: "message \"x\"", Value: 1, Threshold: 1})
	add("custom", "other", "2", 8)
	for job := range 6 {
		add("hoarding", "right_size", fmt.Sprint("h", job), 7)
	}
	add("hoarding", "notify", "3", 1)
	var b bytes.Buffer
	if err := r.print(&b, 2); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"9 findings, 0.0 GPU-hours wasted",
		"\n1. A job holds GPUs (hoarding): 7 findings, 51.0 GPU-hours\n   Words of 1.\n   job/1: 9.0 GPU-hours, found at ",
		"\n   - mean use of the GPUs, 0 to 1: 0.100, threshold 0.150\n",
		"\n   - GPUs that count by the highest use of the GPUs, 0 to 1: 4.000 GPUs, threshold 4.000 GPUs\n", "\n   - message \"x\"\n",
		"\n   also job/h0: 7.0 GPU-hours", "\n   also job/h3:", "\n   ... and 2 more (--json)\n",
		"\n2. custom: 1 finding, 8.0 GPU-hours\n", "\n... and 1 cause more (--top)\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	for _, not := range []string{"job/h4", "Words of h0", "3. "} {
		if strings.Contains(b.String(), not) {
			t.Errorf("has %q:\n%s", not, b.String())
		}
	}
}
