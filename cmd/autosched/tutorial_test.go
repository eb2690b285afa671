package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
)

// tutorialHistory is the history of examples/tutorial as sacct prints it: a synthetic
// workload, run by FIFO without backfill on 8 nodes of 8 GPUs, which looks at its queue every 30
// seconds.
func tutorialHistory(t testing.TB) []byte {
	t.Helper()
	c := workload.Uniform(8, 8)
	w, err := synth.Generate(t.Context(), synth.Options{Profile: "helios", Zero: time.Date(2026, 3, 2, 0, 0, 0, 0,
		time.UTC),
		Days: 14, Load: .7, Cluster: c, MaxDuration: 24 * time.Hour, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	jobs := slices.DeleteFunc(slices.Clone(w.Jobs()), func(j workload.Job) bool { return j.Duration < 30*time.Minute })
	w = workload.NewSorted("history", w.Zero(), jobs, true)
	s, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	nodes := make([]string, len(jobs))
	observe := func(e simulator.Event) {
		if e.Kind == workload.Started {
			var names []string
			for _, n := range sim.Placement(nil, e.Job) {
				names = append(names, fmt.Sprint(n.Node+1))
			}
			nodes[e.Job] = "gpu" + names[0]
			if len(names) > 1 {
				nodes[e.Job] = "gpu[" + strings.Join(names, ",") + "]"
			}
		}
	}
	o := simulator.Options{Round: 30 * time.Second, Observer: observe}
	if err := sim.Start(c, w, s.New(s.Space.Default()), o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	accounts := []string{"vision", "language", "speech", "robotics", "biology"}
	states := map[workload.Status]string{workload.Completed: "COMPLETED", workload.Failed: "FAILED",
		workload.Cancelled: "CANCELLED"}
	var out bytes.Buffer
	out.WriteString("JobIDRaw|JobID|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|" +
		"TimelimitRaw|ReqTRES|AllocTRES|NodeList\n")
	for _, x := range sim.Outcomes(nil) {
		j := w.Jobs()[x.ID]
		clock := func(at time.Duration) string { return w.Zero().Add(at).UTC().Format("2006-01-02T15:04:05") }
		var vc int
		if _, err := fmt.Sscanf(j.Tenant, "vc-%d", &vc); err != nil {
			t.Fatal(err)
		}
		tres := fmt.Sprintf("gres/gpu=%d", j.GPUs.Whole())
		fmt.Fprintf(&out, "%d|%[1]d|synthetic|%s|%s|gpu|normal|%s|%s|%[5]s|%s|%s|%d|1440|%s|%[9]s|%s\n",
			4000+int(x.ID), j.User, accounts[vc%len(accounts)], states[j.Status],
			clock(x.Submit), clock(x.Start), clock(x.End),
			int((x.End - x.Start).Seconds()), tres, nodes[x.ID])
	}
	return out.Bytes()
}

// tutorialTable is the first 200 jobs of the history as a table of no known format.
func tutorialTable(history []byte) []byte {
	var out bytes.Buffer
	out.WriteString("job,owner,project,created,admitted,finished,n_gpu,state\n")
	for _, line := range strings.Split(string(history), "\n")[1:201] {
		f := strings.Split(line, "|")
		fmt.Fprintln(&out, strings.Join([]string{f[0], f[3], f[4], strings.Replace(f[8], "T", " ", 1),
			strings.Replace(f[10], "T", " ", 1), strings.Replace(f[11], "T", " ", 1), strings.TrimPrefix(f[14], "gres/gpu="),
			strings.ToLower(f[7])}, ","))
	}
	return out.Bytes()
}

// TestTutorialHistory: the files that the tutorial reads can be made again, and are small.
func TestTutorialHistory(t *testing.T) {
	testshared.Full(t)
	history := tutorialHistory(t)
	for name, want := range map[string][]byte{"sacct.psv": history, "jobs.csv": tutorialTable(history)} {
		path := filepath.Join("..", "..", "examples", "tutorial", name)
		if *clitest.Update {
			if err := os.WriteFile(path, want, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) || len(got) > 100_000 {
			t.Errorf("%s has %d bytes and is not what makes it; write it with -update", path, len(got))
		}
	}
}

// tutorialStep is a command that a page prints, and the output that it quotes.
type tutorialStep struct {
	args  []string
	quote string
}

// tutorialSteps are the indented blocks of a page that begin with a command, and the lines of output
// below it. A blank line and another command begin the next step.
func tutorialSteps(page string) []tutorialStep {
	var out []tutorialStep
	in, blank := false, true
	for line := range strings.SplitSeq(page, "\n") {
		text, code := strings.CutPrefix(line, "    ")
		switch {
		case strings.TrimSpace(line) == "":
			blank = true
			continue
		case !code:
			in = false
		case blank && strings.HasPrefix(text, "autosched "):
			out = append(out, tutorialStep{args: clitest.ShellWords(text)[1:]})
			in = true
		case in:
			out[len(out)-1].quote += text + "\n"
		}
		blank = false
	}
	return out
}

// TestTutorial runs the commands of the tutorial in order. Every piece of quoted output, between
// "...", must be in the output, in order; blanks do not count.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	page := runPage(t, "docs/tutorial.md", 15)
	report, err := os.ReadFile(filepath.Join("out", "tutorial", "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(page, "| section |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range strings.Split(table, "\n")[2:] {
		if name := strings.TrimSpace(strings.Split(row, "|")[1]); !strings.Contains(string(report), ">"+name+"</h") {
			t.Errorf("the report has no section %q", name)
		}
	}
}

// TestReadme runs the commands of the README in the same way.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	runPage(t, "README.md", 3)
}

// runsUntil starts a command as a process, and waits until it logs something.
func runsUntil(t *testing.T, args []string, until string) {
	t.Helper()
	cmd := clitest.Process(t, args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	all := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if all += lines.Text() + "\n"; strings.Contains(lines.Text(), until) {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return
		}
	}
	t.Fatalf("autosched %s ended:\n%s", strings.Join(args, " "), all)
}

// runPage runs the commands of a page, at least that many, in a directory with the examples.
func runPage(t *testing.T, name string, atLeast int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(examples, "examples"); err != nil {
		t.Skip(err)
	}
	page := strings.ReplaceAll(string(text), "    bin/autosched ", "    autosched ")
	steps, address := tutorialSteps(page), ""
	if len(steps) < atLeast {
		t.Fatalf("the page has %d commands", len(steps))
	}
	for _, s := range steps {
		if s.args[0] == "serve" {
			address, _ = clitest.StartServe(t, s.args[2])
			continue
		}
		if cmd, _, err := clitest.NewRoot().Find(s.args); err == nil && cmd.Flag("server") != nil {
			s.args = append(s.args, "--server", address)
		}
		if len(s.args) > 1 && s.args[1] == "adapter" { // runs until it is stopped
			runsUntil(t, s.args, "in force")
			continue
		}
		code, stdout, stderr := clitest.Run(s.args...)
		line := "autosched " + strings.Join(s.args, " ")
		if refused := strings.Contains(s.quote, "autosched: "); refused != (code != 0) {
			t.Fatalf("%s: exit %d: %s", line, code, stderr)
		}
		all := strings.Join(strings.Fields(stderr+stdout), " ")
		rest := all
		for piece := range strings.SplitSeq(s.quote, "...") {
			_, after, found := strings.Cut(rest, strings.Join(strings.Fields(piece), " "))
			if !found {
				t.Errorf("%s: no %q in the rest of\n%s", line, piece, stderr+stdout)
				break
			}
			rest = after
		}
	}
	return page
}

// TestPhillyFortnight: from the public trace to the decision that the guides quote, with its grade. Its
// file has no waits.
func TestPhillyFortnight(t *testing.T) {
	testshared.Full(t)
	const decision = "Keep what runs. Refused (backfill=true): expected average JCT -37.1 % (-68.9 % to +0.0 %) in the 2 " +
		"parts of up to five days since 6 Oct, but wait of a probe as wide as the widest job 4.0 h -> 6.5 h."
	guides, err := os.ReadFile(filepath.Join("..", "..", "docs", "evaluation.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(guides)), " "), decision) {
		t.Error("docs/evaluation.md does not quote " + decision)
	}
	jobs := testshared.Path(t, "traces", "philly", "jobs.csv.gz")
	for _, c := range []struct{ from, to, want string }{
		{"2017-10-06", "2017-10-20", decision},
		{"2017-09-22", "2017-10-06", "Note: The history before the window has 28 jobs, which are too few to choose by"},
	} {
		code, out, errs := clitest.Run("evaluate", "--trace", jobs, "--from", c.from, "--to", c.to, "--nodes", "70",
			"--skip-wider", "--scheduler", "fifo", "--set", "backfill=false", "--methods", "current,fixed-history", "--seeds", "1")
		if code != 0 {
			t.Fatal(errs)
		}
		for _, want := range []string{c.want, "The simulation is not comparable with the history, and conclusions are about " +
			"the simulated cluster alone: it records no queueing delays."} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("from %s: no %q in\n%s", c.from, want, out)
			}
		}
	}
}
