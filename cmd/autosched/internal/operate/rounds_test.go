package operate

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestReplay: the rounds of a service that tuned an emulated cluster are listed, shown, and
// decided again bit for bit by another process.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("decides rounds while emulated time goes on, too slow under the race detector")
	}
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir, "--findings-rounds", "0") // the operations are those asked for here
	call := func(cmd *cobra.Command, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address)...); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	call(newSchedulerCmd(), "register", "--builtin", "tiresias", "--id", "s", "--nodes", "14", "--gpus-per-node", "8",
		"--mode", "auto", "--interval", "4h")
	// A slow machine decides few rounds: one is enough.
	call(newSchedulerCmd(), "update", "s", "--adoption", "paper", "--budget", "12")
	call(clitest.Cmd("scheduler emulate"), "--id", "s", "--trace", "sample", "--to", "2017-10-10T00:00:00Z",
		"--nodes", "14",
		"--gpus-per-node", "8", "--speedup", "30000", "--interval", "4h", "--budget", "12", "--json")
	list := call(newRoundsCmd(), "list", "s", "--limit", "100")
	published := regexp.MustCompile(`\n(\d+) .* (\d+) +\S+ +(?:published|rolled_out|superseded) as revision`).
		FindStringSubmatch(list)
	if published == nil || !strings.Contains(list, "\n1 ") {
		t.Fatalf("rounds list:\n%s", list)
	}
	var revision struct {
		Evidence struct {
			RoundName string `json:"roundName"`
		} `json:"evidence"`
	}
	text := call(newConfigCmd(), "get", "s", "--revision", published[2], "--json")
	if err := json.Unmarshal([]byte(text), &revision); err != nil ||
		revision.Evidence.RoundName != "schedulers/s/rounds/"+published[1] {
		t.Errorf("revision %s names %q, want %s; %v", published[2], revision.Evidence.RoundName, published[1], err)
	}
	shown := call(newRoundsCmd(), "show", "s", published[1])
	for _, want := range []string{"outcome .* as revision " + published[2], "input +[0-9]+ events",
		`\n  CANDIDATE +RATIO +AVERAGE JCT \(s\) +OUTCOME +VALUES\n`, `\n\* .* adopted`, `\n  default +([0-9.]+|no difference) +[0-9.]+ `, " in force ",
		"\nadopted .*starve_limit=(off|[0-9]+[smhd])"} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("rounds show:\n%s, want %s", shown, want)
		}
	}
	if strings.Contains(shown, "round-") || strings.Contains(shown, "\ndecision ") {
		t.Errorf("scheduler rounds show has a number of an interval, or says its reason twice:\n%s", shown)
	}
	if newest := call(newRoundsCmd(), "show", "s"); !strings.HasPrefix(newest, "round ") {
		t.Errorf("rounds show:\n%s", newest)
	}
	schema := func(text, want string) {
		t.Helper()
		if !strings.HasPrefix(text, "{\n  \"schema\": \"autosched."+want+"\",") {
			t.Errorf("%.80s, want the schema %s", text, want)
		}
	}
	schema(call(newRoundsCmd(), "show", "s", "--json"), "round/v1")
	if text := call(newConfigCmd(), "explain", "s", "--revision", published[2]); !regexp.MustCompile(
		`(?s)^Revision .*\nratio .*\nobjective +\d+ (?:s|min|h|d)\b.*: objective [-+0-9]`).MatchString(text) {
		t.Errorf("config explain:\n%s", text)
	}
	clitest.SubmitNow(t, address, "s")
	triggered := call(newRoundsCmd(), "trigger", "s")
	id := regexp.MustCompile(`\n(\S+) +s +anonymous +\S+ +done +\S`).FindStringSubmatch(triggered)
	if id == nil {
		t.Fatalf("rounds trigger:\n%s", triggered)
	}
	for _, args := range [][]string{{"wait", id[1]}, {"cancel", id[1]}, {"list", "--id", "s"}} {
		if text := call(newOperationsCmd(), args...); text != triggered {
			t.Errorf("operations %v:\n%s\nwant\n%s", args, text, triggered)
		}
	}
	schema(call(newOperationsCmd(), "wait", id[1], "--json"), "operation/v1")
	schema(call(newWhatIfCmd(), "s", "--set", "queues=1", "--json"), "what-if/v1")
	if text := call(newWhatIfCmd(), "s", "--set", "queues=1"); !regexp.MustCompile(
		`(?s)^simulated .*\nratio .*\nobjective +\d+ (?:s|min|h|d)\b.*\navg_queue_s +\S+ (?:s|min|h|d)\b.*\nqueues +1, `).MatchString(text) {
		t.Errorf("what-if:\n%s", text)
	}
	schema(call(newSchedulerCmd(), "effects", "s", "--json"), "causal-model/v1")
	if text := call(newSchedulerCmd(), "effects", "s"); !regexp.MustCompile(
		`^causal model: (not reliable: .*\()?\d+ trials? of \d+ rounds until 2017-10-\d\dT00:00:00Z`).MatchString(text) {
		t.Errorf("scheduler effects:\n%s", text)
	}
	for want, args := range map[string][]string{"there is no such parameter": {"--set", "none=1"},
		"--set is missing": nil, "6 is the nearest": {"--set", "queues=99"}} {
		err := clitest.RunClient(t.Context(), newWhatIfCmd(), "", new(bytes.Buffer),
			append(args, "s", "--server", address)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("what-if %v: %v, want %q", args, err, want)
		}
	}
	stop()

	if code, out, errs := clitest.Run("admin", "replay", "s", "1", "--dir", dir, "--json"); code != 0 {
		t.Errorf("admin replay --json: exit %d, %s", code, errs)
	} else {
		schema(out, "replay/v1")
	}
	for _, n := range []string{"1", published[1]} {
		code, out, errs := clitest.Run("admin", "replay", "s", n, "--dir", dir)
		if code != 0 || !strings.Contains(out, "round "+n+" of s is the same again") {
			t.Errorf("replay %s: exit %d, %s%s", n, code, out, errs)
		}
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"admin replay s", 2, "scheduler rounds list"},
		{"admin replay s 1", 2, "--dir is missing"},
		{"scheduler rounds show s x", 2, "scheduler rounds list s"},
		{"admin replay s one --dir x", 2, `"one" is not the number of a round`},
		{"admin replay s 1 --dir x --workers -1", 2, "--workers"},
		{"admin replay s 999 --dir " + dir, 1, "has no round 999 of s"},
		{"admin replay other 1 --dir " + dir, 1, `has no scheduler "other"`},
		{"serve --dir x --keep-rounds -1", 2, "--keep-rounds"},
	} {
		if code, _, errs := clitest.Run(strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d, %s; want %d, %q", c.args, code, errs, c.code, c.says)
		}
	}
}
