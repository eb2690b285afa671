package main

import (
	"strings"
	"testing"
)

// TestEmptyNames: a list without a name is a mistake, not a request for all.
func TestEmptyNames(t *testing.T) {
	for _, c := range []struct{ command, flag string }{
		{"evaluate --trace sample", "--methods"}, {"predict eval --trace sample", "--methods"}, {"bench search", "--objectives"}, {"bench search", "--samplers"},
		{"bench tune --trace sample", "--searches"}, {"tune --trace sample --at 2017-10-10", "--pareto"},
	} {
		for _, list := range []string{"", ",", "a,", "a,,b"} {
			code, _, errs := command(append(strings.Fields(c.command), c.flag+"="+list)...)
			if code != 2 || !strings.Contains(errs, c.flag+": a name is missing") {
				t.Errorf("%s %s=%q: exit %d, %s", c.command, c.flag, list, code, errs)
			}
		}
	}
}

// TestFlagsAreCheckedBeforeTheTrace: nobody waits for a long trace to be read to
// be told of a flag.
func TestFlagsAreCheckedBeforeTheTrace(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"tune", "--at is missing"},
		{"tune --at 0 --top 0", "--top"},
		{"tune --at 0 --plot x.pdf", "--plot"},
		{"tune --at 0 --time -1s", "--time"},
		{"tune --at 0 --budget 0", "--budget"},
		{"tune --at 0 --futures 100000", "--futures: 100000 is not from 1 to 1000"},
		{"tune --at 0 --sampler none", "--sampler"},
		{"tune --at 0 --scheduler none", "none"},
		{"tune --at 0 --set queues=99", "--set"},
		{"tune --at 0 --preset none", "there are ladder-7200x6, ladder-7200x6-consolidated, "},
		{"evaluate --methods none", "--methods"},
		{"evaluate --search none", "there are auto, portfolio, full"},
		{"evaluate --interval 0s", "--interval"},
		{"evaluate --min-ratio NaN", "--min-ratio"},
		{"bench tune --hours 1", "--hours"},
		{"bench tune --searches none", "--searches"},
		{"bench tune --set queues=99", "--set"},
		{"causal dataset --out x --tiers y --segment 0s", "--segment"},
		{"causal dataset --out x --tiers y --preset none", "--preset"},
		{"emulate --mode none", "--mode"},
		{"emulate --interval 0s", "--interval"},
		{"emulate --budget 0", "--budget"},
		{"emulate --speedup 0", "--speedup"},
	} {
		args := append(strings.Fields(c.args), "--trace", "/there/is/no/such/trace.csv")
		if code, _, errs := command(args...); code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
}
