package operate

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// Commands with --validate-only describe the change and make none.
func TestValidateOnlyCommands(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	space := clitest.NumberSpace(t)
	for _, c := range []struct {
		cmd        func() *cobra.Command
		args, says string
	}{
		{newSchedulerCmd, "register --id s --objective wait --nodes 1 --gpus-per-node 8 --space " + space, "s"},
		{clitest.Of("study"), "create s/a --trial-budget 4 --sampler random --validate-only", "nothing was stored"},
		{clitest.Of("study"), "create s/a --trial-budget 4 --sampler random", "s/a"},
		{clitest.Of("study trial"), "add s/a --set x=7 --validate-only", "a trial of x=7 would be added; nothing was stored"},
		{clitest.Of("study trial"), "add s/a --set x=7", "trial 1: x=7"},
		{clitest.Of("study trial"), "tell s/a/1 wait=3 --validate-only", "s/a/1 would be SUCCEEDED: wait=3; nothing was stored"},
		{clitest.Of("study trial"), "tell s/a/1 wait=3", "s/a/1 SUCCEEDED: wait=3"},
		{clitest.Of("study"), "propose s/a --validate-only", "s/a/1 can be proposed: "},
		{clitest.Of("study"), "propose s/a", "revision 2 is proposed"},
		{newConfigCmd, "approve s --validate-only", "the scheduler would be offered revision 2: x=7\nnothing was stored\n"},
		{newConfigCmd, "reject s --validate-only", "revision 2 can be rejected; nothing was stored"},
		{newConfigCmd, "approve s --applied", "the scheduler should run revision 2: x=7"},
		{newConfigCmd, "ack s --revision 2 --outcome applied --instance a", "revision 2 is ROLLED_OUT"},
		{newConfigCmd, "forget s --instance a --validate-only", "would be forgotten; nothing was stored"},
		{newConfigCmd, "forget s --instance a", `instance "a" of s is forgotten`},
		{newConfigCmd, "pin s --reason why", "revision 2 of s is pinned"},
		{newConfigCmd, "unpin s --validate-only", "s would be not pinned; nothing was stored"},
		{newSchedulerCmd, "get s --json", `"pin"`},
		{clitest.Of("study"), "pause s/a --validate-only", "s/a would be PAUSED; nothing was stored"},
		{clitest.Of("study"), "cancel s/a --validate-only", "s/a would be CANCELLED; nothing was stored"},
		{clitest.Of("study"), "get s/a --json", `"ACTIVE"`},
		{clitest.Of("study"), "pause s/a", "s/a is PAUSED"},
		{clitest.Of("study"), "resume s/a --validate-only", "s/a would be ACTIVE; nothing was stored"},
		{clitest.Of("study"), "get s/a --json", `"PAUSED"`},
		{newConfigCmd, "rollback s --park --validate-only", "the scheduler would be offered revision 3: x=5\nnothing was stored\n"},
		{newConfigCmd, "rollback s --park", "the scheduler should run revision 3: x=5"},
		{newConfigCmd, "unpark s --revision 2 --validate-only", "can be unparked; nothing was stored"},
		{newConfigCmd, "parked s", "operator"},
		{newSchedulerCmd, "pause s --validate-only", "tuning of s would be paused; nothing was stored"},
		{newSchedulerCmd, "get s --json", `"ACTIVE"`},
		{newSchedulerCmd, "resume s --validate-only", "tuning of s would be resumed; nothing was stored"},
		{newFreezeCmd, "s --reason why --validate-only", "s would be frozen; nothing was stored"},
		{newFreezeCmd, "--all --reason why", "s is frozen"},
		{newUnfreezeCmd, "--all --validate-only", "s would be not frozen; nothing was stored"},
		{newUnfreezeCmd, "s", "s is not frozen"},
	} {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), c.cmd(), "", &out, append(strings.Fields(c.args), "--server", address)...)
		if err != nil || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v: %q does not say %q", c.args, err, out.String(), c.says)
		}
	}
}

