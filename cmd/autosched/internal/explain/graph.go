package explain

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/render"
	"github.com/autosched/autosched/internal/cli"
)

// defaultDeadline bounds learning unless the user asks for another time.
const defaultDeadline = 2 * time.Minute

// learnGraphOptions are the flags of causal learn.
type learnGraphOptions struct {
	data, tiers, mode, out, group string

	json  bool
	learn causal.LearnOptions
	given func(flag string) bool
}

func newCausalLearnCmd() *cobra.Command {
	var o learnGraphOptions
	cmd := &cobra.Command{
		Use:   "learn --data FILE.csv --tiers FILE.json",
		Short: "Learn a causal graph from measured configurations",
		Long: `Finds the graph by FCI, which allows for unmeasured causes: it removes
the edges between variables that are independent given others, and marks those
that stay as far as the data show.

  a --> b   a causes b
  a o-> b   b does not cause a: a causes b, or something hidden moves both
  a <-> b   neither causes the other: something hidden moves both
  a o-o b   not known

The data are CSV with a header. Files may be plain, gzip or zstd. A column of
numbers is numeric, one of words categorical; missing values are refused.

The tiers file gives each column its place, and what else is known:

  {"tiers": {"queues": "config", "load": "context", "frag": "metric", "avg_jct": "objective"},
   "types": {"partition": "cat"}, "ignore": ["run_id"],
   "forbidden": [["frag", "avg_jct"]], "required": [], "order": ["frag"], "mode": "tiers"}

Config and context are causes only, objectives effects only. Mode strict3 also
forbids edges between metrics and from config straight to objectives; where the
data say otherwise the pair is reported as a conflict. Mode none forbids nothing.
Add the workload (arrival rate, GPU demand, backlog) as context: a load that is
not in the data shows as hidden causes between the metrics.

When time runs out (--deadline) the result is that of the last finished stage: it
is marked as not complete and has surplus edges.`,
		Example: `  autosched explain learn --data runs.csv --tiers tiers.json --bootstrap 20
  autosched explain learn --data runs.csv.gz --tiers tiers.json --alpha 0.05 --json | jq '.edges[].source'
  autosched explain learn --data runs.csv --tiers tiers.json --out graph.json && autosched explain show graph.json --as html --out graph.html`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			d, err := o.run(cmd)
			if err != nil {
				return err
			}
			if o.out != "" {
				if err := writeGraph(cmd, o.out, d, writeDocument); err != nil {
					return err
				}
			}
			if o.json {
				for _, text := range d.Warnings { // a table shows them itself
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", text)
				}
				return d.Write(cmd.OutOrStdout())
			}
			return render.Table(cmd.OutOrStdout(), d)
		},
	}
	o.add(cmd)
	return cmd
}

