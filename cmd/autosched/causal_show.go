package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal/render"
)

func newCausalShowCmd() *cobra.Command {
	var format, view, out string
	var asJSON bool
	var names []string
	var about strings.Builder
	for _, f := range render.Formats() {
		names = append(names, f.Name)
		fmt.Fprintf(&about, "  %-8s  %s\n", f.Name, f.Is)
	}
	cmd := &cobra.Command{
		Use:   "show GRAPH",
		Short: "Show a causal graph: as a table, a picture, a page, or for other tools",
		Long: `Shows a graph that 'causal learn' wrote, or the text of Tetrad, py-tetrad or
causal-learn; - reads standard input. The formats are

` + about.String() + `
View pag is the graph as learned, dag the directed graph made of it to compute
with; what had to be assumed for that is listed in the table and on the page.`,
		Example: `  autosched causal show graph.json
  autosched causal show graph.json --format html --out graph.html
  autosched causal show graph.json --format dot --view dag | dot -Tpng > graph.png`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("name one graph: a JSON file that 'causal learn' wrote")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				if cmd.Flags().Changed("format") && format != "json" {
					return usageError{fmt.Errorf("--json and --format %s contradict each other", format)}
				}
				format = "json"
			}
			f, err := render.Find(format)
			if err != nil {
				return usageError{fmt.Errorf("--format: %w", err)}
			}
			if view != "pag" && view != "dag" {
				return usageError{fmt.Errorf("--view: %q is not pag or dag", view)}
			}
			d, err := readGraph(cmd, args[0])
			if err != nil {
				return err
			}
			if view == "dag" {
				if d, err = render.AsDAG(d); err != nil {
					return err
				}
			}
			return writeGraph(cmd, out, d, f.Write)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&format, "format", "table", "how to show it: "+strings.Join(names, ", "))
	fl.StringVar(&view, "view", "pag", "pag: as learned; dag: as the directed graph made of it")
	fl.StringVarP(&out, "out", "o", "", "file to write (default: standard output)")
	fl.BoolVar(&asJSON, "json", false, "print the document as JSON: the same as --format json")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("view", cobra.FixedCompletions([]string{"pag", "dag"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
