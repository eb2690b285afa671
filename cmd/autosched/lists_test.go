package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestEmptyNames: a list without a name is a mistake, not a request for all.
func TestEmptyNames(t *testing.T) {
	testshared.Full(t)
	for _, c := range []struct{ command, flag string }{
		{"evaluate --trace sample", "--methods"},
		{"tune --trace sample --at 2017-10-10", "--pareto"},
	} {
		for _, list := range []string{"", ",", "a,", "a,,b"} {
			code, _, errs := clitest.Run(append(strings.Fields(c.command), c.flag+"="+list)...)
			if code != 2 || !strings.Contains(errs, c.flag+": a name is missing") {
				t.Errorf("%s %s=%q: exit %d, %s", c.command, c.flag, list, code, errs)
			}
		}
	}
}

// TestFlagsAreCheckedBeforeTheTrace: a wrong flag is reported before a long trace is
// read.
func TestFlagsAreCheckedBeforeTheTrace(t *testing.T) {
	testshared.Full(t)
	for _, c := range []struct{ args, says string }{
		{"tune --at 0 --top 0", "--top"},
		{"tune --at 0 --plot x.pdf", "--plot"},
		{"tune --at 0 --time -1s", "--time"},
		{"tune --at 0 --budget 0", "--budget"},
		{"tune --at 0 --futures 100000", "--futures: 100000 is not from 1 to 1000"},
		{"tune --at 0 --sampler none", "--sampler"},
		{"tune --at 0 --scheduler none", "none"},
		{"tune --at 0 --set queues=99", "--set"},
		{"tune --at 0 --preset none", "there are ladder-14400x3, ladder-7200x6, ladder-7200x6-consolidated, "},
		{"evaluate --methods none", "--methods"},
		{"evaluate --search none", "there are auto, portfolio, full"},
		{"evaluate --interval 0s", "--interval"},
		{"evaluate --guard some", "--guard"},
		{"evaluate --guard 0", "--guard"},
		{"scheduler update s --guard 0%", "--guard"},
		{"evaluate --max-changes -1", "--max-changes"},
		{"evaluate --flap-window 1000h", "--flap-window"},
		{"evaluate --quiet-hours 22:00", "--quiet-hours"},
		{"evaluate --quiet-hours 22:00-25:00", "25:00"},
		{"explain dataset --out x --tiers-out y --segment 0s", "--segment"},
		{"explain dataset --out x --tiers-out y --preset none", "--preset"},
		{"explain dataset --out x --tiers-out y --objective none", "--objective"},
		{"explain dataset --out x --tiers-out y --workers -1", "--workers"},
		{"scheduler emulate --mode none", "--mode"},
		{"scheduler emulate --interval 0s", "--interval"},
		{"scheduler emulate --budget 0", "--budget"},
		{"scheduler emulate --speedup 0", "--speedup"},
		{"scheduler emulate --instances 0", "--instances: 0 is not from 1 to 100"},
		{"scheduler emulate --faults refuse", `--faults: "refuse" is not fault=value`},
		{"scheduler emulate --faults refuse=2", "--faults: refuse: 2 is not from 0 to 1"},
		{"scheduler emulate --faults lag=5", `--faults: lag: "5": want a probability`},
		{"scheduler emulate --faults burn=1", `--faults: "burn" is not one of refuse`},
		{"scheduler emulate --id A", `--id: "A" is not 1 to 63 of a-z`},
		{"scheduler emulate --server bad", `--server: "bad" is not host:port`},
		{"scheduler emulate --server a:b:c", "--server"},
		{"evaluate --quota none", `--quota: "none" is not one of off, strict, borrow`},
		{"evaluate --vc bad", "--vc"},
		{"evaluate --nodes 20 --gpus-per-node 8 --vc a=161", "--vc: the quotas add up to 161 GPUs and the cluster has 160"},
		{"evaluate --nodes -1", "nodes"},
		{"evaluate --gpus-per-node 0", "gpus per node"},
		{"evaluate --from noon", "--from"},
		{"simulate --to noon", "--to"},
		{"forecast durations train --out x --workers -1", "--workers"},
		{"forecast durations eval --from noon", "--from"},
		{"trace stats --from noon", "--from"},
		{"trace stats --nodes 0", "nodes"},
		{"trace validate --format none", "--format"},
		{"trace window --to noon", "--to"},
		{"forecast eval --from noon --to 0", "--from"},
		{"forecast eval --from 0 --to 1 --history-from noon", "--history-from"},
		{"simulate --estimates some", "--estimates"},
		{"simulate --set-at bad", "--set-at"},
		{"simulate --set-at noon:queues=2", `--set-at: instant "noon"`},
		{"simulate --set-at :queues=2", `--set-at: instant ""`},
		{"simulate --set-at 0:queus=2", "--set-at: queus: there is no such parameter"},
		{"tune --at noon",
			`--at: instant "noon": is neither an RFC 3339 time (2017-10-09T12:00:00Z), nor a date, nor seconds since the trace's zero, nor a span such as 36h`},
	} {
		args := append(strings.Fields(c.args), "--trace", "/there/is/no/such/trace.csv")
		if code, _, errs := clitest.Run(args...); code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"tune --at 0 --trials no/such/folder/x", "--trials: open no/such/folder/x"},
	} {
		args := append(strings.Fields(c.args), "--trace", "/there/is/no/such/trace.csv")
		if code, _, errs := clitest.Run(args...); code != 1 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
	path := filepath.Join(t.TempDir(), "trials.jsonl")
	if code, _, errs := clitest.Run("tune", "--at", "0", "--trials", path, "--trace",
		"/there/is/no/such/trace.csv"); code != 1 || !strings.Contains(errs, "trace.csv") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("trials of no search are on file: %v", err)
	}
}
