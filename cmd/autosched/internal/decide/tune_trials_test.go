package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/search"
)

// withoutWall is a report without its wall times, which differ from run to run.
func withoutWall(out string) string {
	return regexp.MustCompile(`"wall_s": [0-9.e-]+`).ReplaceAllString(out, `"wall_s": 0`)
}

// TestTuneResumeWithInertParameters: the record is of the scheduler's whole space.
func TestTuneResumeWithInertParameters(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	path, half := filepath.Join(dir, "trials.jsonl"), filepath.Join(dir, "half.jsonl")
	run := func(more ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append([]string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z",
			"--nodes", "20", "--scheduler", "chronus", "--budget", "6", "--futures", "1", "--json"}, more...)...)
		if code != 0 || !strings.Contains(errs, "note: slo_gpus, slo_share, slo_factor keep the incumbent's values") {
			t.Fatalf("exit %d: %s", code, errs)
		}
		return withoutWall(out)
	}
	want := run("--trials", path)
	var report struct{ Inert []string }
	if err := json.Unmarshal([]byte(want), &report); err != nil ||
		!slices.Equal(report.Inert, []string{"slo_gpus", "slo_share", "slo_factor"}) {
		t.Errorf("inert are %v (%v)", report.Inert, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(half, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("--resume", half); got != want {
		t.Errorf("resumed:\n%s\nwant:\n%s", got, want)
	}
	if now, err := os.ReadFile(half); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the record of the resumed search differs: %v", err)
	}
}

// TestTuneResume: a search that goes on from the first lines of its record ends
// with the same record and the same report, for any number of workers.
func TestTuneResume(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	path, half := filepath.Join(dir, "trials.jsonl"), filepath.Join(dir, "half.jsonl")
	args := func(more ...string) []string {
		return append([]string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--set",
			"queues=1", "--budget", "16", "--futures", "2", "--json"}, more...)
	}
	run := func(more ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(args(more...)...)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		return withoutWall(out)
	}
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := run("--trials", path, "--workers", "1")
	text := read(path)
	lines := strings.SplitAfter(text, "\n")
	if len(lines) != 18 || !strings.Contains(lines[0], `"scheduler":"tiresias"`) {
		t.Fatalf("%d lines: %s", len(lines), lines[0])
	}
	// Seven trials, and the beginning of one more.
	if err := os.WriteFile(half, []byte(strings.Join(lines[:8], "")+lines[8][:40]), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("--resume", half, "--workers", "3"); got != want {
		t.Errorf("resumed:\n%s\nwant:\n%s", got, want)
	}
	if read(half) != text {
		t.Error("the record of the resumed search differs")
	}
	// With a larger budget it goes on, in the same file or in one of its own, and
	// may be broken off there, too.
	more, grown := filepath.Join(dir, "more.jsonl"), filepath.Join(dir, "grown.jsonl")
	longer := run("--resume", path, "--trials", more, "--budget", "20")
	if strings.Count(read(more), "\n") != 22 || !strings.HasPrefix(read(more), text+`{"budget":20}`+"\n") ||
		read(path) != text {
		t.Error("a larger budget did not go on in another file")
	}
	for _, begin := range []string{text, text[:len(text)/2], read(more)[:len(text)+200]} {
		if err := os.WriteFile(grown, []byte(begin), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := run("--resume", grown, "--budget", "20"); got != longer || read(grown) != read(more) {
			t.Errorf("from %d of %d bytes on, a larger budget in the same file ends otherwise than in another",
				len(begin), len(read(more)))
		}
	}
	// A record from before they told their budget goes on with the same, and with
	// a larger one in a file of its own.
	older := filepath.Join(dir, "older.jsonl")
	old := strings.Replace(text, `"budget":16,`, "", 1)
	if err := os.WriteFile(older, []byte(old), 0o600); err != nil || old == text {
		t.Fatal(err)
	}
	if run("--resume", older); read(older) != old {
		t.Error("an older record changed")
	}
	if run("--resume", older, "--trials", filepath.Join(dir, "newer.jsonl"), "--budget", "20"); read(older) != old {
		t.Error("an older record changed")
	}
	// Another sampler goes on in another file only.
	if run("--resume", path, "--trials", filepath.Join(dir, "random.jsonl"), "--sampler",
		"random"); read(path) != text {
		t.Error("another sampler changed the record it began with")
	}
	// The rest of a smaller budget stays: the larger one goes on with it.
	run("--resume", path, "--sampler", "auto", "--budget", "5")
	// A line that this search does not come by, after one that it does.
	swapped := filepath.Join(dir, "swapped.jsonl")
	strange := strings.Join(lines[:9], "") + strings.Replace(lines[9], `"origin":"`, `"origin":"an older `, 1) +
		strings.Join(lines[10:], "")
	if err := os.WriteFile(swapped, []byte(strange), 0o600); err != nil || strange == text {
		t.Fatal(err)
	}
	// An empty file is as good as none.
	blank := filepath.Join(dir, "blank.jsonl")
	if err := os.WriteFile(blank, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if run("--trials", blank); read(blank) != text {
		t.Error("the record in a file that was empty differs")
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--trials", path}, 1,
			"--trials: " + path +
				" is not empty and is not overwritten: name another file, or continue it with --resume " +
				path},
		{[]string{"--trials", path, "--resume", half, "--budget", "20"}, 1,
			"--trials: " + path + " is not empty"},
		{[]string{"--resume", older, "--budget", "20"}, 1,
			"another line would come here, as of another --sampler, or another --budget where the first line has none"},
		{[]string{"--resume", path, "--sampler", "random"}, 1, path + ":1: another line would come here"},
		{[]string{"--resume", swapped}, 1, swapped + ":10: another line would come here"},
		{[]string{"--resume", path, "--seed", "2"}, 1, path + ":1: the record is of seed 1, not 2"},
		{[]string{"--resume", path, "--trials", dir + "/./trials.jsonl", "--seed", "2"}, 1,
			path + ":1: the record is of seed 1, not 2"},
		{[]string{"--resume", path, "--set", "pack_limit=0.2"}, 1, path + `:1: the record is of the incumbent {"`},
		{[]string{"--resume", path, "--objective", "p95_jct"}, 1,
			path + ":1: the record is of objective avg_jct, not p95_jct"},
		{[]string{"--resume", path, "--nodes", "21"}, 1, path + ":1: the record was measured on another workload"},
		{[]string{"--resume", path, "--scheduler", "themis"}, 1, path + ":1: the record is of another space"},
		{[]string{"--resume", filepath.Join(dir, "none")}, 1, "--resume: "},
		{[]string{"--trials", dir}, 1, "--trials: "},
		{[]string{"--time", "-1s"}, 2, "--time"},
	} {
		a := args(c.args...)
		if c.args[1] == "themis" || len(c.args) > 3 && c.args[3] == "themis" {
			a = []string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--scheduler",
				"themis", "--resume", path}
		}
		code, _, errs := clitest.Run(a...)
		errs = strings.ReplaceAll(errs, `\"`, `"`) // the error is JSON
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, errs)
		}
		if c.args[1] == path && strings.Contains(errs, "not measured again") {
			t.Errorf("%v: trials of a record that is refused are said to be used: %s", c.args, errs)
		}
	}
	if code, _, errs := clitest.Run(args("--resume", path)...); code != 0 ||
		!strings.Contains(errs, "note: 16 trials of "+path+" are not measured again") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if read(swapped) != strange || read(path) != text {
		t.Error("a refused record was changed")
	}
}

