package waste

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/patterns/feed"
)

// TestPatternsWatch: findings are reported while files grow, are truncated and are replaced.
func TestPatternsWatch(t *testing.T) {
	dir := t.TempDir()
	gpus, events := filepath.Join(dir, "gpus.csv"), filepath.Join(dir, "events.jsonl")
	const header = "time,node,gpu,utilization_percent,power_w,job\n"
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Unix()
	samples := func(job string, from, to int) string { // of minutes in which a GPU idles
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "%d,n1,0,0,50,%s\n", start+int64(i)*60, job)
		}
		return b.String()
	}
	event := func(kind, job string, minute int) string {
		return fmt.Sprintf(`{"eventId":"%s%s","kind":"%s","schedulerTime":"%s","job":{"jobId":"%s","milliGpus":1000}}`+"\n",
			kind, job, kind, time.Unix(start+int64(minute)*60, 0).UTC().Format(time.RFC3339), job)
	}
	write := func(path, text string, how int) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|how, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(gpus, header+samples("a", 0, 100)[:2000], 0) // the last row is cut short
	write(events, event("SUBMITTED", "a", 0)+event("STARTED", "a", 0)+"nonsense\n", 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, notes clitest.SharedBuffer
	cmd := newPatternsWatchCmd()
	cmd.SetArgs([]string{"--telemetry", gpus, "--events", events, "--period", "1m", "--rule", "idle_allocation", "--json"})
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	wait := func(lines ...string) {
		t.Helper()
		for range 4000 { // machines under load are slow
			var got []string
			for line := range strings.Lines(out.String()) {
				var f watchedFinding
				if err := json.Unmarshal([]byte(line), &f); err != nil || f.Schema != "autosched.patterns-watch/v1" {
					t.Fatal(line, err)
				}
				got = append(got, f.Event+" "+f.Entity.Name)
			}
			if strings.Join(got, ", ") == strings.Join(lines, ", ") {
				return
			}
			select {
			case err := <-ended:
				t.Fatalf("ended with %v, %s", err, notes.String())
			case <-time.After(25 * time.Millisecond):
			}
		}
		t.Fatalf("printed\n%s\nwant %v", out.String(), lines)
	}
	wait("opened a")
	write(gpus, samples("a", 0, 100)[2000:]+samples("a", 100, 110), os.O_APPEND)
	write(events, event("FINISHED", "a", 110), os.O_APPEND)
	write(gpus, samples("", 110, 125), os.O_APPEND)
	wait("opened a", "closed a")
	write(events, event("SUBMITTED", "b", 125)+event("STARTED", "b", 125), os.O_APPEND)
	time.Sleep(2 * feed.FollowEvery)                       // all is read
	write(gpus, header+samples("b", 125, 205), os.O_TRUNC) // shorter than it was
	wait("opened a", "closed a", "opened b")
	if err := os.Rename(gpus, gpus+".1"); err != nil {
		t.Fatal(err)
	}
	write(events, event("FINISHED", "b", 205), os.O_APPEND)
	write(gpus+".2", header+samples("", 205, 220), 0)
	if err := os.Rename(gpus+".2", gpus); err != nil {
		t.Fatal(err)
	}
	wait("opened a", "closed a", "opened b", "closed b")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, want := range []string{"line 3 is left out", "2 findings opened, 2 closed"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("notes lack %q: %s", want, notes.String())
		}
	}
	if strings.Contains(notes.String(), "rows were left out") {
		t.Errorf("a row that was cut short is rejected: %s", notes.String())
	}
	for args, want := range map[string]string{
		"":                                     "--guardrails: name one at least",
		"--telemetry " + events:                "not telemetry in a known format",
		"--telemetry x --telemetry x":          "each input can be named once",
		"--telemetry " + gpus + " --period 2h": "--period: 2h0m0s",
		"--events " + dir + "/none":            "no such file",
	} {
		if code, _, errs := clitest.Run(append([]string{"patterns", "watch"}, strings.Fields(args)...)...); code == 0 ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

// TestPatternsWatchNamesLateRecords: late records are counted, and the first is named.
func TestPatternsWatchNamesLateRecords(t *testing.T) {
	text := "time,node,gpu,utilization_percent\n"
	for _, minute := range []int64{0, 1, 10, 20, 2, 3} {
		text += fmt.Sprintf("%d,n1,0,50\n", 1767571200+60*minute)
	}
	cmd := newPatternsWatchCmd()
	cmd.SetArgs([]string{"--telemetry", "-", "--period", "1m"})
	var notes strings.Builder
	cmd.SetIn(strings.NewReader(text))
	cmd.SetOut(&notes)
	cmd.SetErr(&notes)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"more than 2m0s late are left out; record 5 is the first",
		"6 records, 2 of them too late"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("notes lack %q: %s", want, notes.String())
		}
	}
}
