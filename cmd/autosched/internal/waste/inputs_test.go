package waste

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestInput25: samples by the full name of a node are joined to jobs by its short one.
func TestInput25(t *testing.T) {
	trace := testshared.Path(t, "inputs", "25.psv")
	for _, file := range []string{"25a.prom.gz", "25b.prom.gz"} {
		code, out, errs := clitest.Run("patterns", "scan", "--trace", trace, "--telemetry",
			testshared.Path(t, "inputs", file))
		if code != 0 || !strings.Contains(out, "idle_allocation") || !strings.Contains(out, "480 of GPUs joined to jobs") {
			t.Errorf("%s: exit %d: %s\n%s", file, code, errs, out)
		}
	}
}

// TestInput10: the power of a whole GPU is no job's, as its MIG instances name their jobs.
func TestInput10(t *testing.T) {
	code, _, errs := clitest.Run("energy", "report", "--trace", testshared.Path(t, "inputs", "10b.psv"), "--nodes", "1",
		"--gpus-per-node", "1", "--telemetry", testshared.Path(t, "inputs", "10b.prom.gz"))
	if code != 0 || !strings.Contains(errs, "122 of 122 samples of GPUs are joined to jobs: named by the sample") ||
		!strings.Contains(errs, "no sample of a whole GPU with power or energy is joined to a job") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestInput23: no job is the exporter's pod, and no owner is warned.
func TestInput23(t *testing.T) {
	code, out, errs := clitest.Run("patterns", "scan", "--telemetry", testshared.Path(t, "inputs", "23.prom.gz"))
	if code != 0 || strings.Contains(out, "dcgm-exporter-aaaaa") || strings.Contains(out, "idle_allocation") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
}

// TestTelemetryFlags: samples without a node, and by a site's own names, are read by a scan and a report of energy.
func TestTelemetryFlags(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "jobs.psv")
	scrape, names := filepath.Join(dir, "busy.prom"), filepath.Join(dir, "names.yaml")
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "site_busy{card=\"0\"} 0.5 %d\nsite_watts{card=\"0\"} 300 %[1]d\n", 1772438400000+i*60000)
	}
	for path, text := range map[string]string{scrape: text.String(),
		names: "metrics: {site_busy: {is: utilization_percent, scale: 100}, site_watts: {is: power_w}}\nlabels: {gpu: [card]}\n",
		trace: "JobID|State|Submit|Start|End|AllocTRES|NodeList\n" +
			"1|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:00:00|2026-03-02T09:00:00|gres/gpu=1|n7\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{{"patterns", "scan"}, {"energy", "report"}} {
		args := append(command, "--trace", trace, "--nodes", "1", "--gpus-per-node", "1", "--telemetry", scrape)
		code, out, errs := clitest.Run(append(args, "--node", "n7", "--metrics", names)...)
		if code != 0 || !strings.Contains(out+errs, "60 of 60 samples of GPUs are joined to jobs") &&
			!strings.Contains(out+errs, "60 of GPUs joined to jobs") {
			t.Errorf("%v: exit %d: %s%s", command, code, out, errs)
		}
		for flag, want := range map[string]string{"--scrape-time": "--scrape-time: ", "--metrics": "--metrics: "} {
			if code, _, errs := clitest.Run(append(args, flag, "nope")...); code != 2 || !strings.Contains(errs, want) {
				t.Errorf("%v %s: exit %d: %s", command, flag, code, errs)
			}
		}
	}
}

// TestNothingJoined: samples of nodes that no job ran on are an error.
func TestNothingJoined(t *testing.T) {
	code, _, errs := clitest.Run("patterns", "scan", "--trace", testshared.Path(t, "inputs", "25.psv"), "--telemetry",
		testshared.Path(t, "inputs", "23.prom.gz"))
	if code != 1 || !strings.Contains(errs, `none of 482 samples is of a job or a node of the trace, such as "w1"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}
