package explain

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/render"
	"github.com/autosched/autosched/internal/cli"
)

// causalShowOptions are the flags of causal show.
type causalShowOptions struct {
	format, view, out string
	json              bool

	given  func(flag string) bool
	render render.Format // after check
}

func newCausalShowCmd() *cobra.Command {
	var o causalShowOptions
	cmd := &cobra.Command{
		Use:   "show GRAPH",
		Short: "Show a causal graph: as a table, a picture, a page, or for other tools",
		Long: `Shows a graph that 'explain learn' wrote, or the text of Tetrad, py-tetrad or
causal-learn; - reads standard input. The formats are

` + renderHelp() + `
View pag is the graph as learned, dag a directed graph of it to compute with; the
table and the page list the assumptions made for that.`,
		Example: `  autosched explain show graph.json
  autosched explain show graph.json --format html --out graph.html
  autosched explain show graph.json --format dot --view dag | dot -Tpng > graph.png`,
		Args: cli.Exactly(1, "name one graph: a JSON file that 'explain learn' wrote"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			d, err := o.run(cmd, args[0])
			if err != nil {
				return err
			}
			return writeGraph(cmd, o.out, d, o.render.Write)
		},
	}
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.StringVar(&o.format, "format", "table", "how to show it: "+strings.Join(renderNames(), ", "))
	fl.StringVar(&o.view, "view", "pag", "pag: as learned; dag: as a directed graph of it")
	fl.StringVarP(&o.out, "out", "o", "", "file to write (default: standard output)")
	fl.BoolVar(&o.json, "json", false, "print the document as JSON: the same as --format json")
	_ = cmd.RegisterFlagCompletionFunc("format", cli.OneOf(renderNames()...))
	_ = cmd.RegisterFlagCompletionFunc("view", cli.OneOf("pag", "dag"))
	return cmd
}

func renderNames() []string {
	var names []string
	for _, f := range render.Formats() {
		names = append(names, f.Name)
	}
	return names
}

func renderHelp() string {
	var b strings.Builder
	for _, f := range render.Formats() {
		fmt.Fprintf(&b, "  %-8s  %s\n", f.Name, f.Is)
	}
	return b.String()
}

func (o *causalShowOptions) check() error {
	if o.json {
		if o.given("format") && o.format != "json" {
			return cli.Usage(fmt.Errorf("--json and --format %s contradict each other", o.format))
		}
		o.format = "json"
	}
	var err error
	if o.render, err = render.Find(o.format); err != nil {
		return cli.Usage(fmt.Errorf("--format: %w", err))
	}
	if o.view != "pag" && o.view != "dag" {
		return cli.Usage(fmt.Errorf("--view: %q is not pag or dag", o.view))
	}
	return nil
}

// run reads the graph, "-" for standard input.
func (o *causalShowOptions) run(cmd *cobra.Command, path string) (*causal.Document, error) {
	d, err := readGraph(cmd, path)
	if err != nil || o.view == "pag" {
		return d, err
	}
	return render.AsDAG(d)
}
