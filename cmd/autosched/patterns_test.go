package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// TestPatternsScanEvents: a log of events shows what traces of jobs do not, such as preemptions.
func TestPatternsScanEvents(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events.jsonl")
	code, _, errs := command("simulate", "--trace", "sample", "--scheduler", "tiresias", "--events-out", log)
	if code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := command("patterns", "scan", "--trace", log, "--json")
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

func TestPatternsScan(t *testing.T) {
	jobs, gpus := scanFiles(t)
	args := []string{"patterns", "scan", "--trace", jobs, "--nodes", "1", "--gpus-per-node", "2"}
	code, out, errs := command(append(args, "--telemetry", gpus, "--price", "2", "--json")...)
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
	code, out, errs = command(args...)
	if code != 0 || !strings.Contains(out, "Nothing was found") ||
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
	code, out, errs = command(append(args, "--telemetry", gpus)...)
	if want := "2 of 482 rows of " + gpus + ` rejected, first gpus.csv:482: utilization_percent: "NaN": is not a number; see ` +
		"'autosched telemetry validate'"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("bad rows are not reported: %s\n%s", errs, out)
	}
	for _, c := range []struct{ args, want string }{
		{"patterns scan", "name a trace, telemetry, or both"},
		{"patterns scan --trace " + jobs + " --rule hoardin", `"hoardin" is not one of hoarding, idle_allocation`},
		{"patterns scan --telemetry " + jobs, "not telemetry in a known format"},
		{"patterns scan --queue " + gpus, "GPU samples, which are not what is asked for"},
		{"patterns scan --trace " + jobs + " --labels " + jobs, "the header lacks label"},
		{"patterns lint " + jobs, "line"},
		{"patterns rules nothing", `"nothing" is not one of`},
	} {
		if code, _, errs := command(strings.Fields(c.args)...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %q, want %q", c.args, code, errs, c.want)
		}
	}
}
