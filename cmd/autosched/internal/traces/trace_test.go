package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload/stats"
	"github.com/autosched/autosched/workload/trace"
)

// runTrace runs "autosched trace ARGS" as a user does.
func runTrace(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, notices bytes.Buffer
	cmd := newTraceCmd()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&notices)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), notices.String(), err
}

const badTrace = "job_id,submit_time_s,duration_s,num_gpus,vc\na,0,60,1,x\nb,10,0,1,x\nc,5,60,8,y\nd,20,60,none,x\n"

func TestTraceStats(t *testing.T) {
	out, notices, err := runTrace(t, "", "stats", "sample", "--nodes", "20", "--gpus-per-node", "8")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sample (synthetic)", "offered load", "1.43 on 20 nodes x 8 GPUs", "batches",
		"recurrence", "of GPU-time", "tenant", "vc-f"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(notices, "synthetic") {
		t.Errorf("notices: %s", notices)
	}
	out, _, err = runTrace(t, "", "stats", "--trace", "sample", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var s stats.Description
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Jobs != clitest.BuiltinTrace(t).Len() || !s.Synthetic ||
		s.Load == nil {
		t.Errorf("%v: %+v", err, s)
	}
	for _, want := range []string{"arrivals_per_5min", "hour_of_day", "strongest", "top_1_percent", "gpu_size_bands"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the JSON", want)
		}
	}
	out, _, err = runTrace(t, "", "stats", "sample", "--from", "24h", "--to", "48h")
	if err != nil || !strings.Contains(out, "2017-10-10T") || strings.Contains(out, "2017-10-09T01") ||
		!strings.Contains(out, "less than two days") {
		t.Errorf("window: %v\n%s", err, out)
	}
	out, _, err = runTrace(t, badTrace, "stats", "-", "--nodes", "1", "--gpus-per-node", "4")
	if err != nil || !strings.Contains(out, "1 jobs are wider") || !strings.Contains(out, "little to gain") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Plots of an ordinary trace, of the smallest there is, and of one with machines
// and shares of GPUs; an SVG is the same on every run.
func TestTraceStatsPlot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	data := filepath.Join("..", "..", "..", "..", "workload", "trace", "testdata")
	one := "job_id,submit_time_s,duration_s,num_gpus\na,0,1,1\n"
	for name, c := range map[string]struct{ trace, stdin, begins string }{
		"sample.png":  {"sample", "", "\x89PNG"},
		"sample.svg":  {"sample", "", "<?xml"},
		"sample.html": {"sample", "", "<!DOCTYPE html>"},
		"one.svg":     {"-", one, "<?xml"},
		"pods.svg": {filepath.Join(data, "pai2023_pods.csv") + "," + filepath.Join(data, "pai2023_nodes.csv"), "",
			"<?xml"},
	} {
		var first []byte
		for range 2 {
			path := filepath.Join(dir, name)
			if _, _, err := runTrace(t, c.stdin, "stats", c.trace, "--plot", path); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := os.ReadFile(path)
			if err != nil || !strings.HasPrefix(string(b), c.begins) {
				t.Errorf("%s: %v, %.20q", name, err, b)
			}
			if first == nil {
				first = b
			} else if !bytes.Equal(first, b) {
				t.Errorf("%s differs from run to run", name)
			}
		}
		if strings.HasSuffix(name, ".html") && (!bytes.Contains(first, []byte("<svg")) ||
			!bytes.Contains(first, []byte("offered")) && !bytes.Contains(first, []byte("recurrence"))) {
			t.Errorf("%s lacks the image or the numbers", name)
		}
		if strings.HasSuffix(name, ".html") && (bytes.Contains(first, []byte("<?xml")) ||
			bytes.Index(first, []byte("<h2>The jobs ask for")) > bytes.Index(first, []byte("<svg"))) {
			t.Errorf("%s has an XML declaration, or the answer after the figures", name)
		}
	}
	out, _, err := runTrace(t, "", "stats",
		filepath.Join(data, "pai2023_pods.csv")+","+filepath.Join(data, "pai2023_nodes.csv"))
	if err != nil || !strings.Contains(out, "on 5 nodes x 2 GPUs") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := runTrace(t, "", "stats", "sample", "--plot", "x.pdf"); !errors.As(err, new(cli.UsageError)) {
		t.Errorf("%v", err)
	}
}

