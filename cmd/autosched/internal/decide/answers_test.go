package decide

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
)

// verdict is the answer as commands print it in JSON.
type verdict struct {
	Change        bool
	Text          string
	Configuration json.RawMessage
	Flags         string
	Changes       []struct{ Means string }
	Gain          float64
	Losers        []round.Group
	Low           float64 `json:"gain_low"`
	High          float64 `json:"gain_high"`
	Refused       *struct {
		Configuration json.RawMessage
		Flags, Accept string
		Gain          float64
		Breaks        []string
		Losers        []round.Group
	}
	EnoughFrom string `json:"enough_from"`
	Fidelity   json.RawMessage
}

// asked is the answer of a command to the question of a history.
func asked(t *testing.T, command string, args ...string) verdict {
	t.Helper()
	words := append([]string{command, "--json"}, args...)
	switch command {
	case "tune":
		words = append(words, "--budget", "4", "--futures", "1")
	case "recommend":
		words = append(words, "--rule", "queue_spiral")
	}
	code, out, errs := clitest.Run(words...)
	if code != 0 {
		t.Fatalf("%v: exit %d: %s", words, code, errs)
	}
	var got struct{ Verdict *verdict }
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Verdict == nil {
		t.Fatalf("%v: %v: %s", words, err, out)
	}
	return *got.Verdict
}

// concluding are the commands that answer whether to change the settings.
var concluding = []string{"compare", "evaluate", "plan", "recommend", "tune"}

// oneAnswer asks every command and requires one answer: a search, which is asked with more candidates, may find
// another, and says so.
func oneAnswer(t *testing.T, args ...string) verdict {
	t.Helper()
	first := asked(t, concluding[0], args...)
	for _, command := range concluding[1:] {
		v := asked(t, command, args...)
		if command == "tune" && strings.Contains(v.Text, "(search)") {
			continue
		}
		if !reflect.DeepEqual(v, first) {
			t.Errorf("%s: %+v\nand %s: %+v", command, v, concluding[0], first)
		}
	}
	return first
}

