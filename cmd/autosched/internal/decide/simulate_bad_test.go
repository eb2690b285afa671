package decide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestRunThatFailsLeavesFilesAlone: the files of an earlier run stay, and none
// is half written.
func TestRunThatFailsLeavesFilesAlone(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	trace := at("trace.csv")
	for name, text := range map[string]string{"trace.csv": "job_id,submit_time_s,duration_s,num_gpus\na,0,10,1\nwide,1,10,100\n", "jobs.csv": "precious\n", "run.json.gz": "precious, too"} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("jobs.csv"), at("link.csv")); err != nil {
		t.Skip(err)
	}
	args := []string{"simulate", "--trace", trace, "--nodes", "2", "--series", at("new.csv"), "--jobs-out",
		at("link.csv"), "--timeline", at("run.json.gz"), "--plot", at("p.svg")}
	names := func() (out []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	before := names()
	if code, _, errs := clitest.Run(args...); code != 1 || !strings.Contains(errs, "wide") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	jobs, _ := os.ReadFile(at("jobs.csv"))
	if got := names(); !slices.Equal(got, before) || string(jobs) != "precious\n" {
		t.Errorf("files %v, want %v; jobs.csv holds %q", got, before, jobs)
	}
	// Where one cannot be opened, none is left.
	if code, _, errs := clitest.Run(append(args, "--skip-wider", "--timeline", at("none/run.json"))...); code != 1 ||
		!strings.Contains(errs, "--timeline: open "+at("none/run.json")) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if got := names(); !slices.Equal(got, before) {
		t.Errorf("files %v, want %v", got, before)
	}
	if code, _, errs := clitest.Run(append(args, "--skip-wider")...); code != 0 {
		t.Fatal(errs)
	}
	if jobs, _ = os.ReadFile(at("jobs.csv")); !strings.HasPrefix(string(jobs), "job_id,") ||
		len(names()) != len(before)+2 {
		t.Errorf("files %v; jobs.csv holds %q", names(), jobs)
	}
	if info, err := os.Lstat(at("link.csv")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
}

// TestBadTraces: jobs that no scheduler can run are left out and named by file, line
// and field, or end the command with an error that names the remedy.
func TestBadTraces(t *testing.T) {
	const good = "good,0,10,1\n"
	dir := t.TempDir()
	for name, c := range map[string]struct {
		rows string // below the header
		code int
		jobs int
		says []string
	}{
		"wider than the cluster": {rows: good + "wide,1,10,100\n",
			code: 1, says: []string{`job "wide" asks for 100 GPUs and the cluster has 16`, "--skip-wider"}},
		"no duration": {rows: good + "x,1,0,1\n",
			jobs: 1, says: []string{":3: duration_s", "is not positive"}},
		"negative duration": {rows: good + "x,1,-5,1\n",
			jobs: 1, says: []string{":3: duration_s", "is not positive"}},
		"less than a nanosecond": {rows: good + "x,1,1e-12,1\n", jobs: 1, says: []string{":3: duration_s"}},
		"longer than ten years": {rows: good + "x,1,1000000000,1\n",
			jobs: 1, says: []string{":3: duration_s", "ten years"}},
		"a float's largest": {rows: good + "x,1,1e308,1\n", jobs: 1, says: []string{":3: duration_s"}},
		"no GPUs":           {rows: good + "x,1,10,0\n", jobs: 1},
		"negative GPUs":     {rows: good + "x,1,10,-3\n", jobs: 1, says: []string{":3: num_gpus"}},
		"1e9 GPUs": {rows: good + "x,1,10,1000000000\n",
			jobs: 1, says: []string{":3: num_gpus", "a million"}},
		"half a GPU": {rows: good + "x,1,10,0.5\n", jobs: 2},
		"far future": {rows: good + "x,9000000000,10,1\n",
			jobs: 1, says: []string{":3: submit_time_s", "a hundred years"}},
		"farther":              {rows: good + "x,1e300,10,1\n", jobs: 1, says: []string{":3: submit_time_s"}},
		"long before the zero": {rows: good + "x,-1000000000,10,1\n", jobs: 2},
		"not sorted":           {rows: "late,100,10,1\n" + good, jobs: 2},
		"an id twice":          {rows: good + "good,5,10,1\n", jobs: 1, says: []string{":3: job_id", "good"}},
		"not numbers": {rows: good + "x,NaN,10,1\ny,0,NaN,1\nz,0,10,NaN\nu,0,Inf,1\n",
			jobs: 1, says: []string{"4 of 5 rows rejected", ":3: submit_time_s", "is not a number"}},
		"nothing but faults": {rows: "x,1,NaN,1\n", code: 1, says: []string{"no usable job", ":2: duration_s"}},
		"no rows":            {code: 1, says: []string{"no usable job", "no row below the header"}},
		"a short row":        {rows: good + "x,1\n", jobs: 1, says: []string{":3"}},
		"an open quote":      {rows: good + "\"x,1,10,1\n", jobs: 1, says: []string{":3"}},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".csv")
		if err := os.WriteFile(file, []byte("job_id,submit_time_s,duration_s,num_gpus\n"+c.rows), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, errs := clitest.Run("simulate", "--trace", file, "--nodes", "2", "--json")
		errs = strings.ReplaceAll(errs, `\"`, `"`) // the error is JSON
		if code != c.code {
			t.Errorf("%s: exit %d: %s", name, code, errs)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q is not in %s", name, want, errs)
			}
		}
		if len(c.says) > 0 && c.code == 0 && !strings.Contains(errs, filepath.Base(file)+":") {
			t.Errorf("%s: names no file: %s", name, errs)
		}
		var r struct{ Jobs int }
		if code == 0 && (json.Unmarshal([]byte(out), &r) != nil || r.Jobs != c.jobs) {
			t.Errorf("%s: %d jobs, want %d", name, r.Jobs, c.jobs)
		}
	}
	for text, want := range map[string]string{"": "it is empty", "hello\n": "one of these headers",
		"\x00\x01\x02\xff\n": "one of these headers", "job_id,duration_s\nx,1\n": "one of these headers"} {
		file := filepath.Join(dir, "odd.csv")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := clitest.Run("simulate", "--trace", file); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d: %s", text, code, errs)
		}
	}
}

