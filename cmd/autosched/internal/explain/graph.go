package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/causal/render"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

// defaultDeadline bounds learning unless the user asks for another time.
const defaultDeadline = 2 * time.Minute

// learnGraphOptions are the flags of explain learn.
type learnGraphOptions struct {
	data, tiers, mode, out, group string

	json  bool
	plot  cli.PlotFlag
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
  autosched explain learn --data runs.csv --tiers tiers.json --out graph.json && autosched explain show graph.json --as dot | dot -Tsvg > graph.svg`,
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
				if err := writeGraph(cmd, o.out, d.Write); err != nil {
					return err
				}
			}
			if err := o.plot.Write(func() (*chart.Page, error) { return graphPage(o.data, d) }); err != nil {
				return err
			}
			if o.json {
				for _, text := range d.Warnings { // a table shows them itself
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", text)
				}
				return d.Write(cmd.OutOrStdout())
			}
			return cli.Print(cmd.OutOrStdout(), func(w io.Writer) error { return printGraph(w, d) })
		},
	}
	o.add(cmd)
	return cmd
}

func (o *learnGraphOptions) add(cmd *cobra.Command) {
	o.given = cmd.Flags().Changed
	o.plot.Add(cmd)
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
	if err := o.plot.Check(); err != nil {
		return err
	}
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

// causalShowOptions are the flags of explain show.
type causalShowOptions struct {
	format, view, out string
	json              bool
	plot              cli.PlotFlag

	given  func(flag string) bool
	render render.Format // after check
}

func newCausalShowCmd() *cobra.Command {
	var o causalShowOptions
	cmd := &cobra.Command{
		Use:   "show GRAPH",
		Short: "Show a causal graph: as a table, a drawing, or JSON",
		Long: `Shows a graph that 'explain learn' wrote; - reads standard input. The formats are

` + renderHelp() + `
View pag is the graph as learned, dag a directed graph of it to compute with; the
table lists the assumptions made for that.`,
		Example: `  autosched explain show graph.json
  autosched explain show graph.json --as dot | dot -Tsvg > graph.svg
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
			if err := o.plot.Write(func() (*chart.Page, error) { return graphPage(args[0], d) }); err != nil {
				return err
			}
			write := func(w io.Writer) error { return o.render.Write(w, d) }
			if o.format == "table" {
				write = func(w io.Writer) error { return printGraph(w, d) }
				if o.out == "" || o.out == "-" {
					return cli.Print(cmd.OutOrStdout(), write)
				}
			}
			return writeGraph(cmd, o.out, write)
		},
	}
	o.given = cmd.Flags().Changed
	o.plot.Add(cmd)
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
	if err := o.plot.Check(); err != nil {
		return err
	}
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

// datasetOptions are the flags of explain dataset.
type datasetOptions struct {
	replay     cli.ReplayFlags
	tune       cli.TuneFlags
	config     cli.ConfigFlags
	training   dataset.Options // with the incumbent after check
	out, tiers string
}

func (o *datasetOptions) add(cmd *cobra.Command) {
	o.replay.Add(cmd)
	o.replay.AddTo(cmd)
	o.config.Add(cmd)
	fl := cmd.Flags()
	cli.AddObjective(cmd, &o.tune.Objective)
	fl.IntVar(&o.tune.Settings.Workers, "workers", 0, "")
	fl.DurationVar(&o.training.Segment, "segment", 24*time.Hour,
		"length of the segments of the window on which configurations are simulated")
	fl.DurationVar(&o.training.Stride, "stride", 6*time.Hour,
		"time from the begin of a segment to that of the next (0: --segment)")
	fl.IntVar(&o.training.Configs, "configs", 15, "configurations per segment, different on each")
}