func TestTraceImport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.csv.gz")
	out, _, err := runTrace(t, badTrace, "import", "-", "--out", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rejected    2", `stdin:3: duration_s: "0": is not positive`,
		`stdin:5: num_gpus: "none": is not a number`, path} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	w, r, err := trace.Open(t.Context(), path, trace.Options{Strict: true})
	if err != nil || w.Len() != 2 || !r.Compressed || r.Format != "autosched" {
		t.Fatalf("%v, %+v", err, r)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}

	// The label of a synthetic trace survives.
	out, _, err = runTrace(t, "", "import", "sample", "--out", path, "--json")
	if err != nil || !strings.Contains(out, `"synthetic": true`) {
		t.Fatalf("%v\n%s", err, out)
	}
	if w, _, err = trace.Open(t.Context(), path,
		trace.Options{}); err != nil || w.Digest() != clitest.BuiltinTrace(t).Digest() ||
		!w.Synthetic() {
		t.Errorf("%v, digest %s", err, w.Digest())
	}

	out, notices, err := runTrace(t, badTrace, "import", "-", "--out", "-")
	if err != nil || !strings.HasPrefix(out, "# autosched trace v1 zero=1970-01-01T00:00:00Z\n") ||
		!strings.Contains(notices, "rejected    2") {
		t.Errorf("%v\n%s\n%s", err, out, notices)
	}
	if _, _, err = runTrace(t, badTrace, "import", "-", "--out", path, "--strict"); !errors.Is(err, trace.ErrRejected) {
		t.Errorf("strict: %v", err)
	}
}