// TestTuneResumeBudget: without --budget a search goes on to that of the file, the
// last one if there are several, and a note names the trials that a smaller one
// leaves out.
func TestTuneResumeBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	path, half := filepath.Join(dir, "trials.jsonl"), filepath.Join(dir, "half.jsonl")
	run := func(more ...string) (trials int, errs string) {
		t.Helper()
		code, out, errs := clitest.Run(append([]string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z",
			"--nodes", "20", "--futures", "1", "--sampler", "random", "--json"}, more...)...)
		var got struct{ Trials []json.RawMessage }
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("exit %d, %v: %s", code, err, errs)
		}
		return len(got.Trials), errs
	}
	run("--budget", "43", "--trials", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// 41 trials
	if err := os.WriteFile(half, bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:42], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, errs := run("--resume", half); n != 43 ||
		!strings.Contains(errs, "note: 41 trials of "+half+" are not measured again\n") {
		t.Errorf("%d trials, want 43: %s", n, errs)
	}
	if n, errs := run("--resume", path, "--budget", "40"); n != 40 ||
		!strings.Contains(errs, "note: "+path+" holds 43 trials, --budget 40 uses the first 40\n") {
		t.Errorf("%d trials, want 40: %s", n, errs)
	}
	run("--resume", path, "--budget", "45")
	if n, _ := run("--resume", path); n != 45 {
		t.Errorf("%d trials, want those of the last budget, 45", n)
	}
	for _, c := range []struct {
		recorded, standard int
		timed              bool
		want               int
	}{{60, 40, false, 60}, {20, 40, false, 20}, {0, 40, false, 40}, {40, timedBudget, true, timedBudget},
		{2000, timedBudget, true, 2000}} {
		f := studyFile{from: &search.Recording{Header: search.Header{Budget: c.recorded}}}
		if got := f.budget(c.standard, c.timed); got != c.want {
			t.Errorf("%+v: budget %d", c, got)
		}
	}
}

// TestTuneInterrupted: the best so far comes out, and how to go on.
func TestTuneInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trials.jsonl")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := time.AfterFunc(0, func() {
		for ctx.Err() == nil {
			if b, err := os.ReadFile(path); err == nil && bytes.Count(b, []byte("\n")) > 5 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	})
	defer stop.Stop()
	var out, errs bytes.Buffer
	code := cli.Run(ctx, clitest.NewRoot(), []string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--futures",
		"1", "--sampler", "random", "--budget", "1000000", "--time", "10m", "--trials", path, "--json"}, &out, &errs)
	var got struct {
		Stopped string
		Best    map[string]any
		Trials  []json.RawMessage
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != 0 || got.Stopped != "cancelled" ||
		len(got.Trials) < 5 || len(got.Best) == 0 {
		t.Errorf("exit %d, stopped by %q after %d trials (%v)", code, got.Stopped, len(got.Trials), err)
	}
	if want := "note: interrupted; this is the best of what was measured; continue with --resume " + path +
		" --budget 1000000 --time 10m0s\n"; !strings.Contains(errs.String(), want) {
		t.Errorf("%s does not say %q", &errs, want)
	}
	if got, want := (&studyFile{path: "x", out: os.Stdin}).hint(40, 0),
		"; continue with --resume x --budget 40"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTuneTime(t *testing.T) {
	testshared.Full(t)
	code, out, errs := clitest.Run("tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20",
		"--futures", "1", "--time", "1ns", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Stopped string
		Trials  []json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Stopped != "time" || len(got.Trials) != 1 {
		t.Errorf("stopped by %s after %d trials (%v), want time after the default alone",
			got.Stopped, len(got.Trials), err)
	}
}
