package waste

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestAct: a dry run changes nothing; a command is run once with the fields of the finding, and the finding says so;
// one that fails may be repeated; a false positive is refused.
func TestAct(t *testing.T) {
	dir := t.TempDir()
	address, _ := clitest.StartServe(t, dir)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	online := func(line string) (int, string, string) {
		return clitest.Run(append(strings.Fields(line), "--server", address)...)
	}
	must := func(line string) string {
		t.Helper()
		code, out, errs := online(line)
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", line, code, errs)
		}
		return out
	}
	must("scheduler register --builtin fifo --nodes 2 --gpus-per-node 8 --id prod")
	began := time.Date(2025, 3, 3, 9, 0, 0, 0, time.UTC)
	sendEvent(t, address, pb.Event_SUBMITTED, began, &pb.JobDetails{JobId: "7", MilliGpus: 1000})
	sendEvent(t, address, pb.Event_STARTED, began.Add(time.Minute), &pb.JobDetails{JobId: "7"})
	text := "time,node,gpu,utilization_percent,job\n"
	for at := time.Minute; at < 3*time.Hour; at += 30 * time.Second {
		text += fmt.Sprintf("%s,n1,0,0,7\n", began.Add(at).Format(time.RFC3339))
	}
	must("telemetry import prod " + write("gpus.csv", text))
	id := "prod/" + clitest.Eventually(t, func() string { return must("scheduler findings list prod --rule idle_allocation") },
		`(?m)^([0-9a-f]{16}) .*idle_allocation +job/7 +open `)

	// The program writes its arguments, and fails while there is a file.
	seen, broken := filepath.Join(dir, "seen"), write("broken", "")
	program := write("program",
		fmt.Sprintf("#!/bin/sh\necho out of program\ntest -e %s && exit 3\necho \"$#:$*\" >>%s\n",
			broken, seen))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	actions := write("actions.yaml", "version: 1\nactions:\n  warn_idle: ["+program+
		", '{job}', 'idle; $HOME', '{scheduler}-{finding}']\n")
	act := "scheduler findings act " + id + " --actions " + actions
	ran := func() string { got, _ := os.ReadFile(seen); return string(got) }
	acknowledged := func() bool { return strings.Contains(must("scheduler findings show "+id), "acknowledged") }

	line := program + " 7 'idle; $HOME' " + strings.Replace(id, "/", "-", 1) + "\n"
	if out := must(act + " --dry-run"); out != line {
		t.Errorf("%s, want %s", out, line)
	}
	var got struct {
		Command []string
		DryRun  bool `json:"dry_run"`
	}
	err := json.Unmarshal([]byte(must(act+" --dry-run --json")), &got)
	if err != nil || len(got.Command) != 4 || !got.DryRun {
		t.Errorf("%+v, %v", got, err)
	}
	const head = "version: 1\nactions: "
	for _, x := range []struct{ line, want string }{
		{"scheduler findings act " + id, "--actions is missing"},
		{"scheduler findings act 7 --actions " + actions, "want one finding"},
		{act + " --command-timeout 0s", "--command-timeout: 0s is not positive"},
		{"scheduler findings act prod/0000000000000000 --actions " + actions, "there is no such finding"},
		{"scheduler findings act " + id + " --actions " + write("other.yaml", head+"{hold_key: [ls]}\n"),
			"other.yaml: has no command for the action warn_idle"},
		{"scheduler findings act " + id + " --actions " + write("node.yaml", head+"{warn_idle: [ls, '{node}']}\n"),
			"node.yaml:2: warn_idle: word 2: the finding has no {node}"},
		{"scheduler findings act " + id + " --actions " + write("gone.yaml", head+"{warn_idle: [/none/x]}\n"),
			"gone.yaml: warn_idle: "},
	} {
		if code, out, errs := online(x.line); code == 0 || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit %d: %s%s", x.line, code, out, errs)
		}
	}
	if ran() != "" || acknowledged() {
		t.Fatalf("%q was run, acknowledged: %v", ran(), acknowledged())
	}

	code, out, errs := online(act)
	if code != 1 || !strings.Contains(errs, "exit status 3") || out != "out of program\n" {
		t.Errorf("a command that fails: exit %d: %s%s", code, out, errs)
	}
	if out := must("scheduler findings show " + id); !strings.Contains(out, "act: failed: exit status 3: ") {
		t.Errorf("%s", out)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if out := must(act); !strings.Contains(out, "out of program\ndone, and acknowledged: "+line) {
		t.Errorf("%s", out)
	}
	if out := must("scheduler findings show " + id); !strings.Contains(out, "act: exit 0: "+program[:20]) {
		t.Errorf("%s", out)
	}
	once := "3:7 idle; $HOME " + strings.Replace(id, "/", "-", 1) + "\n"
	if ran() != once {
		t.Errorf("ran %q", ran())
	}
	for _, dry := range []string{"", " --dry-run"} {
		if code, _, errs := online(act + dry); code != 1 || !strings.Contains(errs, "was acted on at ") {
			t.Errorf("acted on%s: exit %d: %s", dry, code, errs)
		}
	}
	if err := json.Unmarshal([]byte(must(act+" --again --json")), &got); err != nil || ran() != once+once {
		t.Errorf("again: %v, ran %q", err, ran())
	}
	must("scheduler findings false-positive " + id + " --reason design")
	if code, _, errs := online(act + " --again"); code != 1 || !strings.Contains(errs, "is a false positive") {
		t.Errorf("false positive: exit %d: %s", code, errs)
	}
	if ran() != once+once {
		t.Errorf("ran %q", ran())
	}
}

// TestActRefuses: findings that are closed, wrong or acted on are refused; --again is for the last alone.
func TestActRefuses(t *testing.T) {
	mark := func(reason string) *pb.Finding_Mark {
		return &pb.Finding_Mark{CreateTime: timestamppb.New(time.Unix(1_700_000_000, 0)), Reason: reason}
	}
	for _, x := range []struct {
		f              *pb.Finding
		want, andAgain string
	}{
		{&pb.Finding{State: pb.Finding_OPEN}, "", ""},
		{&pb.Finding{State: pb.Finding_OPEN, Snoozed: mark("later")}, "", ""},
		{&pb.Finding{State: pb.Finding_OPEN, Acknowledged: mark("asked")}, "", ""},
		{&pb.Finding{State: pb.Finding_OPEN, Acknowledged: mark(actFailed + "exit status 1")}, "", ""},
		{&pb.Finding{State: pb.Finding_OPEN, Acknowledged: mark(actRuns + "ls")}, "acted on at 2023-11-14T22:13:20Z", ""},
		{&pb.Finding{State: pb.Finding_OPEN, Acknowledged: mark(actDone + "ls")}, "acted on", ""},
		{&pb.Finding{State: pb.Finding_OPEN, FalsePositive: mark("design")}, "false positive", "false positive"},
		{&pb.Finding{State: pb.Finding_CLOSED}, "is closed", "is closed"},
	} {
		for again, want := range map[bool]string{false: x.want, true: x.andAgain} {
			err := (&actOptions{again: again}).refused(x.f)
			if (err == nil) != (want == "") || err != nil && !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("%v, again %v: %v", x.f, again, err)
			}
		}
	}
}
