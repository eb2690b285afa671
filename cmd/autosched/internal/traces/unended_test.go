package traces

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestNothingEnded: of jobs that all run or wait nothing can be concluded.
func TestNothingEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running.psv")
	text := "JobIDRaw|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES|TimelimitRaw\n" +
		"1|RUNNING|2026-03-01T00:00:00|2026-03-01T00:00:00|Unknown|600|gres/gpu=8|gres/gpu=8|60\n" +
		"2|PENDING|2026-03-01T00:05:00|Unknown|Unknown|0||gres/gpu=8|60\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"evaluate", "compare", "plan"} {
		code, _, errs := clitest.Run(name, "--trace", path, "--nodes", "1", "--gpus-per-node", "8", "--scheduler", "fifo")
		if code != 1 || !strings.Contains(errs, "no job of running.psv that ended is submitted") {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
	code, _, errs := clitest.Run("simulate", "--trace", path, "--nodes", "1", "--gpus-per-node", "8", "--scheduler", "fifo")
	if code != 0 || !strings.Contains(errs, "zeros stand for none") {
		t.Errorf("simulate: exit %d, %s", code, errs)
	}
}

// TestConfigOfAnotherVersion: a result whose schema this program does not know is refused.
func TestConfigOfAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later.json")
	for _, schema := range []string{"autosched.tuning/v2", "other/v1"} {
		text := `{"schema":"` + schema + `","configuration":{"backfill":true}}`
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		code, _, errs := clitest.Run("simulate", "--trace", "sample", "--nodes", "20", "--scheduler", "fifo",
			"--config", path)
		if code == 0 || !strings.Contains(errs, schema) || !strings.Contains(errs, "version 1") {
			t.Errorf("%s: exit %d, %s", schema, code, errs)
		}
	}
}

// TestValidateWhatIsNoTrace: a file of no format has no table of zeros.
func TestValidateWhatIsNoTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("nothing\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	code, out, errs := clitest.Run("trace", "validate", path)
	if code != 1 || out != "" || !strings.Contains(errs, "nothing") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