// check checks all that needs no trace.
func (o *datasetOptions) check() error {
	if o.out == "" || o.tiers == "" {
		return cli.Usage(errors.New("--out and --tiers-out name the files to write: a table and its tiers"))
	}
	t := &o.training
	if t.Configs < 1 || t.Segment <= 0 || t.Stride < 0 {
		return cli.Usage(fmt.Errorf("--configs %d, --segment %v, --stride %v: want at least 1, above 0 and at least 0",
			t.Configs, t.Segment, t.Stride))
	}
	if o.tune.Settings.Workers < 0 {
		return cli.Usage(fmt.Errorf("--workers: %d is negative", o.tune.Settings.Workers))
	}
	if err := round.CheckObjective(o.tune.Objective, false); err != nil {
		return cli.Usage(fmt.Errorf("--%w", err))
	}
	var err error
	_, t.Incumbent, err = o.replay.Configured(&o.config)
	return err
}

// train measures configurations. Notes and progress go to notes.
func (o *datasetOptions) train(ctx context.Context, notes io.Writer) (*dataset.Training, error) {
	in, err := o.replay.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	t := o.training
	t.Progress = func(done, of int) { line.Show("configuration %d of %d", done, of) }
	return dataset.Train(ctx, replay.Options{
		Trace: in.Trace, From: in.From, To: in.To, Cluster: o.replay.Cluster, Scheduler: in.Scheduler,
		Goal: round.Minimise(o.tune.Objective), Settings: o.tune.Seeded(o.replay.Seed), Simulate: in.Options,
	}, t)
}

func newCausalDatasetCmd() *cobra.Command {
	var o datasetOptions
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Measure configurations of a scheduler on segments of a trace, as training data",
		Long: `Runs the cluster under one configuration (the default, or what --preset and
--set say), and simulates others on segments of the window, each from the state
of the cluster at that time until its last job ends. Every segment has its own
configurations, spread over the whole space.

A row is one of them: the workload (context), the parameters (config), the
behaviour of the scheduler (metric), and the objective relative to that of the
configuration in force (objective). The column segment numbers the segment, and
the one ending in _incumbent has the objective of the configuration in force
there; both are for --group, and are no features.
--tiers-out gives the tier of every column. All values are simulated.`,
		Example: `  autosched explain dataset --trace sample --nodes 12 --scheduler tiresias --out runs.csv --tiers-out tiers.json
  autosched explain learn --data runs.csv --tiers tiers.json --group segment --out graph.json
  autosched explain effects --data runs.csv --tiers tiers.json --graph graph.json --group segment --log-objectives`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd)
			if err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.replay.JSON, "causal-dataset/v1", r, r.print)
		},
	}
	o.add(cmd)
	cmd.Flags().StringVarP(&o.out, "out", "o", "", "table to write, CSV, - for standard output (required)")
	cmd.Flags().StringVar(&o.tiers, "tiers-out", "", "tiers file to write, JSON (required)")
	return cmd
}

// run measures configurations and writes the table and its tiers.
func (o *datasetOptions) run(cmd *cobra.Command) (*datasetReport, error) {
	set, err := o.train(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	if err := cli.WriteOutput(cmd, o.out, set.Table.WriteCSV); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	err = cli.WriteFile(o.tiers, "--tiers-out", func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(set.Spec)
	})
	return &datasetReport{
		Columns: set.Table.Names(), Data: o.out, Exhausted: set.Exhausted, Rows: set.Table.Rows(),
		Segments: len(set.Starts), Tiers: o.tiers,
	}, err
}

// datasetReport is the result of explain dataset.
type datasetReport struct {
	Columns   []string `json:"columns"`
	Data      string   `json:"data"`
	Exhausted int      `json:"exhausted"`
	Rows      int      `json:"rows"`
	Segments  int      `json:"segments"`
	Tiers     string   `json:"tiers"`
}

func (r *datasetReport) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d rows of %d columns from %d pieces in %s, tiers in %s; %d configurations ran out of "+
		"events\n", r.Rows, len(r.Columns), r.Segments, r.Data, r.Tiers, r.Exhausted)
	return err
}
