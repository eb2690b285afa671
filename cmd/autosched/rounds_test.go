package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestReplay: the rounds of a service that tuned an emulated cluster are listed, shown, and
// decided again bit for bit by another process.
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	address, stop := startServe(t, dir)
	call := func(cmd *cobra.Command, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := runClient(t.Context(), cmd, "", &out, append(args, "--server", address)...); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	call(newEmulateCmd(), "--id", "s", "--trace", "sample", "--to", "2017-10-10T00:00:00Z", "--nodes", "14",
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
		`\n  CANDIDATE +RATIO +AVERAGE JCT \(s\) +OUTCOME +VALUES\n`, `\n\* .* adopted`, `\n  default +[0-9.]+ +[0-9.]+ `, " in force ",
		"\nadopted .*starve_limit=(off|[0-9]+[smhd])"} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("rounds show:\n%s, want %s", shown, want)
		}
	}
	if strings.Contains(shown, "round-") || strings.Contains(shown, "\ndecision ") {
		t.Errorf("rounds show has a number of an interval, or says its reason twice:\n%s", shown)
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
	stop()

	if code, out, errs := command("replay", "s", "1", "--dir", dir, "--json"); code != 0 {
		t.Errorf("replay --json: exit %d, %s", code, errs)
	} else {
		schema(out, "replay/v1")
	}
	for _, n := range []string{"1", published[1]} {
		code, out, errs := command("replay", "s", n, "--dir", dir)
		if code != 0 || !strings.Contains(out, "round "+n+" of s is the same again") {
			t.Errorf("replay %s: exit %d, %s%s", n, code, out, errs)
		}
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"replay s", 2, "rounds list"},
		{"replay s 1", 2, "--dir is missing"},
		{"rounds show s x", 2, "rounds list s"},
		{"replay s one --dir x", 2, `"one" is not the number of a round`},
		{"replay s 1 --dir x --workers -1", 2, "--workers"},
		{"replay s 999 --dir " + dir, 1, "has no round 999 of s"},
		{"replay other 1 --dir " + dir, 1, `has no scheduler "other"`},
		{"serve --dir x --keep-rounds -1", 2, "--keep-rounds"},
	} {
		if code, _, errs := command(strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d, %s; want %d, %q", c.args, code, errs, c.code, c.says)
		}
	}
}