func TestTraceWindow(t *testing.T) {
	out, notices, err := runTrace(t, "", "window", "sample", "--from", "2017-10-10T00:00:00Z", "--to", "172800")
	if err != nil || !strings.Contains(notices, "synthetic") {
		t.Fatal(err, notices)
	}
	w, _, err := trace.Read(t.Context(), strings.NewReader(out), "w", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, last := w.Span()
	if w.Len() != 446 || first < 86400e9 || last >= 2*86400e9 || !w.Zero().Equal(clitest.BuiltinTrace(t).Zero()) ||
		!w.Synthetic() {
		t.Errorf("%d jobs from %v to %v", w.Len(), first, last)
	}
	path := filepath.Join(t.TempDir(), "w.csv")
	out, _, err = runTrace(t, "", "window", "sample", "--to", "1h", "--out", path, "--json")
	if err != nil || !strings.Contains(out, `"jobs": `) {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err = runTrace(t, "", "window", "sample", "--from", "2018-01-01", "--to", "2018-01-02"); err == nil ||
		!strings.Contains(err.Error(), "no job") {
		t.Errorf("empty window: %v", err)
	}
}

func TestTraceValidate(t *testing.T) {
	out, _, err := runTrace(t, badTrace, "validate", "-")
	if err == nil || errors.As(err, new(cli.UsageError)) ||
		!strings.Contains(err.Error(), `2 of 4 rows rejected, first stdin:3: duration_s: "0": is not positive`) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(out, "1 x num_gpus is not a number") {
		t.Errorf("%s", out)
	}
	out, _, err = runTrace(t, "", "validate", "sample", "--json")
	var r trace.Report
	if err != nil || json.Unmarshal([]byte(out), &r) != nil || r.Rejected != 0 ||
		r.Jobs != clitest.BuiltinTrace(t).Len() {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err = runTrace(t, "", "validate", testshared.Path(t, "golden", "simulator", "workloads",
		"gittins_sample.csv")); !errors.Is(err, trace.ErrFormat) {
		t.Errorf("no trace: %v", err)
	}
}

func TestTraceSynth(t *testing.T) {
	args := []string{"synth", "--profile", "philly", "--days", "2", "--seed", "5", "--nodes", "10", "--gpus-per-node",
		"8", "--load", "0.9"}
	a, notices, err := runTrace(t, "", args...)
	if err != nil || !strings.Contains(notices, "(synthetic)") {
		t.Fatal(err, notices)
	}
	b, _, err := runTrace(t, "", args...)
	if err != nil || a != b || !strings.HasPrefix(a, "# autosched trace v1 zero=2017-10-09T00:00:00Z synthetic "+
		`cluster=[{"nodes":10,"gpus_per_node":8}]`) {
		t.Errorf("%v: two runs differ, or no label", err)
	}
	path := filepath.Join(t.TempDir(), "s.csv.gz")
	if out, _, err := runTrace(t, "", "synth", "--days", "1", "--job-count", "50", "--out", path,
		"--json"); err != nil ||
		!strings.Contains(out, `"jobs": 50`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A trace that would take long is not drawn on after an interruption, nor written: the file keeps its content.
func TestTraceSynthInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "s.csv.gz")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newTraceSynthCmd()
	cmd.SetArgs([]string{"--days", "3650", "--job-count", "20000000", "--out", path})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || errors.As(err, new(cli.UsageError)) {
		t.Errorf("drew on: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("the file holds %d bytes, %v", len(b), err)
	}
}

func TestTraceMisuse(t *testing.T) {
	for _, args := range [][]string{
		{"stats"}, {"stats", "a", "b"}, {"stats", "a", "--trace", "b"}, {"stats", "sample", "--nodes", "-1"},
		{"stats", "--nope"},
		{"import", "sample"}, {"window", "sample", "--from", "noon"},
		{"window", "sample", "--from", "2h", "--to", "1h"}, {"window", "sample", "--json"},
		{"synth", "x"}, {"synth", "--days", "0"}, {"synth", "--load", "1"}, {"synth", "--profile", "moon"},
		{"synth", "--start", "noon"}, {"synth", "--json"},
		{"validate", "sample", "--show", "0"}, {"validate", "sample", "--format", "moon"},
	} {
		if _, _, err := runTrace(t, "", args...); !errors.As(err, new(cli.UsageError)) {
			t.Errorf("%v: %v is not misuse", args, err)
		}
	}
	if _, _, err := runTrace(t, "", "stats", filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) ||
		errors.As(err, new(cli.UsageError)) {
		t.Errorf("missing file: %v", err)
	}
}

func TestTraceImportAnonymize(t *testing.T) {
	const log = "JobIDRaw|User|Account|JobName|State|Submit|Start|End|ElapsedRaw|AllocTRES\n" +
		"4711|alice|teama|secret-project|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:10|60|gres/gpu=1\n" +
		"4712|alice|teama|secret-project|FAILED|2026-01-02T00:00:00|2026-01-02T00:00:10|2026-01-02T00:01:10|60|gres/gpu=2\n"
	dir := t.TempDir()
	key, out := filepath.Join(dir, "key"), filepath.Join(dir, "out.csv.zst")
	stdout, notices, err := runTrace(t, log, "import", "-", "--anonymize", "--key-file", key, "--shift", "weeks",
		"--out", out)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(key)
	if err != nil || len(secret) != 65 {
		t.Fatalf("%v, key of %d bytes", err, len(secret))
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	if strings.Contains(stdout+notices, string(secret[:64])) || !strings.Contains(notices, "keep it secret") {
		t.Errorf("%s%s", stdout, notices)
	}
	w, r, err := trace.Open(t.Context(), out, trace.Options{Strict: true})
	if err != nil || r.Compression != "zstd" {
		t.Fatal(err, r)
	}
	a, b := w.Jobs()[0], w.Jobs()[1]
	if a.User != b.User || a.Key != b.Key || a.Tenant != b.Tenant || a.ID == b.ID || !a.HasWait || a.Wait != 10e9 {
		t.Errorf("%+v, %+v", a, b)
	}
	// 2026-01-01 is a Thursday
	if first := w.Clock(a.Submit); first.Year() > 2024 || first.Weekday() != 4 || first.Hour() != 0 {
		t.Errorf("first at %v", first)
	}
	// The same key gives the same pseudonyms; tenants may stay.
	text, notices, err := runTrace(t, log, "import", "-", "--anonymize", "--key-file", key, "--keep-tenants", "--shift",
		"24h", "--out", "-")
	if err != nil || !strings.Contains(text, a.ID+","+a.User+",teama,") ||
		!strings.Contains(text, ",2026-01-02T00:00:00Z,60,1,") || strings.Contains(notices, "new key") {
		t.Errorf("%v\n%s%s", err, text, notices)
	}
	for _, name := range []string{"4711", "alice", "secret"} {
		if strings.Contains(text, name) {
			t.Errorf("%s is in\n%s", name, text)
		}
	}
	// Without a file no two runs agree.
	other, _, err := runTrace(t, log, "import", "-", "--anonymize", "--out", "-")
	if err != nil || strings.Contains(other, a.User) || strings.Contains(other, "teama") {
		t.Errorf("%v\n%s", err, other)
	}
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := runTrace(t, log, "import", "-", "--anonymize", "--key-file", short, "--out", "-"); err == nil ||
		!strings.Contains(err.Error(), "too short") {
		t.Errorf("%v", err)
	}
	for _, args := range [][]string{{"--key-file", key}, {"--keep-tenants"}, {"--shift", "weeks"}, {"--shift", "soon"},
		{"--shift", "2000000h"}} {
		if _, _, err := runTrace(t, log, append([]string{"import", "-", "--out", "-"}, args...)...); !errors.As(err,
			new(cli.UsageError)) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestTraceFormats(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "workload", "trace", "testdata")
	pai := filepath.Join(dir, "pai_job_table.csv") + "," + filepath.Join(dir, "pai_task_table.csv")
	out, _, err := runTrace(t, "", "validate", pai)
	if err != nil || !strings.Contains(out, "pai2020") ||
		!strings.Contains(out, "left out    1 jobs: it has no task in the task table (1)") ||
		!strings.Contains(out, "files       pai_job_table.csv, pai_task_table.csv") {
		t.Errorf("%v\n%s", err, out)
	}
	out, notices, err := runTrace(t, "", "stats", filepath.Join(dir, "sacct.psv"))
	if err != nil || !strings.Contains(out, "teamb") || strings.Contains(notices, "left out") ||
		!regexp.MustCompile(`\n +pending +13 +22\.0 % `).MatchString(out) {
		t.Errorf("%v\n%s%s", err, out, notices)
	}
	out, _, err = runTrace(t, "", "window", filepath.Join(dir, "helios_cluster_log.csv"), "--from",
		"2020-06-09T18:41:20Z")
	if err != nil || strings.Count(out, "\n") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTraceSynthRecipe: a recipe gives the same trace each time, another by another seed, and an impossible one is an
// error.
func TestTraceSynthRecipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"recipes": {"sweep": {"days": 2, "seed": 1, "parts": [{"burst": {"at_h": 1,
		"every_h": 6, "within_h": 1, "jobs": 60, "gpus": 1, "durations_h": [1, 3]}}]}}, "scenarios": [{}]}`),
		0o666); err != nil {
		t.Fatal(err)
	}
	draw := func(args ...string) string {
		code, out, errs := clitest.Run(append([]string{"trace", "synth", "--recipe", file + ":sweep", "--nodes", "5"},
			args...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		return out
	}
	first := draw()
	if n := strings.Count(first, "sweep-"); n != 480 {
		t.Errorf("%d jobs, want 480", n)
	}
	if draw("--seed", "1") != first || draw("--seed", "2") == first {
		t.Error("the seed of the recipe is 1: the same draws that trace again, another does not")
	}
	for want, args := range map[string][]string{
		"there are sweep":    {"--recipe", file + ":none", "--nodes", "5"},
		"not FILE:NAME":      {"--recipe", file, "--nodes", "5"},
		"--recipe and --day": {"--recipe", file + ":sweep", "--days", "5", "--nodes", "5"},
		"needs --nodes":      {"--recipe", file + ":sweep"},
	} {
		if code, _, errs := clitest.Run(append([]string{"trace", "synth"}, args...)...); code != 2 ||
			!strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, want)
		}
	}
}

// A table of no known format is imported as the error without --columns offers it, for every command that takes a
// trace.
func TestTraceColumns(t *testing.T) {
	file := filepath.Join("..", "..", "..", "..", "workload", "trace", "testdata", "foreign.csv")
	_, _, errs := clitest.Run("trace", "validate", file)
	_, offer, ok := strings.Cut(errs, "try --columns ")
	if !ok {
		t.Fatal(errs)
	}
	offer = strings.TrimSpace(offer) // the error ends with it
	code, out, errs := clitest.Run("trace", "validate", file, "--columns", offer)
	if code != 1 || !strings.Contains(out, "column      submit=created holds times of day, seconds since 1970") ||
		!strings.Contains(errs, `foreign.csv:8: finished: "2026-03-02 08:02:30": is before the job's start`) {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	imported := filepath.Join(t.TempDir(), "jobs.csv")
	if code, _, errs := clitest.Run("trace", "import", file, "--columns", offer, "--timezone", "Europe/Berlin", "--out",
		imported); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs = clitest.Run("simulate", "--trace", imported, "--nodes", "2", "--scheduler", "fifo", "--json")
	if code != 0 || !strings.Contains(out, `"jobs": 4`) {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	for flag, says := range map[string]string{"--columns=when=x": `"when" is not a field`,
		"--timezone=Mars": "not a zone of the IANA database", "--shards-per-gpu=-1": "is negative"} {
		code, _, errs := clitest.Run("trace", "stats", "sample", flag)
		if code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%s: %d, %s", flag, code, errs)
		}
	}
}
