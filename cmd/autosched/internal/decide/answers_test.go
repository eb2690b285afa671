package decide

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
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
	Refused       *struct {
		Configuration json.RawMessage
		Flags, Accept string
		Gain          float64
		Breaks        []string
	}
	EnoughFrom string `json:"enough_from"`
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

		if v.Change != first.Change || string(v.Configuration) != string(first.Configuration) ||
			v.Flags != first.Flags ||
			math.Abs(v.Gain-first.Gain) > 1e-9 || v.Text != first.Text || len(v.Losers) != len(first.Losers) ||
			(v.Refused == nil) != (first.Refused == nil) {
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

// TestOneAnswerOfASite: the flags of a site reproduce the configuration, refused or not, to the byte, and a refused one
// is adopted with the flag that the answer names.
func TestOneAnswerOfASite(t *testing.T) {
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
	adopted := asked(t, "compare", append([]string{"--trace", export, "--site", dir},
		strings.Fields(v.Refused.Accept)...)...)
	if !adopted.Change || !strings.Contains(adopted.Text, "wide jobs") {
		t.Errorf("with %s: %+v", v.Refused.Accept, adopted)
	}
	_, out, errs := clitest.Run(append([]string{"simulate", "--trace", export, "--json"},
		clitest.ShellWords(v.Refused.Flags)...)...)
	var ran struct{ Configuration json.RawMessage }
	if err := json.Unmarshal([]byte(out), &ran); err != nil || !sameJSON(ran.Configuration, v.Refused.Configuration) {
		t.Errorf("%v: %s: simulated %s, recommended %s", err, errs, ran.Configuration, v.Refused.Configuration)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}
