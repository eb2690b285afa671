package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestPlots: a command draws the same bytes again, as SVG, PNG and page, and refuses other formats.
func TestPlots(t *testing.T) {
	testshared.Full(t)
	const small = " --trace sample --to 2017-10-09T06:00:00Z --nodes 16"
	for _, x := range [][2]string{
		{"evaluate" + small + " --budget 6 --futures 2 --horizon 1h --methods default,preset",
			">default</text>"},
		{"compare" + small + " --schedulers fifo,sjf",
			">sjf</text>"},
		{"simulate" + small + " --scheduler fifo",
			"A job completes in "},
		{"tune --trace sample --at 2017-10-10T12:00:00Z --nodes 20 --budget 6 --futures 2",
			">best so far</text>"},
		{"trace stats sample",
			">Rhythm<"},
		{"energy report" + small + " --scheduler fifo",
			">low to high</text>"},
		{"plan" + small, ">nodes</text>"},
		{"forecast eval --trace sample --from 2017-10-11T10:00:00Z --to 2017-10-11T12:00:00Z --futures 5",
			">2017-10-11</text>"},
		{"fidelity --trace ../../examples/tutorial/sacct.psv --nodes 8 --scheduler fifo --recorded-scheduler fifo",
			">recorded</text>"},
	} {
		command, shows := x[0], x[1]
		dir := t.TempDir()
		draw := func(name string) []byte {
			path := filepath.Join(dir, name)
			if code, _, errs := clitest.Run(append(strings.Fields(command), "--plot", path)...); code != 0 {
				t.Fatalf("%s: exit %d: %s", command, code, errs)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		first := draw("a.svg")
		if !bytes.Equal(first, draw("b.svg")) {
			t.Errorf("%s: the same figures are other bytes", command)
		}
		page := draw("a.html")
		if !bytes.Contains(first, []byte("<svg")) || !bytes.Contains(page, []byte(shows)) {
			t.Errorf("%s: %s is not in the page", command, shows)
		}
		if !bytes.HasPrefix(draw("a.png"), []byte("\x89PNG")) {
			t.Errorf("%s: no PNG", command)
		}
		for path, want := range map[string]string{
			"x.pdf":                                "does not end in .svg, .png or .html",
			filepath.Join(dir, "missing", "x.svg"): "is no folder: make it first",
		} {
			code, out, errs := clitest.Run(append(strings.Fields(command), "--plot", path)...)
			if code != 2 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s --plot %s: exit %d: %s%s, want %q", command, path, code, out, errs, want)
			}
		}
	}
}
