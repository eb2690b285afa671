package studies

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestStudyRun: the service measures the trials of a study by a command that its configuration names, goes on after a
// restart, and shows callers neither commands nor addresses.
func TestStudyRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	turn := filepath.Join(dir, "turn") // on monday a file of this name lets one trial be measured
	script := write("measure.sh", `read -r line
case $line in *monday*) until rm `+turn+` 2>/dev/null; do [ -d `+dir+` ] || exit 1; sleep .05; done ;; esac
n=$(echo "$line" | sed 's/.*"batch": *\([0-9]*\).*/\1/')
if [ "$n" -gt 60 ]; then echo '{"infeasibleReason":"too large"}'; exit; fi
echo "{\"measurement\":{\"stepCount\":\"1\",\"metrics\":{\"p95_wait\":$((n + 50))}}}"
echo "{\"finalMeasurement\":{\"metrics\":{\"p95_wait\":$((n + 10))}}}"
`)
	file := write("evaluators.yaml", "evaluators:\n  - {id: testbed, command: [sh, "+script+"], parallel-trials: 2}\n"+
		"  - {id: other, address: '127.0.0.1:1', schedulers: [theirs]}\n")
	space := write("space.yaml", `parameters:
  - {id: batch, kind: int, min_value: 1, max_value: 64, default_value: 2}
  - {id: order, kind: categorical, categories: [fifo, las], default_value: fifo}
`)
	data := filepath.Join(dir, "data")
	address, stop := clitest.StartServe(t, data, "--evaluators", file)
	run := func(want string, args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append(args, "--server", address)...)
		if !strings.Contains(out+errs, want) || (code != 0) != (strings.HasPrefix(want, "autosched: ")) {
			t.Errorf("%s: exit %d: %s%s", strings.Join(args, " "), code, out, errs)
		}
		return out
	}
	run("", "scheduler", "register", "--space", space, "--id", "mine", "--objective", "p95_wait", "--nodes", "4",
		"--gpus-per-node", "8")
	run("", "study", "create", "mine/first", "--trial-budget", "12", "--sampler", "sobol")
	if out := run("testbed", "study", "evaluators"); !strings.Contains(out, "command") ||
		!strings.Contains(out, "service") || strings.Contains(out, "measure.sh") || strings.Contains(out, "127.0.0.1") {
		t.Errorf("evaluators: %s", out)
	}
	run("autosched: ", "study", "run", "mine/first", "--evaluator", "none")
	run("autosched: ", "study", "run", "mine/first", "--evaluator", "other")
	run("autosched: ", "study", "run", "mine/first", "--evaluator", "testbed", "--workload", "../x")
	run("autosched: ", "study", "trial", "ask", "mine/first", "--client", "evaluator/testbed")
	run("(COMPLETED)", "study", "run", "mine/first", "--evaluator", "testbed", "--parallel", "2", "--wait")
	run("p95_wait=11", "study", "get", "mine/first")
	run("done   mine/first: 12 of 12 trials", "scheduler", "operations", "list")
	run("", "study", "create", "mine/second", "--trial-budget", "300", "--sampler", "sobol")
	run("mine/second is measured by evaluator testbed, 2 at a time, workload monday", "study", "run", "mine/second",
		"--evaluator", "testbed", "--parallel", "2", "--workload", "monday")
	stop()
	address, stop = clitest.StartServe(t, data)
	run(`nothing is measured: evaluator "testbed" is not configured`, "study", "get", "mine/second")
	stop()
	address, _ = clitest.StartServe(t, data, "--evaluators", file)
	before := run("", "study", "get", "mine/second")
	write("turn", "")
	clitest.Eventually(t, func() string {
		if now := run("", "study", "get", "mine/second"); now != before {
			return "it goes on"
		}
		return ""
	}, "it goes on")
	listed := run("", "scheduler", "operations", "list", "--id", "mine", "--filter", "done = false")
	at := regexp.MustCompile(`\n(\S+) +mine +anonymous +\S+ +under way +mine/second: [0-9]+ of 300 trials`)
	id := at.FindStringSubmatch(listed)
	if id == nil {
		t.Fatalf("operations list:\n%s", listed)
	}
	run(id[1], "study", "get", "mine/second", "--json")
	clitest.Eventually(t, func() string { // a slow machine may miss the timeout
		_, out, _ := clitest.Run("scheduler", "operations", "wait", id[1], "--timeout", "1500ms", "--server", address)
		return out
	}, "mine/second: ")
	run("canceled  the study was cancelled", "scheduler", "operations", "cancel", id[1])
	run("canceled  the study was cancelled", "scheduler", "operations", "cancel", id[1])
	run("canceled  the study was cancelled", "scheduler", "operations", "wait", id[1])
	run("CANCELLED", "study", "get", "mine/second")
}

