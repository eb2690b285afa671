package decide

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// twoTenantTrace: a asks for 4 + 4 GPUs for an hour at 0, b for 4 at 600 s.
func twoTenantTrace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.csv")
	rows := "job_id,submit_time_s,duration_s,num_gpus,vc\n1,0,3600,4,a\n2,0,3600,4,a\n3,600,3600,4,b\n"
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type quotaResult struct {
	AvgQueue   float64 `json:"avg_queue_s"`
	Compliance float64 `json:"fair_share_compliance"`
	Causes     []struct {
		Cause   string  `json:"cause"`
		Seconds float64 `json:"s_per_job"`
		Share   float64 `json:"share"`
	} `json:"queue_causes"`
	Tenants []struct {
		Tenant string  `json:"tenant"`
		Quota  int     `json:"quota_gpus"`
		Jobs   int     `json:"jobs"`
		Queue  float64 `json:"avg_queue_s"`
	} `json:"tenants"`
}

func simulateTenants(t *testing.T, args ...string) quotaResult {
	t.Helper()
	code, out, errs := clitest.Run(append([]string{"simulate", "--trace", twoTenantTrace(t), "--nodes", "1",
		"--gpus-per-node", "8", "--scheduler", "fifo", "--json"}, args...)...)
	if code != 0 {
		t.Fatal(errs)
	}
	var r quotaResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSimulateQuotas(t *testing.T) {
	// One pool: b waits 3000 s for a's two jobs, for GPUs.
	off := simulateTenants(t, "--vc", "a=4", "--vc", "b=4:2")
	if off.AvgQueue != 1000 || off.Causes[1].Cause != "fragmentation" || off.Causes[2].Cause != "priority" ||
		off.Causes[2].Share != 1 {
		t.Errorf("one pool: %+v", off)
	}
	// Strict: b starts at once and a's second job waits for the first.
	strict := simulateTenants(t, "--vc", "a=4", "--vc", "b=4:2", "--quota", "strict")
	if strict.AvgQueue != 1200 || strict.Causes[0].Cause != "quota" || strict.Causes[0].Share != 1 ||
		math.Abs(strict.Causes[0].Seconds-1200) > 1e-9 {
		t.Errorf("strict: %+v", strict)
	}
	if len(strict.Tenants) != 2 || strict.Tenants[0].Tenant != "a" || strict.Tenants[0].Quota != 4 ||
		strict.Tenants[0].Jobs != 2 || strict.Tenants[0].Queue != 1800 || strict.Tenants[1].Queue != 0 {
		t.Errorf("strict: %+v", strict.Tenants)
	}
	// By GPU-time a has two thirds of 8 GPUs: 5 and 3, but b's job needs 4.
	if auto := simulateTenants(t, "--vc", "auto", "--quota", "strict"); auto.Tenants[0].Quota != 4 ||
		auto.Tenants[1].Quota != 4 {
		t.Errorf("auto: %+v", auto.Tenants)
	}
}

func TestQuotaFlagsRefused(t *testing.T) {
	trace := twoTenantTrace(t)
	for want, args := range map[string][]string{
		"not one of":        {"--quota", "fair"},
		"needs virtual":     {"--quota", "strict"},
		"not tenant=GPUs":   {"--vc", "a"},
		"given twice":       {"--vc", "a=1", "--vc", "a=2"},
		"add up to 9":       {"--vc", "a=4", "--vc", "b=5"},
		"--max-preemptions": {"--max-preemptions", "-1"},
		"--min-run":         {"--min-run", "-1s"},
		`job "3" asks for 4 GPUs, more GPUs than its tenant may ever hold: "b" may hold 2`: {"--vc", "a=6", "--vc",
			"b=2", "--quota", "strict"},
	} {
		code, _, errs := clitest.Run(append([]string{"simulate", "--trace", trace, "--nodes", "1", "--gpus-per-node", "8"},
			args...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d, %q; want %q", args, code, errs, want)
		}
	}
	if code, _, errs := clitest.Run("serve", "--dir", t.TempDir(), "--min-run", "-1s"); code != 2 ||
		!strings.Contains(errs, "--min-run") {
		t.Errorf("serve: code %d, %q", code, errs)
	}
}

// TestTuneAndEvaluateWithQuotas: rounds and the live cluster obey quotas and
// protect jobs too.
func TestTuneAndEvaluateWithQuotas(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, args := range [][]string{
		{"tune", "--at", "2017-10-10T12:00:00Z", "--futures", "1", "--budget", "3"},
		{"evaluate", "--from", "2017-10-10T00:00:00Z", "--to", "2017-10-10T02:00:00Z", "--methods", "preset,autosched",
			"--futures", "1", "--budget", "3"},
	} {
		run := func(more ...string) (int, string, string) {
			return clitest.Run(append(append(args, "--trace", "sample", "--nodes", "20", "--gpus-per-node", "8", "--json"),
				more...)...)
		}
		code, free, errs := run()
		if code != 0 {
			t.Fatal(errs)
		}
		code, bound, errs := run("--vc", "auto", "--quota", "strict", "--max-preemptions", "2", "--min-run", "10m")
		if code != 0 {
			t.Fatal(errs)
		}
		if strip(free) == strip(bound) {
			t.Errorf("%s: quotas and protection change nothing", args[0])
		}
	}
}

// strip leaves out lines with wall-clock times.
func strip(s string) string {
	var out []string
	for _, line := range strings.Split(s, "\n") {
		if !strings.Contains(line, "wall") && !strings.Contains(line, "tuning") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
