package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autosched/autosched/internal/schema"
)

// Main is a program with a root command: it runs the command line of the process until a signal comes, and ends it.
func Main(root func() *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process, whatever it waits for
	code := Run(ctx, root(), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// failure is the error of a command line with --json.
type failure struct {
	Message  string `json:"message"`
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"` // 1: failure, 2: usage error
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
	case asksJSON(cmd, args):
		f := failure{Message: err.Error(), Command: CommandName(cmd), ExitCode: 1}
		if errors.As(err, new(UsageError)) {
			f.ExitCode = 2
		} else if errors.Is(err, context.Canceled) {
			f.Message = "interrupted"
		}
		_ = schema.Write(stderr, "error/v1", f)
		return f.ExitCode
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

// asksJSON reports whether a command line asks for JSON. The flag may stand behind one that ended the parsing.
func asksJSON(cmd *cobra.Command, args []string) bool {
	if f := cmd.Flags().Lookup("json"); f != nil && f.Changed {
		return f.Value.String() == "true"
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// Finish completes the command of a program whose subcommands are added: help, completion of shells with the values
// of flags in known besides the common ones, and flags by group.
func Finish(root *cobra.Command, known map[string]Completion) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageError{suggestFlag(cmd, err)}
	})
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

// suggestFlag adds the flag that was meant to an error about one that a command does not have.
func suggestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	if readFlags.Lookup(unknown.GetSpecifiedName()) != nil {
		return fmt.Errorf("%w; 'autosched trace import' has it, and writes a trace that needs none", err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w; do you mean --%s?", err, near)
	}
	return err
}
