package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

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
