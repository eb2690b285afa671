package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/lab/paper"
)

// TestPaper: a unit that needs no file is measured once, and the page has it; one whose trace is missing is named.
func TestPaper(t *testing.T) {
	dir := t.TempDir()
	page, readme := filepath.Join(dir, "page.md"), filepath.Join(dir, "readme.md")
	if err := os.WriteFile(readme, []byte("# A\n"+paper.Begin+"\nold\n"+paper.End+"\nlast\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		code, _, errs := clitest.Run(append([]string{"paper", "--out", filepath.Join(dir, "results"), "--page", page,
			"--readme", readme, "--data", dir}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d, %s", args, code, errs)
		}
		return errs
	}
	only := "^methods/(pai|helios-like)/themis/default/1$"
	atATime := fmt.Sprintf("%d at a time", min(2, runtime.GOMAXPROCS(0)))
	if got := run("--only", only, "--estimate", "--jobs", "0"); !strings.Contains(got, "2 of 2 units are left") ||
		!strings.Contains(got, atATime) {
		t.Error(got)
	}
	if got := run("--only", only); !strings.Contains(got, "1 of 1  methods/helios-like/themis/default/1") ||
		!strings.Contains(got, "pai2023/pods.csv.gz is not in "+dir+": 1 unit not measured. Get openb_pod_list") ||
		!strings.Contains(got, "The windows pai-like are its synthetic twin") {
		t.Error(got)
	}
	if got := run("--only", only, "--estimate"); !strings.Contains(got, "1 of 2 units are left") {
		t.Error(got)
	}
	if got := run("--only", only, "--check", "5", "--build", "other"); !strings.Contains(got, "1 of 2 units are of other "+
		"commits, about") || !strings.Contains(got, "1 of 1  methods/helios-like/themis/default/1") {
		t.Error(got)
	}
	file := filepath.Join(dir, "results", "methods.jsonl")
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%s, %v, want one line", text, err)
	} else if err := os.WriteFile(file, []byte(strings.Replace(string(text), `"jobs":`, `"jobs":1`, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := clitest.Run("paper", "--only", only, "--check", "5", "--build", "another", "--out",
		filepath.Dir(file)); code != 1 || !strings.Contains(errs,
		"1 result of other commits did not come out the same, now replaced: methods/helios-like/themis/default/1") {
		t.Errorf("a result that differs: exit %d, %s", code, errs)
	}
	code, out, errs := clitest.Run("paper", "--render", "--json", "--out", filepath.Join(dir, "results"),
		"--page", page, "--readme", readme)
	if code != 0 || !strings.Contains(out, `"schema": "autosched.paper-figures/v1"`) ||
		!strings.Contains(out, `"the_paper": "1.10 to 1.36"`) {
		t.Errorf("exit %d, %s, %s", code, errs, out)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| helios-like | themis |") {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := os.ReadFile(readme); err != nil || !strings.HasPrefix(string(text), "# A\n"+paper.Begin) ||
		!strings.HasSuffix(string(text), paper.End+"\nlast\n") || strings.Contains(string(text), "old") {
		t.Errorf("%v: %s", err, text)
	}
	if got := run("--only", "^speed/Tiresias/fifo$"); !strings.Contains(got, "no folder Tiresias in --peers") {
		t.Error(got)
	}
	if code, _, errs := clitest.Run("paper", "--render", "--out", filepath.Join(dir, "results"), "--page", page, "--readme",
		page); code != 1 || !strings.Contains(errs, page+": there is no line "+paper.Begin) {
		t.Errorf("a page without marks: exit %d, %s", code, errs)
	}
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Rename(filepath.Join(dir, "results"), elsewhere); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // there is no docs/paper.md here
	if code, _, errs := clitest.Run("paper", "--render", "--out", elsewhere); code != 0 {
		t.Errorf("exit %d, %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "paper.md")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("docs"); err == nil {
		t.Error("results of another folder are written into docs")
	}
	for _, wrong := range [][]string{{"--figure", "99"}, {"--only", "("}, {"--only", "none"},
		{"--jobs", "-1"}, {"--check", "-1"}, {"--check", "1", "--render"}} {
		if code, _, errs := clitest.Run(append([]string{"paper"}, wrong...)...); code != 2 ||
			!strings.Contains(errs, wrong[0]) {
			t.Errorf("%v: exit %d, %s", wrong, code, errs)
		}
	}
}
