package act

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/patterns"
)

func known(action string) error {
	if !slices.Contains(patterns.Builtin().Actions(), action) {
		return errors.New("is no action")
	}
	return nil
}

const slurm = "../../examples/actions/slurm.yaml"

// TestRender: the commands for Slurm have the values of findings, as single words.
func TestRender(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash(slurm))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(text, "slurm.yaml", known)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, x := range []struct {
		rule, action, kind, entity, job, node string
		want                                  string // of Line, or of the error
	}{
		{"idle_allocation", "warn_idle", "job", "4711", "4711", "",
			"scontrol notify 4711 'Your GPUs are idle (2.5 GPU-hours so far): end the job if it is done.'"},
		{"hoarding", "right_size", "job", "4711_3", "4711_3", "",
			"scontrol notify 4711_3 'This job uses few of its GPUs: ask for fewer in the next one.'"},
		{"memory_pressure", "warn_memory", "gpu", "n1:0", "4711", "",
			"scontrol notify 4711 'The memory of a GPU of this job is more than 90 % full.'"},
		{"memory_pressure", "warn_memory", "gpu", "n1:0", "", "", "the finding has no {job}"},
		{"never_ending", "cancel_after_approval", "job", "4711", "4711", "", "scancel 4711"},
		{"never_ending", "cancel_after_approval", "job", "-u", "-u", "", `word 2: {job}: its value "-u" has other characters`},
		{"never_ending", "cancel_after_approval", "job", "1 2", "1 2", "", "other characters"},
		{"never_ending", "cancel_after_approval", "job", "4711_[1-9]", "4711_[1-9]", "", "other characters"},
		{"never_ending", "cancel_after_approval", "job", "{user}", "{user}", "", "other characters"},
		{"never_ending", "cancel_after_approval", "job", "1\n", "1\n", "", "other characters"},
		{"never_ending", "cancel_after_approval", "job", strings.Repeat("1", 256), strings.Repeat("1", 256), "", "longer than 255"},
		{"crash_loop", "hold_key", "key", "ada/train.sh", "", "",
			"scontrol update JobName=train.sh UserID=ada Priority=0"},
		{"crash_loop", "hold_key", "key", "ada/bin/train.sh", "", "", `{key}: its value "bin/train.sh" has other characters`},
		{"crash_loop", "hold_key", "key", "ada", "", "", "the finding has no {key}"},
		{"straggler", "drain_node", "worker", "4711/6", "4711", "n7",
			"scontrol update NodeName=n7 State=DRAIN 'Reason=autosched straggler of job 4711'"},
		{"straggler", "drain_node", "worker", "4711/6", "4711", "", "slurm.yaml:21: drain_node: word 3: the finding has no {node}"},
		{"straggler", "drain_node", "worker", "4711/6", "4711", "ALL", "means everything"},
		{"straggler", "exclude_node", "worker", "4711/6", "4711", "n7", "scontrol requeuehold 4711"},
		{"throttle", "suspect_node", "gpu", "n1:0", "", "",
			"scontrol update NodeName=n1 State=DRAIN 'Reason=autosched throttle of GPU 0'"},
		{"throttle", "check_cooling", "gpu", "n1:0", "", "",
			"scontrol update NodeName=n1 State=DRAIN 'Reason=autosched throttle of GPU 0 by heat'"},
		{"throttle", "check_power", "gpu", "n1:0", "", "", "slurm.yaml: has no command for the action check_power"},
	} {
		f := &patterns.Finding{Rule: x.rule, Action: x.action, Entity: patterns.Entity{Kind: x.kind, Name: x.entity},
			Job: x.job, Node: x.node, WastedGPUHours: 2.5}
		got, err := c.Render(x.action, Values(f, patterns.Builtin().Rule(x.rule).GroupBy))
		if err != nil {
			if !strings.Contains(err.Error(), x.want) {
				t.Errorf("%+v: %v", x, err)
			}
			continue
		}
		covered[x.action] = true
		if units.Command(got) != x.want {
			t.Errorf("%s of %s: %s, want %s", x.action, x.entity, units.Command(got), x.want)
		}
	}
	for action := range c.byAction {
		if !covered[action] {
			t.Errorf("no finding of the test renders %s", action)
		}
	}
}

