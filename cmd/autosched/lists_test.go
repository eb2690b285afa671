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
