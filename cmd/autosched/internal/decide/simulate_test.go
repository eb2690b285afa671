package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// simulated is the report of simulate with some arguments.
func simulated(t *testing.T, args ...string) (r struct {
	AvgJCT  float64 `json:"avg_jct_s"`
	Waiting float64 `json:"avg_waiting_jobs"`
	Changes []struct {
		At            float64        `json:"at_s"`
		Configuration map[string]any `json:"configuration"`
	} `json:"changes"`
}, stderr string) {
	t.Helper()
	base := []string{"simulate", "--trace", "sample", "--to", "2017-10-11T00:00:00Z", "--nodes", "12", "--scheduler",
		"tiresias", "--skip-wider", "--json"}
	code, out, errs := clitest.Run(append(base, args...)...)
	if code != 0 {
		t.Fatal(errs)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r, errs
}

// eager is the writer of a progress line that shows every update.
type eager struct {
	strings.Builder
	line cli.ProgressLine
}

func (e *eager) Write(text []byte) (int, error) {
	e.line.LastDrawn = time.Time{}
	return e.Builder.Write(text)
}

// TestSimulateShowsProgress: how far a run is, from where it can be stopped on, and
// that it goes on.
func TestSimulateShowsProgress(t *testing.T) {
	fifo, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	w := clitest.BuiltinTrace(t)
	run := func(ctx context.Context) (string, error) {
		var sim simulator.Sim
		if err := sim.Start(workload.Uniform(20, 8), w, fifo.New(fifo.Space.Default()),
			simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		var out eager
		out.line = cli.ProgressLine{Out: &out, OnTerminal: true}
		_, err := play(ctx, &sim, fifo, nil, &recorder{}, &out.line)
		return out.String(), err
	}
	shown, err := run(context.Background())
	if err != nil || !strings.HasPrefix(shown,
		fmt.Sprintf("\r0 of %d jobs submitted, 0 active, 0 of them waiting", w.Len())) {
		t.Errorf("error %v, shown %q", err, shown)
	}
	before, rose := -1, 0
	for _, line := range strings.Split(strings.TrimSpace(shown), "\r") {
		var submitted, of, active, waiting int
		if n, err := fmt.Sscanf(line, "%d of %d jobs submitted, %d active, %d of them waiting",
			&submitted, &of, &active, &waiting); n != 4 {
			t.Fatalf("%q: %v", line, err)
		}
		if submitted < before || active > submitted || waiting > active || of != w.Len() {
			t.Errorf("%q after %d jobs", line, before)
		}
		if submitted > before && active > waiting && waiting > 0 {
			rose++
		}
		before = submitted
	}
	if rose == 0 {
		t.Errorf("the line stands still: %q", shown)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// TestSetAt: a change at the begin is as if it had been set from the begin, one
// in the middle is neither, and one after the end changes nothing. The timeline
// marks those that were made.
func TestSetAt(t *testing.T) {
	one, _ := simulated(t)
	other, _ := simulated(t, "--set", "queues=1")
	first, _ := simulated(t, "--set-at", "0:queues=1")
	if one.AvgJCT == other.AvgJCT || first.AvgJCT != other.AvgJCT {
		t.Errorf("JCT %v, with one queue %v, with one queue from the first instant on %v",
			one.AvgJCT, other.AvgJCT, first.AvgJCT)
	}
	line := filepath.Join(t.TempDir(), "t.json")
	mid, _ := simulated(t, "--set-at", "2017-10-10T00:00:00Z:queues=2", "--set-at", "129600:starve_limit=3600",
		"--set-at", "86400:queue_thresholds=900", "--timeline", line)
	if mid.AvgJCT == one.AvgJCT || mid.AvgJCT == other.AvgJCT {
		t.Errorf("changes in the middle make no difference: %v", mid.AvgJCT)
	}
	if len(mid.Changes) != 2 || mid.Changes[0].At != 86400 || mid.Changes[1].At != 129600 {
		t.Fatalf("changes %+v", mid.Changes)
	}
	if c := mid.Changes[1].Configuration; fmt.Sprint(c["queues"]) != "2" || fmt.Sprint(c["starve_limit"]) != "3600" {
		t.Errorf("the second change does not build on the first: %v", c)
	}
	text, err := os.ReadFile(line)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"cat":"configuration"`); n != 2 ||
		!strings.Contains(string(text), "queues=2, queue_thresholds=900") {
		t.Errorf("%d marks in the timeline", n)
	}
	late, errs := simulated(t, "--set-at", "87600h:queues=1")
	if late.AvgJCT != one.AvgJCT || late.Waiting != one.Waiting || len(late.Changes) != 0 ||
		!strings.Contains(errs, "all jobs have ended") {
		t.Errorf("a change after the end: %+v instead of %+v\n%s", late, one, errs)
	}
}

func TestSetAtMisuse(t *testing.T) {
	for at, want := range map[string]string{
		"queues=1":         "INSTANT:key=value",
		"12:queues":        "INSTANT:key=value",
		"noon:queues=1":    "noon",
		"5:queues=99":      "queues",
		"5:quues=1":        "quues",
		"2017-10-10:x:y=1": "2017-10-10:x",
	} {
		code, _, errs := clitest.Run("simulate", "--trace", "sample", "--set-at", at)
		if code != 2 || !strings.Contains(errs, "--set-at") || !strings.Contains(errs, want) {
			t.Errorf("--set-at %s: exit %d: %s", at, code, errs)
		}
	}
}

// TestSimulateUnusedRunTimes: a scheduler that asks for no run times is not changed by
// them, and a note says so.
func TestSimulateUnusedRunTimes(t *testing.T) {
	for scheduler, asks := range map[string]bool{"tiresias": false, "fifo": false, "lucid": true} {
		code, _, errs := clitest.Run("simulate", "--trace", "sample", "--nodes", "20", "--scheduler",
			scheduler, "--estimates", "exact", "--json")
		if want := "note: " + scheduler + " asked for no run time: --estimates made no difference"; code != 0 ||
			strings.Contains(errs, want) == asks {
			t.Errorf("%s: exit %d, %s", scheduler, code, errs)
		}
	}
	if _, _, errs := clitest.Run("simulate", "--trace", "sample", "--nodes", "20", "--scheduler", "fifo",
		"--json"); strings.Contains(errs, "--estimates") {
		t.Error(errs)
	}
}

// TestHelpNamesThoseThatAsk: of the schedulers, under any preset or category,
// simulate --help names those that ask for run times.
func TestHelpNamesThoseThatAsk(t *testing.T) {
	help := newSimulateCmd().Long
	help = help[strings.Index(help, "Of them "):]
	w := clitest.BuiltinTrace(t)
	first, _ := w.Span()
	w = w.Window(first, first+6*time.Hour)
	for _, s := range schedulers.All {
		configs := []space.Config{s.Space.Default()}
		for _, p := range s.Presets {
			configs = append(configs, p.Config)
		}
		for _, p := range s.Space.Params() {
			for _, name := range p.Categories {
				configs = append(configs, s.Space.Default().With(p.ID, space.Text(name)))
			}
		}
		asked := false
		for _, c := range configs {
			if s.Space.Check(c) != nil {
				continue
			}
			o := simulator.Options{Estimate: func(j *workload.Job) time.Duration {
				asked = true
				return j.Duration
			}}
			var sim simulator.Sim
			if err := sim.Start(workload.Uniform(6, 8), w, s.New(c), o); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if named := strings.Contains(help, s.Name); named != asked {
			t.Errorf("%s: asks for run times: %v, named: %v", s.Name, asked, named)
		}
	}
}

func TestWindowBeforeTrace(t *testing.T) {
	for from, want := range map[string]string{
		"2026-03-01T12:00:00Z": "",
		"2026-02-01":           "note: --from (2026-02-01T00:00:00Z) is 29 d 1 h before the first submission of",
	} {
		code, _, errs := clitest.Run("simulate", "--trace", "../../../../examples/tutorial/sacct.psv", "--scheduler", "fifo",
			"--from", from)
		noted := strings.Contains(errs, "before the first submission")
		if code != 0 || noted != (want != "") || !strings.Contains(errs, want) {
			t.Errorf("--from %s: exit %d, %s", from, code, errs)
		}
	}
}

// TestUndatedReservations: reservations have dates, and a trace without any is simulated without them, which is noted.
func TestUndatedReservations(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cluster := put("cluster.json", `{"groups": [{"nodes": 8, "gpus_per_node": 8}], "site": {"reservations": [
		{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "nodes": [{"number": 0}]}]}}`)
	for name, c := range map[string]struct {
		trace string
		noted bool
	}{
		"seconds": {"job_id,submit_time_s,duration_s,num_gpus,vc\n1,0,60,1,a\n", true},
		"dates":   {"job_id,submit_time,duration_s,gpus\n1,2026-01-01T00:00:00Z,60,1\n", false},
	} {
		code, _, stderr := clitest.Run("simulate", "--trace", put(name+".csv", c.trace), "--cluster", cluster)
		noted := strings.Contains(stderr, "reservations (1 of the cluster) are not simulated")
		if code != 0 || noted != c.noted {
			t.Errorf("%s: %d, %s", name, code, stderr)
		}
	}
}
