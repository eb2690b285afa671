package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestPrintedCommandLinesAreTaken reads every command line in help, README,
// documentation and examples, and checks that there is such a command with such
// flags.
func TestPrintedCommandLinesAreTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seen := 0
	check := func(where, text string) {
		for _, args := range clitest.CommandLines("autosched", text) {
			args = slices.DeleteFunc(args, func(a string) bool { return a == "$flags" }) // of the connection
			for i, a := range args {
				if a == "$proposal" { // a number, where it is run
					args[i] = "1"
				}
			}
			if slices.ContainsFunc(args, func(a string) bool { return a == "..." || a == "COMMAND" }) {
				continue
			}
			seen++
			if why := clitest.Refusal(args); why != "" {
				t.Errorf("%s: autosched %s: %s", where, strings.Join(args, " "), why)
			}
		}
	}
	clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
		if !strings.Contains(cmd.CommandPath(), "completion") {
			check(cmd.CommandPath()+" --help", cmd.Long+"\n"+cmd.Example)
		}
	})
	for _, doc := range clitest.Documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		check(doc, string(text))
	}
	if seen < 100 {
		t.Errorf("found %d command lines only", seen)
	}
}

// TestFlagsInDocumentsExist finds likely flags anywhere in the
// documentation.
func TestFlagsInDocumentsExist(t *testing.T) {
	testshared.Full(t)
	flags, ofNotes := map[string]bool{"help": true}, map[string]bool{} // of programs that notes alone name
	clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
		for _, set := range []interface{ FlagUsages() string }{cmd.LocalFlags(), cmd.InheritedFlags()} {
			for _, m := range regexp.MustCompile(`--([a-z][a-z0-9-]*)`).FindAllStringSubmatch(set.FlagUsages(), -1) {
				flags[m[1]] = true
			}
		}
	})
	var others []string
	for _, dir := range []string{"lab/cmd/*", "adapter/kubernetes/cmd/*", "adapter/kubernetes/rig/cmd/*"} {
		files, err := filepath.Glob(filepath.Join(testshared.Root(t), dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		others = append(others, files...)
	}
	for _, path := range others {
		known := flags
		if strings.Contains(path, "/lab/cmd/") && filepath.Base(filepath.Dir(path)) != "autosched-lab" {
			known = ofNotes
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Var\([^"]*"([a-z][a-z0-9-]*)"`).FindAllSubmatch(text, -1) {
			known[string(m[1])] = true
		}
	}
	// Of other programs.
	for _, name := range []string{"fuzz", "version", "no-install-recommends", "parsable2", "parsable", "uid", "mem", "gres",
		"chdir", "query-gpu", "exclusive", "no-build-isolation", "from-file"} {
		flags[name] = true
	}
	calls := regexp.MustCompile(`(?m)^    (?:curl|python3|make|docker|kubectl|systemctl|useradd) (?:.*\\\n)*.*$`)
	for _, doc := range clitest.Documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		text = calls.ReplaceAll(text, nil)
		for _, m := range regexp.MustCompile("(?:^|[\\s`(\\[/|'])--([a-z][a-z0-9-]*)").FindAllStringSubmatch(
			string(text), -1) {
			if !flags[m[1]] && !(ofNotes[m[1]] && filepath.Base(filepath.Dir(doc)) == "notes") {
				t.Errorf("%s names --%s, which no command has", doc, m[1])
			}
		}
	}
}

// TestExamplesRun runs, in order, the examples of every command that need
// only the built-in trace and the outputs of earlier ones.
func TestExamplesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Chdir(t.TempDir())
	if code, _, errs := clitest.Run("explain", "dataset", "--trace", "sample", "--nodes", "12", "--from", "2017-10-10",
		"--out", "runs.csv", "--tiers-out", "tiers.json"); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := clitest.Run("explain", "learn", "--data", "runs.csv", "--tiers", "tiers.json", "--group", "segment",
		"--out", "graph.json"); code != 0 {
		t.Fatal(errs)
	}
	// These measure for longer than a test should.
	long := []string{"autosched evaluate", "autosched forecast"}
	missing := regexp.MustCompile(
		`runs\.csv\.gz|power\.yaml|jobs\.csv|jobs\.autosched|jobs-done|prod\.yaml|space\.yaml|throughput|pods\.csv|pai_|\.psv|slurm|philly\.json|fetch |day\.yaml|today\.yaml|durations\.model|models\.json|trace export|demo\.jsonl|events data|--server|trace (stats|import) - |serve|backup|restore|migrate|compact|doctor|emulate|register|audit |rounds |study |trial |workload |what-if |operations |replay |freeze|adapter |conformance |telemetry |findings |metrics |active_nodes|rules\.yaml|cre\.yaml|gpus\.csv|iterations\.csv|prices\.csv|steps\.csv|scheduler (job|load|tenants|timeline|energy|forecast|gain|get|list|effects|revisions|validate|update|pause|resume|delete|undelete) |config |scenario|trials\.jsonl`)
	ran := 0
	clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
		if slices.ContainsFunc(long, func(p string) bool {
			return strings.HasPrefix(cmd.CommandPath(), p)
		}) || strings.Contains(cmd.CommandPath(), "completion") {
			return
		}
		for _, args := range clitest.CommandLines("autosched", cmd.Example) {
			line := strings.Join(args, " ")
			if missing.MatchString(line+" ") || slices.Contains(args, "-") {
				continue
			}
			ran++
			began := time.Now()
			code, out, errs := clitest.Run(args...)
			t.Logf("%6.2f s: %s", time.Since(began).Seconds(), line)
			if code != 0 {
				t.Errorf("autosched %s: exit %d: %s", line, code, errs)
			}
			if slices.Contains(args, "--json") && !json.Valid([]byte(out)) {
				t.Errorf("autosched %s: not JSON: %.200s", line, out)
			}
		}
	})
	if ran < 20 {
		t.Errorf("%d examples ran", ran)
	}
}