// TestRead: errors name the file, the line and every fault.
func TestRead(t *testing.T) {
	const head = "version: 1\nactions:\n"
	for _, x := range []struct{ text, want string }{
		{"", "a.yaml:1: want version: 1 and actions"},
		{"[1]", "a.yaml:1: want version: 1 and actions"},
		{"version: 1\n", "a.yaml:1: want version: 1 and actions"},
		{"actions: {warn_idle: [ls]}\n", "a.yaml:1: want version: 1 and actions"},
		{"version: 2\nactions: {warn_idle: [ls]}\n", `a.yaml:1: version: "2" is not 1`},
		{"version: 1\ncommands: {}\n", `a.yaml:2: "commands" is neither version nor actions`},
		{head, "a.yaml:2: want actions with their commands"},
		{head + "  tidy: [ls]\n", "a.yaml:3: tidy: is no action"},
		{head + "  warn_idle: [ls]\n  warn_idle: [ls]\n", "a.yaml:4: warn_idle: is in line 3 already"},
		{head + "  warn_idle: []\n", "a.yaml:3: warn_idle: the program is missing"},
		{head + "  warn_idle: ls\n", "a.yaml:3: warn_idle: the program is missing"},
		{head + "  warn_idle: ['', x]\n", `a.yaml:3: warn_idle: word 1: "" is no program`},
		{head + "  warn_idle: ['{job}']\n", `a.yaml:3: warn_idle: word 1: "{job}" is no program`},
		{head + "  warn_idle: [./x]\n", `a.yaml:3: warn_idle: word 1: "./x" is no program`},
		{head + "  warn_idle: [-x]\n", `a.yaml:3: warn_idle: word 1: "-x" is no program`},
		{head + "  warn_idle:\n    - ls\n    - {job}\n", "a.yaml:5: warn_idle: word 2: want text: YAML takes braces"},
		{head + "  warn_idle:\n    - ls\n    - [a]\n", "a.yaml:5: warn_idle: word 2: want text"},
		{head + "  warn_idle:\n    - ls\n    -\n", "a.yaml:5: warn_idle: word 2: want text"},
		{head + "  warn_idle: [ls, '{nod}']\n", "a.yaml:3: warn_idle: word 2: {nod} is unknown: want one of {action}, {finding}"},
		{head + "  warn_idle: [ls, '{}']\n", "{} is unknown"},
		{head + "  warn_idle: [ls, '{job']\n", `word 2: "{job" has a brace`},
		{head + "  warn_idle: [ls, '{{job}}']\n", `word 2: "{{job}}" has a brace`},
		{head + "  warn_idle: [ls, \"a\\nb\"]\n", `word 2: "a\nb" has control characters`},
		{head + "  warn_idle: &a [ls]\n  right_size: *a\n", "a.yaml:4: right_size: the program is missing"},
		{head + "  tidy: [ls]\n  warn_idle: [./x]\n", "is no action\na.yaml:4: warn_idle"},
		{head + "\twarn_idle: [ls]\n", "a.yaml: yaml: line 3"},
		{strings.Repeat("#", maxFile+1), "a.yaml: is larger than 1 MiB"},
		{head + "  warn_idle: [ls]\n", ""},
		{head + "  warn_idle: [/bin/ls, 7, '{job}-{user}', '']\n", ""},
	} {
		_, err := Read([]byte(x.text), "a.yaml", known)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%.80q: %v, want %s", x.text, err, x.want)
		}
	}
}

// FuzzRead: a command that was read renders as many words as the file has, without placeholders, or says why not; and
// no value adds a word, an option or a placeholder.
func FuzzRead(f *testing.F) {
	text, err := os.ReadFile(filepath.FromSlash(slurm))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, "4711")
	f.Add([]byte("version: 1\nactions:\n  warn_idle:\n    - ls\n    - {job}\n"), "-rf")
	f.Add([]byte("version: 1\nactions: {a: &a [x, '{job}{node}'], b: *a}\n"), "{node}")
	f.Fuzz(func(t *testing.T, text []byte, value string) {
		c, err := Read(text, "f", func(string) error { return nil })
		if err != nil {
			return
		}
		values := map[string]string{}
		for _, name := range Placeholders {
			values[name] = value
		}
		for action, cmd := range c.byAction {
			got, err := c.Render(action, values)
			if err != nil {
				continue
			}
			if len(got) != len(cmd.words) || got[0] != cmd.words[0] || got[0] == "" {
				t.Errorf("%q is %q", cmd.words, got)
			}
			for i, word := range got {
				whole := placeholder.MatchString(cmd.words[i]) && placeholder.ReplaceAllString(cmd.words[i], "") == ""
				if strings.ContainsAny(word, "{}") || whole && strings.HasPrefix(word, "-") {
					t.Errorf("%q is %q", cmd.words[i], word)
				}
			}
		}
	})
}

// TestLine: a shell reads the words that were meant.
func TestLine(t *testing.T) {
	got := units.Command([]string{"a", "b c", "", "it's", "$HOME", "x=1,2"})
	if want := `a 'b c' '' 'it'\''s' '$HOME' x=1,2`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
