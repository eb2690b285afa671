// Package clitest runs command lines, services and clients for tests of commands. Only tests import it.
package clitest

import (
	"os"
	"slices"
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
	os.Exit(m.Run())
}

// Cmd returns a command of the root, apart from it.
func Cmd(name string) *cobra.Command {
	root := NewRoot()
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	cmd := root.Commands()[i]
	root.RemoveCommand(cmd)
	return cmd
}

// Of returns a constructor of a command of the root.
func Of(name string) func() *cobra.Command {
	return func() *cobra.Command { return Cmd(name) }
}
