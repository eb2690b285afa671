// Package clitest runs command lines, services and clients for tests of commands. Only tests import it.
package clitest

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
)

// NewRoot makes the root command of the program under test. Main sets it.
var NewRoot func() *cobra.Command

// Main runs the tests of a package, or the program itself where [Process] started the test binary.
func Main(m *testing.M, root func() *cobra.Command) {
	NewRoot = root
	if os.Getenv("AUTOSCHED_TEST_MAIN") == "1" {
		cli.Main(root)
	}
	os.Unsetenv("COLUMNS") // lines are as wide as without a terminal
	os.Exit(m.Run())
}

// Cmd returns a command of the root, such as "scheduler config", apart from it.
func Cmd(path string) *cobra.Command {
	cmd, _, err := NewRoot().Find(strings.Fields(path))
	if err != nil {
		panic(err)
	}
	cmd.Parent().RemoveCommand(cmd)
	return cmd
}

// Of returns a constructor of a command of the root.
func Of(name string) func() *cobra.Command {
	return func() *cobra.Command { return Cmd(name) }
}