func (o *learnGraphOptions) add(cmd *cobra.Command) {
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.StringVar(&o.data, "data", "", "")
	fl.StringVar(&o.tiers, "tiers", "", "")
	fl.StringVar(&o.mode, "tier-mode", "",
		"how much the tiers forbid: tiers, strict3 or none (default: the file's, else tiers)")
	fl.Float64Var(&o.learn.Alpha, "alpha", 0,
		"p-value above which variables count as independent (default 0.01, above 5000 rows 0.001)")
	fl.IntVar(&o.learn.Bootstrap, "bootstrap", 0,
		"samples of the rows that show how often an edge is found; 20 are enough (default: none)")
	fl.StringVar(&o.group, "group", "", "")
	fl.Uint64Var(&o.learn.Seed, "seed", 1, "")
	fl.DurationVar(&o.learn.Budget, "deadline",
		defaultDeadline, "time after which the best graph so far is given; 0 for no limit")
	fl.StringVarP(&o.out, "out", "o", "", "file to write the graph to, as JSON for 'explain show'")
	fl.BoolVar(&o.json, "json", false, "")
	_ = cmd.RegisterFlagCompletionFunc("tier-mode",
		cobra.FixedCompletions([]string{"tiers", "strict3", "none"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *learnGraphOptions) check() error {
	l := &o.learn
	switch {
	case o.data == "":
		return cli.Usage(errors.New("--data is missing: name a CSV file of measured configurations"))
	case o.given("alpha") && !(l.Alpha > 0 && l.Alpha < 1):
		return cli.Usage(fmt.Errorf("--alpha: %v is not between 0 and 1", l.Alpha))
	case l.Bootstrap < 0:
		return cli.Usage(fmt.Errorf("--bootstrap: %d is negative", l.Bootstrap))
	case l.Budget < 0:
		return cli.Usage(fmt.Errorf("--deadline: %v is negative", l.Budget))
	}
	switch causal.Mode(o.mode) {
	case "", causal.ModeTiers, causal.ModeStrict3, causal.ModeNone:
	default:
		return cli.Usage(fmt.Errorf("--tier-mode: %q is not tiers, strict3 or none", o.mode))
	}
	return nil
}

// run reads the data and learns.
func (o *learnGraphOptions) run(cmd *cobra.Command) (*causal.Document, error) {
	spec, err := o.spec(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	table, err := readTable(cmd, o.data, spec.Types)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if o.group != "" {
		k := table.Index(o.group)
		if k < 0 {
			return nil, cli.Usage(fmt.Errorf("--group: the data have no column %q; they have %s",
				o.group, strings.Join(table.Names(), ", ")))
		}
		o.learn.Groups = groupsOf(table.Column(k))
		if !slices.Contains(spec.Ignore, o.group) {
			spec.Ignore = append(spec.Ignore, o.group)
		}
	}
	line := cli.NewProgressLine(cmd.ErrOrStderr())
	defer line.Clear()
	var one sync.Mutex
	o.learn.Progress = func(stage string, done, total int) {
		one.Lock()
		defer one.Unlock()
		line.Show("%s: %d of %d", stage, done, total)
	}
	return causal.Learn(cmd.Context(), table, spec, o.learn)
}

// spec returns the tiers and types of the columns.
func (o *learnGraphOptions) spec(notes io.Writer) (*causal.Spec, error) {
	spec := &causal.Spec{Mode: causal.ModeNone}
	if o.tiers == "" {
		fmt.Fprintln(notes, "note: without --tiers nothing is known of the variables; few edges will have a direction")
	} else {
		var err error
		if spec, err = readTiers(o.tiers); err != nil {
			return nil, fmt.Errorf("--tiers: %w", err)
		}
	}
	if o.mode != "" {
		spec.Mode = causal.Mode(o.mode)
	}
	return spec, nil
}

// groupsOf numbers the values of a column.
func groupsOf(c *causal.Column) []int {
	number := map[float64]int{}
	groups := make([]int, len(c.Values))
	for r, v := range c.Values {
		if _, ok := number[v]; !ok {
			number[v] = len(number)
		}
		groups[r] = number[v]
	}
	return groups
}

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
		Short: "Show a causal graph: as a table, a page, or JSON",
		Long: `Shows a graph that 'explain learn' wrote; - reads standard input. The formats are

` + renderHelp() + `
View pag is the graph as learned, dag a directed graph of it to compute with; the
table and the page list the assumptions made for that.`,
		Example: `  autosched explain show graph.json
  autosched explain show graph.json --as html --out graph.html
  autosched explain show graph.json --view dag`,
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
	fl.StringVar(&o.format, "as", "table", "how to show it: "+strings.Join(renderNames(), ", "))
	fl.StringVar(&o.view, "view", "pag", "pag: as learned; dag: as a directed graph of it")
	fl.StringVarP(&o.out, "out", "o", "", "file to write (default: standard output)")
	fl.BoolVar(&o.json, "json", false, "")
	_ = cmd.RegisterFlagCompletionFunc("as", cli.OneOf(renderNames()...))
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
		if o.given("as") && o.format != "json" {
			return cli.Usage(fmt.Errorf("--json and --as %s contradict each other", o.format))
		}
		o.format = "json"
	}
	var err error
	if o.render, err = render.Find(o.format); err != nil {
		return cli.Usage(fmt.Errorf("--as: %w", err))
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