// spiral is a history of days, each with jobs of 6 and of 4 GPUs in turn that a node of 8 runs one after the other
// without backfill; idle has room for all of them.
func spiral(t *testing.T, days int, idle bool) string {
	t.Helper()
	text := "job_id,submit_time,duration_s,gpus,user,tenant,key\n"
	zero := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for day := range days {
		for k := range 144 {
			at := zero.Add(time.Duration(day)*24*time.Hour + time.Duration(k)*75*time.Second)
			gpus := 6 - 2*(k%2)
			if idle {
				gpus = 1
			}
			text += fmt.Sprintf("d%d-%d,%s,90,%d,u,team%d,k\n", day, k, at.Format(time.RFC3339), gpus, k%2)
		}
	}
	path := filepath.Join(t.TempDir(), "spiral.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOneAnswer: commands that are asked the same question of a history give one answer, and its flags name the
// recommended configuration to each of them, which then keeps it.
func TestOneAnswer(t *testing.T) {
	testshared.Full(t)
	fifo := func(path string, more ...string) []string {
		return append([]string{"--trace", path, "--nodes", "1", "--gpus-per-node", "8", "--scheduler", "fifo",
			"--recorded-scheduler", "fifo"}, more...)
	}
	change := oneAnswer(t, fifo(spiral(t, 12, false))...)
	if !change.Change || change.Flags != "--scheduler fifo --set backfill=true" || !(change.Gain > .3) ||
		!strings.HasPrefix(change.Text, "Change once: set backfill=true. Expected average JCT -") {
		t.Errorf("%+v", change)
	}
	if c := change.Changes; len(c) != 1 || !strings.HasPrefix(c[0].Means, "On, small and short jobs start earlier") {
		t.Errorf("effect of the change: %+v", c)
	}
	if v := oneAnswer(t, fifo(spiral(t, 12, false), "--set", "backfill=true")...); v.Change || v.Flags != "" {
		t.Errorf("in force already: %+v", v)
	}
	if v := oneAnswer(t, fifo(spiral(t, 3, false))...); v.Change || v.EnoughFrom != "2026-03-07T00:05:00Z" {
		t.Errorf("three days: %+v", v)
	}
	if v := oneAnswer(t, fifo(spiral(t, 12, true))...); v.Change || !strings.Contains(v.Text, "nothing to gain") {
		t.Errorf("nothing waits: %+v", v)
	}
}

// TestOneQuestion: what is assumed without flags is one scheduler in every command, and a job wider than the cluster is
// an error in every one, or left out.
func TestOneQuestion(t *testing.T) {
	history := spiral(t, 6, true)
	text, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(history, append(text, "wide,2026-03-07T00:10:00Z,90,9,u,team0,k\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--trace", history, "--nodes", "1", "--gpus-per-node", "8"}
	for _, command := range concluding {
		if code, _, errs := clitest.Run(append([]string{command}, args...)...); code != 1 ||
			!strings.Contains(errs, `job "wide" asks for 9 GPUs`) || !strings.Contains(errs, "--skip-wider") {
			t.Errorf("%s: exit %d, %s", command, code, errs)
		}
	}
	if v := oneAnswer(t, append(args, "--skip-wider")...); !strings.Contains(v.Text, "nothing to gain") {
		t.Errorf("%+v", v)
	}
}

// TestOneAnswerOfASite: the flags of a site reproduce the configuration, refused or not, to the byte, and a refused one
// is adopted with the flag that the answer names.
func TestOneAnswerOfASite(t *testing.T) {
	testshared.Full(t)
	dir := filepath.Join(t.TempDir(), "site")
	listings, export := testshared.Path(t, "traces/site40/listings"), testshared.Path(t, "traces/site40/sacct.psv.gz")
	if code, _, errs := clitest.Run("slurm", "init", "--saved", listings, "--out", dir); code != 0 {
		t.Fatal(errs)
	}
	v := oneAnswer(t, "--trace", export, "--site", dir)
	if v.Change || v.Refused == nil || v.Refused.Gain < .05 || !strings.Contains(v.Text, "wide jobs") ||
		strings.Count(v.Refused.Flags, "--set ") > 2 {
		t.Fatalf("%+v", v)
	}
	t.Log(v.row("site40"))
	adopted := asked(t, "compare", append([]string{"--trace", export, "--site", dir},
		strings.Fields(v.Refused.Accept)...)...)
	if !adopted.Change || !strings.Contains(adopted.Text, "wide jobs") {
		t.Errorf("with %s: %+v", v.Refused.Accept, adopted)
	}
	reproduced(t, v, "--trace", export)
}

// row is the answer as a row of the table in docs/notes/evaluation.md.
func (v *verdict) row(history string) string {
	what, flags, gain, between, loser := "keep", "-", "-", "-", "-"
	losers := v.Losers
	switch {
	case v.Change:
		what, flags = "change", v.Flags
		gain, between = fmt.Sprintf("%.1f %%", 100*v.Gain), fmt.Sprintf("%.1f to %.1f %%", 100*v.Low, 100*v.High)
	case v.Refused != nil:
		what, flags, losers = "keep, refused", v.Refused.Flags, v.Refused.Losers
		gain = fmt.Sprintf("%.1f %%", 100*v.Refused.Gain)
	case v.EnoughFrom != "":
		what = "keep, less than five days"
	case strings.Contains(v.Text, "nothing to gain"):
		what = "keep, nothing waits"
	}
	if len(losers) > 0 {
		g := &losers[0]
		loser = fmt.Sprintf("%s %s: %s, before %s", g.By, g.Name, units.Duration(g.After.Mean),
			units.Duration(g.Before.Mean))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", history, what, flags, gain, between, loser)
}

// reproduced requires that simulate runs the recommended or refused configuration with its flags.
func reproduced(t *testing.T, v verdict, args ...string) {
	t.Helper()
	flags, want := v.Flags, v.Configuration
	if !v.Change {
		flags, want = v.Refused.Flags, v.Refused.Configuration
	}
	_, out, errs := clitest.Run(append(append([]string{"simulate", "--json"}, args...),
		clitest.ShellWords(flags)...)...)
	var ran struct{ Configuration json.RawMessage }
	if err := json.Unmarshal([]byte(out), &ran); err != nil || !sameJSON(ran.Configuration, want) {
		t.Errorf("%v: %s: simulated %s, recommended %s", err, errs, ran.Configuration, want)
	}
}

// TestOneAnswerOfHistories: the commands agree on real and built-in histories, long ones with AUTOSCHED_LONG=1.
func TestOneAnswerOfHistories(t *testing.T) {
	testshared.Full(t)
	philly := []string{"traces", "philly", "jobs.csv.gz"}
	fifo := "--scheduler fifo --set backfill=false"
	tiresias := "--gpus-per-node 8 --scheduler tiresias"
	for _, c := range []struct {
		name  string
		trace string   // built in or in the repository, or
		data  []string // of the reference data
		over  string   // trace, window and cluster
		asks  string   // scheduler and gate
		want  string   // in the text
		short bool     // of make test
	}{
		{"tutorial", "examples/tutorial/sacct.psv", nil, "",
			fifo + " --recorded-scheduler fifo", "Refused (backfill=true)", true},
		{"sample", "sample", nil, "", "--scheduler tiresias", "The history is too short to choose by", true},
		{"idle tutorial", "examples/tutorial/sacct.psv", nil, "--nodes 64 --gpus-per-node 8",
			fifo + " --ignore-fidelity", "nothing to gain", true},
		{"sample-shifts", "sample-shifts", nil, "", "--scheduler tiresias", "The replays differ by more than that",
			false},
		{"philly-quick", "", philly, "--from 2017-10-04 --to 2017-10-12 --nodes 40", tiresias,
			"The replays differ by more than that", false},
		{"ten days of philly", "", philly, "--from 2017-10-17 --to 2017-10-27 --nodes 60", tiresias,
			"Change once: set queues=5", false},
		{"a fortnight of philly", "", philly, "--from 2017-10-06 --to 2017-10-20 --nodes 70 --gpus-per-node 8", fifo,
			"Refused (backfill=true)", false},
		{"PAI week", "", []string{"traces", "pai2023", "pods.csv.gz"}, "--from 1970-05-14 --to 1970-05-21 --nodes 1",
			tiresias + " --ignore-fidelity", "Change once: set priority=gittins", false},
		{"idle philly", "", philly, "--from 2017-11-01 --to 2017-11-08 --nodes 400", tiresias, "nothing to gain",
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				testshared.Long(t)
			}
			path := c.trace
			if c.data != nil {
				path = testshared.Path(t, c.data...)
			} else if strings.Contains(path, "/") {
				path = filepath.Join(testshared.Root(t), path)
			}
			history := append([]string{"--trace", path}, strings.Fields(c.over)...)
			v := oneAnswer(t, append(history, strings.Fields(c.asks)...)...)
			t.Log(v.row(c.name))
			if !strings.Contains(v.Text, c.want) {
				t.Errorf("%s: no %q in %s", c.name, c.want, v.Text)
			}
			if v.Change || v.Refused != nil {
				if strings.Contains(c.asks, "--gpus-per-node 8") {
					history = append(history, "--gpus-per-node", "8")
				}
				reproduced(t, v, history...)
			}
		})
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}