// Changes of a configuration with --etag are made of the one that was shown.
func TestEtagOfConfigurations(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	run := func(cmd *cobra.Command, args string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, "", &out, append(strings.Fields(args), "--server", address)...)
		return out.String(), err
	}
	for _, c := range []struct {
		cmd  func() *cobra.Command
		args string
		of   string // whose etag is given; "" for none
	}{
		{newSchedulerCmd,
			"register --id s --objective wait --nodes 1 --gpus-per-node 8 --space " + clitest.NumberSpace(t), ""},
		{clitest.Of("study"), "create s/a --trial-budget 4 --sampler random", ""},
		{clitest.Of("study trial"), "add s/a --set x=7", ""}, {clitest.Of("study trial"), "tell s/a/1 wait=3", ""},
		{clitest.Of("study"), "propose s/a", ""},
		{newConfigCmd, "reject s", "get s --revision 2"},
		{newConfigCmd, "unpark s --revision 2", "get s --revision 2"},
		{clitest.Of("study"), "propose s/a", ""},
		{newConfigCmd, "approve s", "get s --revision 3"},
		{newConfigCmd, "pin s --set x=4 --reason why", "get s"},
	} {
		if c.of != "" {
			out, err := run(newConfigCmd(), c.of+" --json")
			var got struct{ Etag string }
			if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil || got.Etag == "" {
				t.Fatalf("%s: %v: %s", c.of, err, out)
			}
			out, err = run(c.cmd(), c.args+" --etag another")
			if err == nil || !strings.Contains(err.Error(), "etag") {
				t.Errorf("%s with another etag: %q, %v", c.args, out, err)
			}
			c.args += " --etag " + got.Etag
		}
		if out, err := run(c.cmd(), c.args); err != nil {
			t.Fatalf("%s: %q, %v", c.args, out, err)
		}
	}
	if out, err := run(newConfigCmd(), "get s"); err != nil || !strings.Contains(out, "pinned by an operator: why") {
		t.Errorf("%v: %s", err, out)
	}
}

// Commands with --etag change nothing if another change came since it was shown.
func TestEtagCommands(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	space := clitest.NumberSpace(t)
	run := func(cmd *cobra.Command, args string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, "", &out, append(strings.Fields(args), "--server", address)...)
		return out.String(), err
	}
	etag := func(cmd *cobra.Command, args string) string {
		t.Helper()
		out, err := run(cmd, args+" --json")
		var got struct{ Etag string }
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		if err != nil || got.Etag == "" {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
		return got.Etag
	}
	register := "register --id s --objective wait --nodes 1 --gpus-per-node 8 --space " + space
	if out, err := run(newSchedulerCmd(), register); err != nil {
		t.Fatal(out, err)
	}
	if out, err := run(clitest.Cmd("study"), "create s/a --trial-budget 4 --sampler random"); err != nil {
		t.Fatal(out, err)
	}
	scheduler, study := etag(newSchedulerCmd(), "get s"), etag(clitest.Cmd("study"), "get s/a")
	for _, c := range []struct {
		cmd  func() *cobra.Command
		args string
		of   *string
	}{
		{newSchedulerCmd, "update s --display-name x", &scheduler}, {newSchedulerCmd, "pause s", &scheduler},
		{newSchedulerCmd, "resume s", &scheduler}, {newFreezeCmd, "s --reason why", &scheduler},
		{newUnfreezeCmd, "s", &scheduler},
		{clitest.Of("study"), "pause s/a", &study}, {clitest.Of("study"), "resume s/a", &study},
		{clitest.Of("study"), "cancel s/a", &study},
		{clitest.Of("study"), "delete s/a", &study},
		{newSchedulerCmd, "delete s", &scheduler}, {newSchedulerCmd, "undelete s", &scheduler},
	} {
		if out, err := run(c.cmd(), c.args+" --etag another"); err == nil || !strings.Contains(err.Error(), "etag") {
			t.Errorf("%s with another etag: %q, %v", c.args, out, err)
		}
		if out, err := run(c.cmd(), c.args+" --etag "+*c.of); err != nil {
			t.Errorf("%s: %q, %v", c.args, out, err)
		}
		scheduler = etag(newSchedulerCmd(), "get s")
		if !strings.HasPrefix(c.args, "delete") {
			if out, err := run(clitest.Cmd("study"), "get s/a --json"); err == nil {
				var got struct{ Etag string }
				if err := json.Unmarshal([]byte(out), &got); err != nil {
					t.Fatal(err)
				}
				study = got.Etag
			}
		}
	}
}
