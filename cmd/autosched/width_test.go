package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// once are the commands that a second run after the first refuses.
var once = map[string]bool{"scheduler register": true, "admin backup": true, "admin restore": true,
	"admin migrate":           true,
	"scheduler config forget": true, "study create": true, "study trial add": true, "study trial stop": true,
	"study run": true, "study propose": true, "study delete": true, "scheduler workload upload": true,
	"scheduler workload delete": true}

// checkWidth runs a command for people in 80 columns. No line is wider, but for commands and names of files.
func checkWidth(t *testing.T, command string, args []string, dir string) {
	t.Helper()
	if once[command] {
		return
	}
	t.Setenv("COLUMNS", "80")
	code, out, errs := clitest.Run(args...)
	if code != 0 {
		t.Errorf("%s: exit %d: %s", command, code, errs)
	}
	for line := range strings.Lines(out + errs) {
		n, text := utf8.RuneCountInString(line)-1, strings.TrimSpace(line)
		whole := strings.HasPrefix(text, "--") || strings.HasPrefix(text, "autosched ") || strings.Contains(text, dir)
		if n > 80 && !whole {
			t.Errorf("%s: %d columns: %s", command, n, line)
		}
	}
}

// TestVerdicts: a command that answers a question says the answer in bold on a terminal, whose width all lines have at
// most.
func TestVerdicts(t *testing.T) {
	testshared.Full(t)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	dir := t.TempDir()
	const small = " --trace sample --to 2017-10-09T06:00:00Z --nodes 16"
	const slurm = " --trace ../../examples/tutorial/sacct.psv --nodes 8"
	data, tiers := clitest.WriteRuns(t, dir)
	learnt := " --data " + data + " --tiers " + tiers
	for _, x := range [][2]string{
		{"evaluate" + small + " --budget 6 --futures 2 --horizon 1h --methods default,preset",
			"Keep what runs"},
		{"compare" + small + " --schedulers fifo,sjf", "No row has a shorter average JCT"},
		{"tune --trace sample --at 2017-10-10T12:00:00Z --nodes 20 --budget 6 --futures 2", "Keep what runs"},
		{"plan" + small + " --subject-to p95_queue<=6h", "nodes"},
		{"fidelity" + slurm + " --scheduler fifo --recorded-scheduler fifo", "The simulation describes the history"},
		{"recommend" + slurm + " --scheduler fifo --set backfill=false --recorded-scheduler fifo", "backfill=true"},
		{"patterns scan" + slurm, "findings"},
		{"forecast eval --trace sample --from 2017-10-11T10:00:00Z --to 2017-10-11T12:00:00Z --futures 5",
			"errs least"},
		{"forecast durations eval --trace sample", "The predictor is more accurate than"},
		{"explain learn" + learnt + " --out " + dir + "/graph.json", "a way to jct"},
		{"explain show " + dir + "/graph.json", "a way to jct"},
		{"explain effects" + learnt + " --boosted=false", "is the surest to move jct"},
		{"explain whatif" + learnt + " --boosted=false --set queues=3", "jct is predicted to change by"},
	} {
		if verdict := clitest.Verdict(t, dir, strings.Fields(x[0])...); !strings.Contains(verdict, x[1]) {
			t.Errorf("%s: %q is bold, which has no %q", x[0], verdict, x[1])
		}
	}
	t.Setenv("NO_COLOR", "1")
	if verdict := clitest.Verdict(t, dir, strings.Fields("plan"+small)...); verdict != "" {
		t.Errorf("with NO_COLOR %q is bold", verdict)
	}
}
