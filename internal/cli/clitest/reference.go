package clitest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shared is the number of commands from which on a flag is described once for all of them.
const shared = 5

// flagRow is a row of a table: a flag with its default and its meaning.
func flagRow(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(f)
	text := "--" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", " + text
	}
	if name != "" {
		text += " " + name
	}
	value := f.DefValue
	if value == "" || value == "[]" || value == "false" || value == "0" || value == "0s" || strings.Contains(usage, "(default") {
		value = ""
	} else {
		value = " (default " + value + ")"
	}
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ")
	return fmt.Sprintf("| `%s` | %s%s |\n", text, escape.Replace(usage), escape.Replace(value))
}

// Reference is the page of all commands below a root, behind the page's beginning. A flag of many commands is described
// once for all of them.
func Reference(root *cobra.Command, beginning string) string {
	uses := map[string]int{} // by row
	flagsOf := func(cmd *cobra.Command, f func(*pflag.Flag)) {
		visit := func(x *pflag.Flag) {
			if !x.Hidden && x.Name != "help" && x.Name != "help-all" {
				f(x)
			}
		}
		cmd.LocalFlags().VisitAll(visit)
		cmd.InheritedFlags().VisitAll(visit)
	}
	var commands []*cobra.Command
	VisitCommands(root, func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() && !cmd.Hidden && !strings.Contains(cmd.CommandPath(), " completion") && cmd.Name() != "help" {
			commands = append(commands, cmd)
			flagsOf(cmd, func(f *pflag.Flag) { uses[flagRow(f)]++ })
		}
	})
	slices.SortFunc(commands, func(a, b *cobra.Command) int {
		return strings.Compare(a.CommandPath(), b.CommandPath())
	})
	var out strings.Builder
	out.WriteString(beginning)
	const head = "\n| flag | meaning |\n| --- | --- |\n"
	for _, cmd := range commands {
		fmt.Fprintf(&out, "\n## %s\n\n%s: `%s`\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
		var own, others []string
		flagsOf(cmd, func(f *pflag.Flag) {
			if row := flagRow(f); uses[row] >= shared {
				others = append(others, "`--"+f.Name+"`")
			} else {
				own = append(own, row)
			}
		})
		if len(own) > 0 {
			out.WriteString(head + strings.Join(own, ""))
		}
		if len(others) > 0 {
			fmt.Fprintf(&out, "\nAs in other commands: %s.\n", strings.Join(others, ", "))
		}
	}
	rows := slices.Sorted(func(yield func(string) bool) {
		for row, n := range uses {
			if n >= shared && !yield(row) {
				return
			}
		}
	})
	if len(rows) > 0 {
		out.WriteString("\n## Flags of many commands\n" + head + strings.Join(rows, ""))
	}
	return out.String()
}
