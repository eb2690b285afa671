package main

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

func TestMain(m *testing.M) { clitest.Main(m, newRootCmd) }

// TestPrintedCommandLinesAreTaken reads every command line of this program in help and documentation.
func TestPrintedCommandLinesAreTaken(t *testing.T) {
	seen := 0
	check := func(where, text string) {
		for _, args := range clitest.CommandLines("autosched-lab", text) {
			seen++
			if why := clitest.Refusal(args); why != "" {
				t.Errorf("%s: autosched-lab %s: %s", where, strings.Join(args, " "), why)
			}
		}
	}
	clitest.VisitCommands(newRootCmd(), func(cmd *cobra.Command) {
		check(cmd.CommandPath()+" --help", cmd.Long+"\n"+cmd.Example)
	})
	for _, doc := range clitest.Documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		check(doc, string(text))
	}
	if seen < 10 {
		t.Errorf("found %d command lines only", seen)
	}
}

func TestEmptyNames(t *testing.T) {
	for _, c := range []struct{ command, flag string }{
		{"search", "--objectives"}, {"search", "--samplers"}, {"tune --trace sample", "--searches"},
	} {
		for _, list := range []string{"", ",", "a,", "a,,b"} {
			code, _, errs := clitest.Run(append(strings.Fields(c.command), c.flag+"="+list)...)
			if code != 2 || !strings.Contains(errs, c.flag+": a name is missing") {
				t.Errorf("%s %s=%q: exit %d, %s", c.command, c.flag, list, code, errs)
			}
		}
	}
}