// TestEveryResultIsThereForPrograms: commands that print results have --json.
func TestEveryResultIsThereForPrograms(t *testing.T) {
	testshared.Full(t)
	// They write files, or print nothing to work with.
	without := []string{"autosched serve", "autosched admin certs", "autosched forecast models show", "autosched help",
		"autosched completion", "autosched admin audit export", "autosched scheduler adapter",
		"autosched slurm run", "autosched slurm install-file", "autosched telemetry collect", "autosched telemetry fetch"}
	clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
		if cmd.HasSubCommands() || slices.ContainsFunc(without, func(p string) bool {
			return strings.HasPrefix(cmd.CommandPath(), p)
		}) {
			return
		}
		if cmd.Flag("json") == nil {
			t.Errorf("%s has no --json", cmd.CommandPath())
		}
		if out := cmd.Flag("out"); out != nil && out.Shorthand != "o" {
			t.Errorf("%s: --out has no -o", cmd.CommandPath())
		}
	})
}

func TestCompletion(t *testing.T) {
	testshared.Full(t)
	for _, c := range []struct{ args, want string }{
		{"simulate --scheduler t", "tiresias"},
		{"tune --sampler g", "gp"},
		{"evaluate --methods default,a", "default,autosched"},
		{"evaluate --trace s", "sample"},
		{"evaluate --trace sample-", "sample-shifts"},
		{"forecast eval --methods r", "ridge"},
		{"simulate --scheduler themis --set l", "lease_term="},
		{"simulate --scheduler tiresias --set order=", "order=submit"},
		{"simulate --scheduler tiresias --preset ladder-7", "ladder-7200x6"},
		{"trace stats --format p", "philly-json"},
		{"telemetry validate --format pr", "prometheus"},
		{"explain show --as d", "dot"},
		{"scheduler register --mode a", "auto"},
		{"scheduler spaces l", "lucid"},
		{"help tr", "trace"},
	} {
		code, out, errs := clitest.Run(append([]string{"__complete"}, strings.Fields(c.args)...)...)
		if code != 0 || !slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool {
			return l == c.want || strings.HasPrefix(l, c.want+"\t")
		}) {
			t.Errorf("%s: exit %d, %q %s; want %q", c.args, code, out, errs, c.want)
		}
	}
}

