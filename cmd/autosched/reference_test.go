package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestReference: docs/reference/cli.md has every command with its flags.
func TestReference(t *testing.T) {
	testshared.Full(t)
	t.Setenv("SLURM_CONF", "") // the default of a flag
	path := filepath.Join(testshared.Root(t), "docs", "reference", "cli.md")
	want := clitest.Reference(clitest.NewRoot(), "# Commands\n\nGenerated from the program by `go test ./cmd/autosched -run "+
		"TestReference -update`: edit the help texts.\n`autosched COMMAND --help` has the same with examples, `--help-all` "+
		"all flags. Flags of many commands are\n[described once](#flags-of-many-commands).\n")
	if *clitest.Update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%v: docs/reference/cli.md is out of date: 'go test ./cmd/autosched -run TestReference -update' writes it",
			err)
	}
}