// TestFlagsAreCheckedBeforeTheTrace: a wrong flag is reported before a long trace is read.
func TestFlagsAreCheckedBeforeTheTrace(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.csv") // there is none
	for args, flag := range map[string]string{
		"tune --hours 1": "--hours", "tune --searches none": "--searches", "tune --set queues=99": "--set",
	} {
		code, _, errs := clitest.Run(append(strings.Fields(args), "--trace", trace)...)
		if code != 2 || !strings.Contains(errs, flag) {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"search --samplers auto,s": "auto,sobol", "search --objectives q": "quad5", "tune --searches r": "random",
	} {
		code, out, errs := clitest.Run(append([]string{"__complete"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains("\n"+out, "\n"+want+"\n") {
			t.Errorf("%s: exit %d, %q %s; want %q", args, code, out, errs, want)
		}
	}
}

// TestJSONHasASchema: a result of every command begins with its schema, a name of its own with a version.
func TestJSONHasASchema(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("jobs.csv", "job_id,submit_time_s,duration_s,num_gpus\na,0,100,1\nb,50,100,1\nc,60,100,1\n")
	windows := write("windows.json", `{"scenarios": [{"name": "day", "trace": "jobs.csv", "start": "0", "end": "100",
		"nodes": 1, "gpus_per_node": 2}]}`)
	days := write("days.json", `{"recipes": {"full": {"days": 2, "seed": 2, "parts": [{"profile": "philly", "load": 1.5,
		"max_duration_h": 6}]}}, "scenarios": [{"name": "day", "recipe": "full", "start": "2017-10-09", "end": "2017-10-10",
		"nodes": 2, "gpus_per_node": 8}]}`)
	for _, x := range []struct {
		args, schema string
		slow         bool
		drawn        string // the message of the page that --plot draws
		title, axis  string // of a chart
	}{
		{"recommend --trace sample --windows 2 --days 1 --nodes 4 --waste 10 --detected",
			"recommend-benchmark", false, "Acting on the findings of the built-in rules gains",
			"Acting on waste, by its share of GPU-hours", "gain in utilisation, %, with the 95 % interval"},
		{"patterns --trace sample --windows 1 --days 1 --prevalence 5 --nodes 4", "patterns-benchmark", false,
			" injected cases, with ", "sample: cases in 5 % of entities", "F1 score"},
		{"search --objectives quad2 --samplers random --budget 5 --seeds 1", "search-benchmark", false,
			"The least mean regret after 5 evaluations has random on quad2.", "quad2: lower is better", "mean regret"},
		{"aggregate --trace sample --to 2017-10-09T06:00:00Z --nodes 16 --configs 2 --sizes 2",
			"aggregate-benchmark", true, "jobs", "Order of configurations on groups and on jobs",
			"size of a group at most, GPUs"},
		{"tune --trace sample --nodes 12 --to 2017-10-10 --budget 6 --futures 2 --hours 2 --seeds 1 --searches random",
			"tuning-benchmark", true, "No search finds better configurations than random.",
			"Below 1 is better than random", "objective over that of random"},
		{"presets --scenarios " + windows + " --data " + dir + " --scheduler fifo --configs 2 --refine 0",
			"preset-benchmark", true, "presets are chosen of", "Worst regret over the windows", "worst regret, %"},
		{"horizons --scenarios " + days + " --only day --schedulers fifo --configs 1 --hours 1 --horizons 1h " +
			"--futures 1", "horizon-benchmark", true, "Rounds of 1 h rank configurations best",
			"Rank correlation of scores and average JCT", "Spearman's correlation"},
		{"studies --scenarios " + days + " --only day --schedulers gandiva --budget 2 --reference 2 --seeds 1",
			"study-benchmark", true, "With the causal model a study takes fewer trials in",
			"auto: trials until one is good", "trials, median over seeds"},
		{"decisions --scenarios " + windows + " --data " + dir + " --schedulers fifo --methods default,preset " +
			"--out " + dir + "/d.jsonl", "decision-benchmark", true, "No method is better than the default",
			"fifo, mean over windows", "average JCT of the default over that of the method"},
	} {
		if x.slow && testing.Short() {
			continue
		}
		plot := filepath.Join(dir, x.schema+".html")
		code, out, errs := clitest.Run(append(strings.Fields(x.args), "--json", "--plot", plot)...)
		if code != 0 {
			t.Errorf("%s: exit %d: %s", x.args, code, errs)
			continue
		}
		checkPage(t, plot, x.drawn, x.title, x.axis)
		verdict := clitest.Verdict(t, dir, strings.Fields(x.args)...)
		if !strings.Contains(verdict, strings.TrimSpace(x.drawn)) {
			t.Errorf("%s: %q is bold, which has no %q", x.args, verdict, x.drawn)
		}
		if want := `"schema": "autosched.` + x.schema + `/v1"`; !strings.HasPrefix(strings.TrimLeft(out, "{\n "), want) {
			t.Errorf("%s: want %s first: %.80s", x.args, want, out)
		}
	}
}

// checkPage checks that a page has a message, and a chart with a title and the name of an axis.
func checkPage(t *testing.T, path, message, title, axis string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := html.UnescapeString(string(text))
	for _, part := range []string{message, ">" + title + "<", ">" + axis + "</text>"} {
		if !strings.Contains(page, part) {
			t.Errorf("%s: has no %q", filepath.Base(path), part)
		}
	}
}

// TestHeldDraws: the daily rule on a window of the sample trace, in every format of figures.
func TestHeldDraws(t *testing.T) {
	testshared.Full(t)
	for _, name := range []string{"held.html", "held.svg", "held.png"} {
		path := filepath.Join(t.TempDir(), name)
		args := "held --trace sample --from 2017-10-10T00:00:00Z --to 2017-10-16T00:00:00Z --schedulers fifo --nodes 16"
		if code, _, errs := clitest.Run(append(strings.Fields(args), "--plot", path)...); code != 0 {
			t.Fatal(errs)
		}
		if filepath.Ext(name) != ".png" {
			checkPage(t, path, "Gain over the default", "Windows that lose more than 1 %", "share of windows, %")
		} else if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "\x89PNG") {
			t.Errorf("%v: no PNG", err)
		}
	}
}