// TestSimulateMisuse: an invalid value of a flag is an error that names the flag
// and the fault. Misuse exits 2, a file that cannot be used 1.
func TestSimulateMisuse(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args string // separated by spaces
		code int
		says string
	}{
		{"--nodes 0", 2, "nodes: 0 is not positive"},
		{"--nodes -1", 2, "nodes: -1 is not positive"},
		{"--nodes 1000000000", 2, "nodes: 1000000000 is more than"},
		{"--nodes 99999999999999999999", 2, "--nodes"},
		{"--gpus-per-node 0", 2, "gpus per node: 0 is not positive"},
		{"--gpus-per-node 1000000000", 2, "gpus per node: 1000000000 is more than"},
		{"--scheduler nope", 2, `scheduler "nope": not known; there are`},
		{"--set foo=1", 2, "--set: foo: there is no such parameter"},
		{"--set queues", 2, "--set: queues: want name=value"},
		{"--set =", 2, "--set: "},
		{"--set queues=NaN", 2, "--set: queues: is not a finite number"},
		{"--set queues=99", 2, "--set: queues: 99 is out of range"},
		{"--set queues=2.5", 2, "--set: queues: 2.5 is not on a step"},
		{"--set queue_thresholds=1,", 2, "--set: queue_thresholds: cannot read"},
		{"--set queue_thresholds=NaN,3", 2, "--set: queue_thresholds[0]: is not a finite number"},
		{"--set queues=3 --set queue_thresholds=7200,3250", 2, "--set: queue_thresholds"},
		{"--set starve_limit=1e400", 2, "--set: starve_limit: cannot read"},
		{"--preset nope", 2, "--preset"},
		{"--config " + file("range.yaml", "queues: 99\n"), 1, "queues: 99 is not allowed"},
		{"--config " + file("typo.yaml", "queus: 3\n"), 1, "line 1: queus"},
		{"--config " + file("order.json", `{"queue_thresholds":[5000,400]}`), 1, "thresholds_increase"},
		{"--config " + file("empty.yaml", ""), 1, "empty"},
		{"--config " + file("broken.yaml", "queues: [1\n"), 1, "line 1"},
		{"--config nope.yaml", 1, "--config"},
		{"--config x --preset ladder-7200x6", 2, "exclude each other"},
		{"--estimates NaN", 2, "--estimates"},
		{"--estimates -1", 2, "--estimates"},
		{"--grid -5s", 2, "--grid"},
		{"--placement x", 2, "--placement"},
		{"--seed -1", 2, "--seed"},
		{"--min-run -1s", 2, "--min-run"},
		{"--max-preemptions -1", 2, "--max-preemptions"},
		{"--vc a=-5", 2, "--vc"},
		{"--vc a=99999999999", 2, "--vc"},
		{"--vc a=1:NaN", 2, "--vc"},
		{"--vc a=1:-1", 2, "--vc"},
		{"--vc a=161", 2, "--vc: the quotas add up to 161 GPUs and the cluster has 160"},
		{"--vc a=1 --vc a=2", 2, "given twice"},
		{"--quota foo", 2, "--quota"},
		{"--quota strict", 2, "needs virtual clusters"},
		{"--quota strict --vc a=160", 1, "raise its quota or leave the job out"},
		{"--from noon", 2, "--from"},
		{"--from NaN", 2, "--from"},
		{"--to 1e300", 2, "--to"},
		{"--to 1999-01-01", 2, "is not after --from"},
		{"--models nope.json", 1, "--models"},
		{"--models " + file("models.json", `{"restart":{"steps":[{"gpus":1,"seconds":-3}]}}`), 1,
			"restart.steps[0].seconds: -3"},
		{"--models " + file("unknown.json", `{"foo":1}`), 1, `unknown field "foo"`},
		{"--models " + file("cut.json", `{`), 1, "--models"},
		{"--interconnect tin", 2, "--interconnect"},
		{"--series-interval 0s", 2, "--series-interval"},
		{"--series /no/such/dir/x", 1, "--series"},
		{"--timeline /no/such/dir/x", 1, "--timeline"},
		{"--jobs-out /no/such/dir/x", 1, "--jobs-out"},
		{"--plot /no/such/dir/x.png", 2, "--plot"},
		{"--plot x.gif", 2, "--plot"},
		{"extra", 2, "--trace extra"},
	} {
		code, out, errs := clitest.Run(append([]string{"simulate", "--trace", "sample", "--skip-wider"},
			strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("%s: exit %d, want %d and %q: %s%s", c.args, code, c.code, c.says, errs, out)
		}
	}
}