func TestNoSuchCommand(t *testing.T) {
	testshared.Full(t)
	for _, args := range []string{"tarce", "trace foo", "completion foo", "help foo", "help trace foo",
		"scheduler regster", "completion bash extra"} {
		code, out, errs := clitest.Run(strings.Fields(args)...)
		if code != 2 || out != "" || errs == "" {
			t.Errorf("autosched %s: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if _, _, errs := clitest.Run("tarce"); !strings.Contains(errs, "do you mean trace?") {
		t.Error(errs)
	}
}

// TestMisspeltFlags: a usage error names the flag that was meant, as JSON with --json, too.
func TestMisspeltFlags(t *testing.T) {
	testshared.Full(t)
	for line, want := range map[string]string{"evaluate --sheduler tiresias": "do you mean --scheduler?",
		"evaluate --sheduler=tiresias": "do you mean --scheduler?", "simulate --node 4": "do you mean --nodes?",
		"scheduler config get x --revison 3": "do you mean --revision?"} {
		args := strings.Fields(line)
		if code, out, errs := clitest.Run(args...); code != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("autosched %s: exit %d, %q, %q", line, code, out, errs)
		}
		var failed struct {
			Schema, Message, Command string
			ExitCode                 int `json:"exit_code"`
		}
		_, _, errs := clitest.Run(append(args, "--json")...)
		if err := json.Unmarshal([]byte(errs), &failed); err != nil || failed.Schema != "autosched.error/v1" ||
			!strings.Contains(failed.Message, want) || !strings.HasPrefix(line,
			failed.Command) || failed.ExitCode != 2 {
			t.Errorf("autosched %s --json: %v, %s", line, err, errs)
		}
	}
	if _, _, errs := clitest.Run("evaluate", "--zzzz"); strings.Contains(errs, "do you mean") {
		t.Error(errs)
	}
}

// TestErrorsOfFlags: an error is JSON however --json is written, and one about a flag that only trace has names it.
func TestErrorsOfFlags(t *testing.T) {
	testshared.Full(t)
	for args, json := range map[string]bool{"simulate --trace none --json": true,
		"simulate --json=true --trace none": true,
		"simulate --nonsense --json=true":   true, "simulate --trace none --json=false": false} {
		if _, _, errs := clitest.Run(strings.Fields(args)...); strings.HasPrefix(errs, "{") != json {
			t.Errorf("%s: %s", args, errs)
		}
	}
	for _, flag := range []string{"--columns=gpus=n", "--timezone=UTC", "--requeue-restarts=false", "--shards-per-gpu=4"} {
		if _, _, errs := clitest.Run("simulate", "--trace", "sample", flag); !strings.Contains(errs,
			"'autosched trace import' has it") {
			t.Errorf("%s: %s", flag, errs)
		}
	}
}

// TestFlagGroups: a command with many flags lists the common ones, and with --help-all each once, under a heading.
func TestFlagGroups(t *testing.T) {
	testshared.Full(t)
	short, grouped := 0, 0
	clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		code, text, errs := clitest.Run(append(path, "--help")...)
		if code != 0 {
			t.Fatalf("%s --help: %s", cmd.CommandPath(), errs)
		}
		_, usage, _ := strings.Cut(text, "\nUsage:")
		if n := strings.Count(usage, "\n      --"); n > 30 {
			t.Errorf("%s --help lists %d flags", cmd.CommandPath(), n)
		}
		if cmd.Flags().Lookup("help-all") != nil {
			if short++; !strings.Contains(usage, " more flags: "+cmd.CommandPath()+" --help-all") {
				t.Errorf("%s --help does not name --help-all:\n%s", cmd.CommandPath(), usage)
			}
			_, text, _ = clitest.Run(append(path, "--help-all")...)
			_, usage, _ = strings.Cut(text, "\nUsage:")
		}
		if strings.Contains(usage, "\nOther flags:") {
			t.Errorf("%s: flags without a heading: %s", cmd.CommandPath(), usage)
		}
		if strings.Contains(usage, " flags:\n") {
			grouped++
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := len(regexp.MustCompile(`\n +(-\w, )?--`+f.Name+`( \w+)?  `).FindAllString(usage, -1)); n != 1 && !f.Hidden {
				t.Errorf("%s: --%s is %d times in its help", cmd.CommandPath(), f.Name, n)
			}
		})
	})
	if _, out, _ := clitest.Run("--help"); strings.Count(out, "\n") > 45 {
		t.Errorf("help has %d lines", strings.Count(out, "\n"))
	}
	if short < 10 || grouped < 10 {
		t.Errorf("%d commands have short help, %d list flags by group", short, grouped)
	}
}

// TestFlagsHaveOneMeaning reads the usage of every flag of every command: it is the same wherever the name stands, but
// for a note on the default at its end.
func TestFlagsHaveOneMeaning(t *testing.T) {
	testshared.Full(t)
	own := map[string]string{
		"cluster": "serve takes the file of a node of several, other commands that of a scheduler's cluster",
		"methods": "each of the two commands has its own",
		"out":     "each command writes its own kind of file or folder",
		"tls-ca":  "telemetry fetch calls another server",
	}
	note := regexp.MustCompile(` \((?:default|required)[^()]*\)$`)
	type use struct{ command, usage string }
	first := map[string]use{}
	clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
		see := func(f *pflag.Flag) {
			one, seen := first[f.Name]
			usage := note.ReplaceAllString(f.Usage, "")
			switch {
			case f.Name == "help" || own[f.Name] != "":
			case f.Usage == "":
				t.Errorf("%s: nothing says what --%s is", cmd.CommandPath(), f.Name)
			case !seen:
				first[f.Name] = use{cmd.CommandPath(), usage}
			case one.usage != usage:
				t.Errorf("--%s is %q in %s and %q in %s", f.Name, f.Usage, cmd.CommandPath(), one.usage, one.command)
			}
		}
		if !strings.Contains(cmd.CommandPath(), " completion") {
			cmd.LocalFlags().VisitAll(see)
		}
	})
}
