package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// Main is a program with a root command: it runs the command line of the process until a signal comes, and ends it.
func Main(root func() *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process, whatever it waits for
	code := Run(ctx, root(), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run executes a command line of a program and returns the exit code: 0 for success, 1 for
// failure, 2 for a usage error.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	defer debug.SetGCPercent(percent) // limitHeap
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(UsageError)):
		fmt.Fprintf(stderr, "%s: %v\nSee '%s --help'.\n", root.Name(), err, cmd.CommandPath())
		return 2
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "%s: interrupted\n", root.Name())
		return 1
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	return 1
}

// Finish completes the command of a program whose subcommands are added: help, completion of shells with the values
// of flags in known besides the common ones, and flags by group.
func Finish(root *cobra.Command, known map[string]Completion) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	root.SetHelpCommand(newHelpCmd())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, sub := range root.Commands() {
		if sub.Name() == "completion" {
			for _, shell := range sub.Commands() {
				shell.Args = NoArgs
			}
		}
	}
	groups(root)
	completeValues(root, known)
	groupFlags(root)
}
