package studies

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestStudiesPage runs the commands of docs/studies.md against a service.
func TestStudiesPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/studies.md")
	if err != nil {
		t.Fatal(err)
	}
	address, _ := clitest.StartServe(t, t.TempDir())
	t.Chdir(t.TempDir())
	_, rest, _ := strings.Cut(string(page), "    parameters:\n")
	body, rest, _ := strings.Cut("    parameters:\n"+rest, "\n\n")
	if err := os.WriteFile("space.yaml", []byte(body+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, rest, _ = strings.Cut(rest, "running:\n\n")
	story, _, _ := strings.Cut(rest, "\n\n")
	lines := clitest.CommandLines("autosched", story)
	if len(lines) != 10 {
		t.Fatalf("%d commands", len(lines))
	}
	want := []string{"mine .external", "3 used", "mine/first/1 batch=2 order=fifo", "mine/first/1 SUCCEEDED: p95_wait=36",
		"mine/first/2 batch=", "SUCCEEDED: p95_wait=12", "trial 2: .* -> p95_wait=12",
		"revision 2 is proposed: p95_wait 12 in trial 2 of study first, 36 with what ran", "2", "measured +by trial mine/first/2 "}
	for i, args := range lines {
		code, out, errs := clitest.Run(append(args, "--server", address)...)
		if code != 0 || !regexp.MustCompile(want[i]).MatchString(out) {
			t.Fatalf("%q: exit %d, %s%s, want %q", args, code, out, errs, want[i])
		}
		if noted := strings.Contains(errs, "note: each configuration was measured once"); noted != (args[1] == "propose") {
			t.Errorf("%q says on noise: %q", args, errs)
		}
	}
}

// TestStudyImport: an export and a journal of Optuna become trials that the sampler learns from, once.
func TestStudyImport(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	call := func(line string, more ...string) (string, error) {
		t.Helper()
		args := append(strings.Fields(line), more...)
		cmds := map[string]int{"scheduler": 0, "study": 1, "trial": 2}
		cmd := clitest.Cmd("scheduler")
		switch cmds[args[0]] {
		case 1:
			cmd = newStudyCmd()
		case 2:
			cmd = newTrialCmd()
		}
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, "", &out, append(args[1:], "--server", address)...)
		return out.String(), err
	}
	must := func(line string, more ...string) string {
		t.Helper()
		out, err := call(line, more...)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return out
	}
	space := write("space.yaml", `parameters:
  - {id: x, kind: float, min_value: 0, max_value: 1, default_value: 0.5}
  - {id: order, kind: categorical, categories: [fifo, las], default_value: fifo}
`)
	must("scheduler register --id mine --objective wait --nodes 1 --gpus-per-node 8 --space", space)
	for _, id := range []string{"a", "b", "c"} {
		must("study create mine/" + id + " --trial-budget 4 --sampler random")
	}
	must("study trial add mine/a --set x=0.25 --set order=las wait=3")
	must("study trial ask mine/a --client one")
	must("study trial fail mine/a/2 --reason no-GPU")
	must("study trial ask mine/a --client one")
	file := filepath.Join(dir, "a.jsonl")
	if out := must("study export mine/a --out", file); !strings.Contains(out, "trials written") {
		t.Error(out)
	}
	for range 2 { // the second time there is nothing new
		must("study import mine/b", file)
	}
	list := must("study trial list mine/b")
	if n := strings.Count(list, "\n"); n != 3 || !regexp.MustCompile(`1 +SUCCEEDED +user +- +wait=3 +order=las x=0.25`).
		MatchString(list) || !strings.Contains(list, "FAILED") {
		t.Errorf("imported:\n%s", list)
	}

	const choices = `"distribution": "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [\"fifo\", \"las\"]}}"`
	const floats = `"{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 0.0, \"high\": 1.0, \"log\": false}}"`
	journal := strings.Join([]string{
		`{"op_code": 0, "worker_id": "w", "study_name": "s", "directions": [1]}`,
		`{"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": "2024-01-01T00:00:00.000000"}`,
		`{"op_code": 5, "worker_id": "w", "trial_id": 0, "param_name": "order", "param_value_internal": 1, ` + choices + `}`,
		`{"op_code": 5, "worker_id": "w", "trial_id": 0, "param_name": "x", "param_value_internal": 0.75, "distribution": ` +
			floats + `}`,
		`{"op_code": 8, "worker_id": "w", "trial_id": 0, "user_attr": {"note": "by hand"}}`,
		`{"op_code": 6, "worker_id": "w", "trial_id": 0, "state": 1, "values": [7.5]}`,
		`{"op_code": 4, "worker_id": "w", "study_id": 0, "state": 1, "value": 9, "values": null, "params": {"x": 0.125}, ` +
			`"distributions": {"x": ` + floats + `}}`,
		`{"op_code": 4, "worker_id": "w", "study_id": 0}`,
		`{"op_code": 6, "worker_id": "w", "trial_id": 2, "state": 2, "values": [8]}`,
	}, "\n")
	if out := must("study import mine/c", write("journal.log", journal)); !strings.Contains(out, "2 trials added") {
		t.Error(out)
	}
	list = must("study trial list mine/c")
	for _, want := range []string{"wait=7.5 +order=las x=0.75", "wait=9 +order=fifo x=0.125"} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("of Optuna:\n%s, want %q", list, want)
		}
	}
	if out := must("study get mine/c"); !strings.Contains(out, "x=0.75") {
		t.Error(out)
	}
	for text, want := range map[string]string{
		"{}\n":                          `bad:1: this is neither`,
		journal + "\n{\"op":             `bad:10: `,
		`{"op_code": 5, "trial_id": 4}`: `bad:1: trial 4 was not created`,
	} {
		_, err := call("study import mine/c", write("bad", text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// TestStudyImportOfOddFiles: extensions of JSON by Optuna, deleted studies, files of any size, goals that differ, and
// errors that name the line.
func TestStudyImportOfOddFiles(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	call := func(stdin string, args ...string) (string, error) {
		t.Helper()
		cmd := newStudyCmd()
		if args[0] == "register" {
			cmd = clitest.Cmd("scheduler")
		} else if args[0] == "list" {
			cmd = newTrialCmd()
		}
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, stdin, &out, append(args, "--server", address)...)
		return out.String(), err
	}
	space := filepath.Join(t.TempDir(), "space.yaml")
	if err := os.WriteFile(space, []byte(`parameters:
  - {id: x, kind: float, min_value: 0, max_value: 1, default_value: 0.5}
  - {id: order, kind: categorical, categories: [fifo, las], default_value: fifo}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call("", "register", "--id", "mine", "--objective", "wait", "--nodes", "1", "--gpus-per-node", "8",
		"--space", space); err != nil {
		t.Fatal(err)
	}
	study := func(id string, more ...string) {
		t.Helper()
		if _, err := call("", append([]string{"create", "mine/" + id, "--trial-budget", "4", "--sampler", "random"},
			more...)...); err != nil {
			t.Fatal(err)
		}
	}
	const x = `"param_name": "x", "distribution": "{\"name\": \"FloatDistribution\"}", "param_value_internal": `
	trial := func(number int, value, result string) string {
		return fmt.Sprintf(`{"op_code": 4}
{"op_code": 5, "trial_id": %[1]d, %[2]s%[3]s}
{"op_code": 7, "trial_id": %[1]d, "step": 0, "intermediate_value": NaN}
{"op_code": 6, "trial_id": %[1]d, "state": 1, "values": [%[4]s]}
`, number, x, value, result)
	}
	head := func(direction int) string {
		return fmt.Sprintf(`{"op_code": 0, "study_name": "of NaN and Infinity", "directions": [%d]}`+"\n", direction)
	}
	study("odd")
	journal := head(1) + trial(0, "0.125", "9") + `{"op_code": 1, "study_id": 0}` + "\n\n" + head(1) +
		trial(1, "0.25", "3") + trial(2, "0.75", "-Infinity")
	for i, want := range []string{"2 trials added to mine/odd, 0 left out", "0 trials added to mine/odd, 2 left out"} {
		if out, err := call(journal, "import", "mine/odd", "-"); err != nil || !strings.Contains(out, want) {
			t.Errorf("import %d: %q, %v", i, out, err)
		}
	}
	list, err := call("", "list", "mine/odd")
	if err != nil || strings.Contains(list, "0.125") ||
		!regexp.MustCompile(`(?s)SUCCEEDED[^\n]*wait=3[^\n]*x=0.25.*FAILED[^\n]*x=0.75`).MatchString(list) {
		t.Errorf("%s%v", list, err)
	}

	study("up", "--maximize")
	exported, err := call("", "export", "mine/up")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := call(head(2)+trial(0, "0.5", "7"), "import", "mine/up", "-"); err != nil {
		t.Errorf("%s%v", out, err)
	}
	if best, err := call("", "get", "mine/up"); err != nil || !strings.Contains(best, "x=0.5") {
		t.Errorf("%s%v", best, err)
	}
	for text, want := range map[string]string{
		head(2) + trial(0, "0.5", "7"): "-:1: the metric of the file is maximised, that of the study is minimised",
		exported:                       "-:1: the metric of the file is maximised, that of the study is minimised",
		head(1) + trial(0, "0.1", "7") + "\n" + trial(1, "1.5", "7"): "-:7: parameters.x: 1.5 breaks range",
		head(1) + trial(0, "0.2", "7") + trial(1, "0.3", "-7"):       "-:6: final_measurement.metrics: wait: -7 is",
		head(1) + trial(0, "NaN", "7"):                               "-:3: x: param_value_internal is not a number",
		head(1) + strings.Repeat(" ", cli.MaxSpecBytes+1):            "-:2: the line has more than 4 MiB",
		head(1) + head(1): "-:2: the journal has several studies",
	} {
		if out, err := call(text, "import", "mine/odd", "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200q: %q, %v, want %q", text, out, err, want)
		}
	}

	const many = 4500
	var large strings.Builder
	for i := range many {
		fmt.Fprintf(&large, `{"schema": "autosched.trial/v1", "state": "FAILED", "reason": "%s", `+
			`"parameters": {"x": %v}}`+"\n", strings.Repeat("y", 1000), float64(i)/many)
	}
	study("large")
	want := fmt.Sprintf("%d trials added to mine/large, 0 left out", many)
	out, err := call(large.String(), "import", "mine/large", "-", "--timeout", "1m")
	if err != nil || !strings.Contains(out, want) {
		t.Errorf("%d bytes: %q, %v", large.Len(), out, err)
	}
}

// TestStudyOptimalAndEstimate: the front of two metrics, and the remaining trials with and without a duration.
func TestStudyOptimalAndEstimate(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "space.yaml")
	text := "parameters:\n  - {id: x, kind: int, min_value: 0, max_value: 99, default_value: 1}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"scheduler register --id mine --objective wait --nodes 1 --gpus-per-node 8 --space " + path, "mine", 0},
		{"study create mine/first --trial-budget 40 --sampler random", "0 of 40", 0},
		{"study optimal mine/first", "no trial with these metrics has succeeded yet", 0},
		{"study estimate mine/first", "40 trials left; no trial was timed yet: --trial-time", 0},
		{"study estimate mine/first --trial-time 3m --parallel 4", "40 trials left of 3 min: 30 min, or 2 h of measuring", 0},
		{"study trial add mine/first --set x=1 wait=9 use=8", "trial 1", 0},
		{"study trial add mine/first --set x=2 wait=4 use=3", "trial 2", 0},
		{"study trial add mine/first --set x=3 wait=5 use=2", "trial 3", 0},
		{"study estimate mine/first", "40 trials left; no trial was timed yet: --trial-time", 0}, // added, no times
		{"study optimal mine/first", `^trial 2: x=2 -> use=3 wait=4\n$`, 0},
		{"study optimal mine/first --objectives wait,use:max", `^trial 1: .*\ntrial 2: .*\n$`, 0},
		{"study optimal mine/first --objectives wait,use:max --plot DIR/front.html", "trial 1", 0},
		{"study trial list mine/first --plot DIR/history.html", "SUCCEEDED", 0},
		{"study trial list mine/first --filter state=SUCCEEDED --plot DIR/history.svg", "SUCCEEDED", 0},
		{"study optimal mine/first --plot DIR/one.svg", "--plot: draws two metrics or more", 2},
		{"study trial list mine/first --filter state=FAILED --plot DIR/none.svg", "no trial has succeeded", 1},
		{"study trial list mine/first --plot x.pdf", "does not end in .svg, .png or .html", 2},
		{"study optimal mine/first --objectives wait:most", `--objectives: "wait:most" is not METRIC`, 2},
		{"study optimal mine/first --objectives ,wait", `objectives\[0\]\.metric_id`, 1},
		{"study estimate mine/first --trial-time -1s", "trial_duration: -1s is not above 0", 1},
		{"study estimate mine/first --parallel 1001", "parallel_trials: 1001 is not from 1 to 1000", 1},
		{"study estimate mine/none", `study "none" of scheduler "mine"`, 1},
	} {
		args := strings.Fields(strings.ReplaceAll(c.line, "DIR", filepath.Dir(path)))
		code, out, errs := clitest.Run(append(args, "--server", address)...)
		if code != c.code || !regexp.MustCompile(c.want).MatchString(out+errs) {
			t.Errorf("%s: exit %d, %s%s, want %d, %s", c.line, code, out, errs, c.code, c.want)
		}
	}
	for name, want := range map[string][]string{
		"front.html": {"No other trial beats 2 of 3 trials in all metrics.", "front of these two", "trial 3: x=3",
			"no other beats it"},
		"history.html": {"Trial 2 has the best expected wait, and measured 4.", "Of 3 trials, 3 succeeded.", "best so far",
			"best expected"},
	} {
		page, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(page), text) {
				t.Errorf("%s has no %q", name, text)
			}
		}
	}
}
