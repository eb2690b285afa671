package waste

import (
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

// TestNothingJoined: samples of nodes that no job ran on are an error.
func TestNothingJoined(t *testing.T) {
	code, _, errs := clitest.Run("patterns", "scan", "--trace", testshared.Path(t, "inputs", "25.psv"), "--telemetry",
		testshared.Path(t, "inputs", "23.prom.gz"))
	if code != 1 || !strings.Contains(errs, `none of 482 samples is of a job or a node of the trace, such as "w1"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}
