// Package cli has the parts that the commands of AutoSched's programs share: flags of a trace, a cluster and a
// configuration, the connection to the service, output, progress, help and completion.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/simulator"
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
	notes := table.NewLines(stderr, stderr)
	defer func() { _ = notes.Flush() }() // as writing to standard error fails
	root.SetErr(notes)
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
	}
	switch {
	case errors.As(err, new(UsageError)):
		fmt.Fprintf(notes, "%s: %v\nSee '%s --help'.\n", root.Name(), err, cmd.CommandPath())
		return 2
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	fmt.Fprintf(notes, "%s: %v\n", root.Name(), err)
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
	describe(root)
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

// groups lets every command that has subcommands show its help if it is called
// alone, and refuse unknown subcommands.
func groups(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		groups(sub)
	}
	if !cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := fmt.Errorf("%s has no command %q", cmp.Or(CommandName(cmd), cmd.Name()), args[0])
		if cmd.SuggestionsMinimumDistance <= 0 {
			cmd.SuggestionsMinimumDistance = 2
		}
		near := cmd.SuggestionsFor(args[0])
		if len(near) == 0 {
			near = below(cmd, args[0])
		}
		if len(near) > 0 {
			err = fmt.Errorf("%w; do you mean %s?", err, strings.Join(near, " or "))
		}
		return UsageError{err}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// below returns the commands of a name that are deeper in the tree.
func below(cmd *cobra.Command, name string) (found []string) {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name && sub.IsAvailableCommand() {
			found = append(found, CommandName(sub))
		}
		found = append(found, below(sub, name)...)
	}
	return found
}

// CommandName is the command line of a command without the name of the program.
func CommandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")
}

// newHelpCmd is "autosched help COMMAND", which unlike cobra's refuses unknown
// commands.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]...",
		Hidden: true,
		Short:  "Show the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range at.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err == nil && at.HasSubCommands() && len(rest) > 0 {
				err = at.Args(at, rest)
			}
			if err != nil {
				return err
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// SplitList splits the comma-separated list of a flag.
func SplitList(text string) []string {
	var out []string
	for one := range strings.SplitSeq(text, ",") {
		out = append(out, strings.TrimSpace(one))
	}
	return out
}

// CheckList refuses a list that is empty although its flag is given, and empty
// names.
func CheckList(given func(flag string) bool, flag string, list []string) error {
	if given(flag) && (len(list) == 0 || slices.Contains(list, "")) {
		return UsageError{fmt.Errorf("--%s: a name is missing; want names with commas between them", flag)}
	}
	return nil
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && cmd.Flags().Lookup("trace") != nil {
		return UsageError{fmt.Errorf("%s takes no arguments; for a trace say --trace %s", CommandName(cmd), args[0])}
	}
	if len(args) > 0 {
		return UsageError{fmt.Errorf("%s takes no arguments, only flags; what is %q?", CommandName(cmd), args[0])}
	}
	return nil
}

// release is the version of a release, which `make release` sets.
var release string

// build is the source of this program.
type build struct {
	Version string
	// Commit is empty, and the rest with it, in a build without a repository.
	Commit   string
	Time     string
	Modified bool
	// Simulator is the version of the simulations' meaning: results of different ones
	// cannot be compared.
	Simulator string
	Go        string
	Platform  string
}

// Built returns the version of the program from its build information.
func Built() build {
	b := build{Version: "unknown", Simulator: simulator.Version, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(release, info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Labels are the labels of the metric autosched_build_info.
func (b build) Labels() map[string]string {
	return map[string]string{"version": b.Version, "commit": b.Commit, "simulator": b.Simulator, "go_version": b.Go}
}

// Text is the version for people.
func (b build) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "autosched %s\n", b.Version)
	if b.Commit != "" {
		modified := ""
		if b.Modified {
			modified = ", with uncommitted changes"
		}
		fmt.Fprintf(&out, "commit    %s (%s%s)\n", b.Commit, b.Time, modified)
	}
	fmt.Fprintf(&out, "simulator %s\ngo        %s %s\n", b.Simulator, strings.TrimPrefix(b.Go, "go"), b.Platform)
	return out.String()
}

// UsageError is a mistake in how a command was called: exit code 2.
type UsageError struct{ error }

// Unwrap returns the error without its class.
func (e UsageError) Unwrap() error { return e.error }

// Usage is a mistake in how a command was called.
func Usage(err error) error { return UsageError{err} }
