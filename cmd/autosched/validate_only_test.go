package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Commands with --validate-only say what they would change, and change nothing.
func TestValidateOnlyCommands(t *testing.T) {
	address, _ := startServe(t, t.TempDir())
	space := filepath.Join(t.TempDir(), "space.yaml")
	if err := os.WriteFile(space, []byte("parameters:\n  - {id: x, kind: int, min_value: 0, max_value: 9, default_value: 5}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cmd        func() *cobra.Command
		args, says string
	}{
		{newSchedulerCmd, "register --id s --objective wait --nodes 1 --gpus-per-node 8 --space " + space, "s"},
		{newStudyCmd, "create s/a --budget 4 --sampler random --validate-only", "nothing was stored"},
		{newStudyCmd, "create s/a --budget 4 --sampler random", "s/a"},
		{newTrialCmd, "add s/a --set x=7 --validate-only", "a trial of x=7 would be added; nothing was stored"},
		{newTrialCmd, "add s/a --set x=7", "trial 1: x=7"},
		{newTrialCmd, "tell s/a/1 wait=3 --validate-only", "s/a/1 would be SUCCEEDED: wait=3; nothing was stored"},
		{newTrialCmd, "tell s/a/1 wait=3", "s/a/1 SUCCEEDED: wait=3"},
		{newStudyCmd, "propose s/a --validate-only", "s/a/1 can be proposed: "},
		{newStudyCmd, "propose s/a", "revision 2 is proposed"},
		{newConfigCmd, "approve s --validate-only", "the scheduler would be offered revision 2: x=7\nnothing was stored\n"},
		{newConfigCmd, "reject s --validate-only", "revision 2 can be rejected; nothing was stored"},
		{newConfigCmd, "approve s --applied", "the scheduler should run revision 2: x=7"},
		{newConfigCmd, "rollback s --park --validate-only", "the scheduler would be offered revision 3: x=5\nnothing was stored\n"},
		{newConfigCmd, "rollback s --park", "the scheduler should run revision 3: x=5"},
		{newConfigCmd, "unpark s --revision 2 --validate-only", "can be unparked; nothing was stored"},
		{newConfigCmd, "parked s", "operator"},
	} {
		var out bytes.Buffer
		err := runClient(t.Context(), c.cmd(), "", &out, append(strings.Fields(c.args), "--server", address)...)
		if err != nil || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v: %q does not say %q", c.args, err, out.String(), c.says)
		}
	}
}