// TestStudyRunOnWorkload: the command that measures gets the jobs of a workload of the service as a file; of another
// workload of its name it measures nothing.
func TestStudyRunOnWorkload(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := filepath.Join(dir, "data", "evaluations") // a service that was killed left a file there
	if err := os.MkdirAll(files, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "left.csv"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script := write("measure.sh", `read -r line
field() { echo "$line" | sed "s/.*\"$1\": *\"\([^\"]*\)\".*/\\1/"; }
file=$(field workloadFile)
test "$(field workload)" = schedulers/mine/workloads/july || exit 1
test "$(sha256sum <"$file" | cut -c-64)" = "$(field workloadSha256)" || exit 1
echo "{\"finalMeasurement\":{\"metrics\":{\"p95_wait\":$(grep -c ',600,' "$file")}}}"
`)
	address, _ := clitest.StartServe(t, filepath.Join(dir, "data"), "--evaluators",
		write("evaluators.yaml", "evaluators: [{id: testbed, command: [sh, "+script+"]}]\n"))
	run := func(want string, args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append(args, "--server", address)...)
		if !strings.Contains(out+errs, want) || (code != 0) != (strings.HasPrefix(want, "autosched: ")) {
			t.Errorf("%s: exit %d: %s%s", strings.Join(args, " "), code, out, errs)
		}
		return out
	}
	const header = "job_id,submit_time,duration_s,gpus\n"
	jobs := write("jobs.csv", header+"a,2025-03-03T09:00:00Z,600,1\nb,2025-03-03T09:10:00Z,600,1\n")
	run("", "scheduler", "register", "--space", write("space.yaml",
		"parameters: [{id: batch, kind: int, min_value: 1, max_value: 64, default_value: 2}]\n"), "--id", "mine",
		"--objective", "p95_wait", "--nodes", "4", "--gpus-per-node", "8")
	run("", "scheduler", "workload", "upload", "mine/july", jobs)
	run("", "study", "create", "mine/first", "--trial-budget", "3", "--sampler", "sobol")
	on := func(workload string) []string {
		return []string{"study", "run", "mine/first", "--evaluator", "testbed", "--workload", workload}
	}
	run(`autosched: workload "none"`, on("mine/none")...)
	run("autosched: the service refused", on("other/x")...)
	run("(COMPLETED)", append(on("mine/july"), "--wait")...)
	run("workload mine/july", "study", "get", "mine/first")
	run("p95_wait=2", "study", "get", "mine/first")
	run("", "study", "create", "mine/second", "--trial-budget", "1000", "--sampler", "sobol")
	run("", "study", "run", "mine/second", "--evaluator", "testbed", "--workload", "mine/july")
	run("", "scheduler", "workload", "delete", "mine/july")
	clitest.Eventually(t, func() string { return run("", "study", "get", "mine/second") }, `workload "july" .*not found`)
	run("", "scheduler", "workload", "upload", "mine/july", write("other.csv", header+"a,2025-03-03T09:00:00Z,60,1\n"))
	clitest.Eventually(t, func() string { return run("", "study", "get", "mine/second") }, "has other jobs than")
	run("", "study", "cancel", "mine/second")
	if left, err := os.ReadDir(files); err != nil || len(left) > 0 {
		t.Errorf("files of jobs are left: %v %v", left, err)
	}
}

// TestEvaluatorsFile: a fault of the file is named with its line before the service starts.
func TestEvaluatorsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.yaml")
	if err := os.WriteFile(file, []byte("evaluators:\n  - id: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, check := range []string{"--check-settings", "--check-settings=false"} {
		code, _, errs := clitest.Run("serve", "--dir", t.TempDir(), "--evaluators", file, check)
		if code == 0 || !strings.Contains(errs, "--evaluators: "+file+": line 2: evaluators[0]: command and address") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
}
