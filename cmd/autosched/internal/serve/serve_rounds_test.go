package serve

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// spiralTrace is a trace of a cluster of 8 GPUs: jobs of 6 and of 4 GPUs in turn, which FIFO runs one after the other,
// more slowly than they come, though GPUs are free. With backfill, two of 4 run together, and none waits for long.
func spiralTrace(t *testing.T) string {
	t.Helper()
	text := "job_id,submit_time,duration_s,gpus,user,tenant,key\n"
	zero := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for k := range 144 { // three hours
		text += fmt.Sprintf("j-%d,%s,90,%d,u,team,k%d\n", k, zero.Add(time.Duration(k)*75*time.Second).
			Format(time.RFC3339), 6-2*(k%2), k%2)
	}
	path := filepath.Join(t.TempDir(), "spiral.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRoundsOnFindings: jobs that starve are found, and rounds are decided for them long before one is due; they
// propose as other rounds do, in the name of the finding, in operations and in the audit log.
func TestRoundsOnFindings(t *testing.T) {
	if testing.Short() {
		t.Skip("decides rounds while emulated time goes on, too slow under the race detector")
	}
	address, _ := clitest.StartServe(t, t.TempDir())
	call := callsTo(t, address)
	call(clitest.Cmd("scheduler"), "register", "--builtin", "tiresias", "--id", "s", "--nodes", "14",
		"--gpus-per-node", "8",
		"--mode", "recommend", "--interval", "168h")
	// A slow machine decides few rounds: one is enough.
	call(clitest.Cmd("scheduler"), "update", "s", "--adoption", "paper", "--budget", "12")
	call(clitest.Cmd("scheduler emulate"), "--id", "s", "--trace", "sample", "--to", "2017-10-10T00:00:00Z",
		"--nodes", "14",
		"--gpus-per-node", "8", "--mode", "recommend", "--speedup", "6000", "--interval", "168h", "--json")
	operations := func() string { return call(clitest.Cmd("scheduler operations"), "list", "--id", "s") }
	clitest.Eventually(t, operations, `(?m)^\S+ +s +schedulers/s/findings/[0-9a-f]{16} +\S+ +done `)
	found := regexp.MustCompile(`(?m)^\S+ +s +schedulers/s/findings/([0-9a-f]{16}) +\S+ +done +(?:proposed as|kept:) revision (\d+)`).
		FindStringSubmatch(operations())
	if found == nil {
		t.Fatalf("no round on a finding proposed anything:\n%s", operations())
	}
	if got := call(clitest.Cmd("scheduler findings"), "show", "s/"+found[1]); !regexp.MustCompile(
		`starvation|fragmentation|queue_spiral|roll_back`).MatchString(got) {
		t.Errorf("the finding:\n%s", got)
	}
	if got := call(clitest.Cmd("scheduler config"), "get", "s", "--revision", found[2]); !strings.Contains(got, "Expected average JCT") {
		t.Errorf("the proposal:\n%s", got)
	}
	audit := call(newAuditCmd(), "list", "--limit", "1000")
	if !strings.Contains(audit, "schedulers/s/findings/"+found[1]) {
		t.Errorf("the audit log does not name finding %s:\n%s", found[1], audit)
	}
}

// TestNoRoundsOnFindings: with --findings-rounds 0 a finding asks for no round.
func TestNoRoundsOnFindings(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir(), "--findings-rounds", "0")
	call := callsTo(t, address)
	call(clitest.Cmd("scheduler"), "register", "--builtin", "fifo", "--id", "q", "--nodes", "1", "--gpus-per-node", "8",
		"--interval", "24h")
	call(clitest.Cmd("scheduler emulate"), "--id", "q", "--trace", spiralTrace(t), "--nodes", "1", "--gpus-per-node", "8", "--scheduler",
		"fifo", "--mode", "recommend", "--speedup", "3600", "--interval", "24h", "--json")
	clitest.Eventually(t, func() string { return call(clitest.Cmd("scheduler findings"), "list", "q") }, `(?m)^[0-9a-f]{16} +\S+ +queue_spiral `)
	if got := call(clitest.Cmd("scheduler operations"), "list", "--id", "q"); strings.Contains(got, "findings") {
		t.Errorf("a round was asked for:\n%s", got)
	}
	if code, _, errs := clitest.Run("serve", "--dir", "x", "--findings-rounds", "-1s"); code != 2 ||
		!strings.Contains(errs, "--findings-rounds: -1s is negative") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// callsTo runs client commands against a service.
func callsTo(t *testing.T, address string) func(cmd *cobra.Command, args ...string) string {
	return func(cmd *cobra.Command, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address)...); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
}
