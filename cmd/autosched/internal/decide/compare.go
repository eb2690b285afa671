package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/report"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// comparisonOptions are the flags of compare.
type comparisonOptions struct {
	plot       cli.PlotFlag
	history    cli.HistoryFlags
	goal       cli.GoalFlags
	estimates  estimatesFlag
	answer     answerFlag
	schedulers string
	presets    bool
	texts      []string // of --row
	windows    []string
	seeds      int
	jobs       int
	out        string

	given func(flag string) bool
	rows  []replay.Row // after check
	aim   round.Goal   // after check
}

func newComparisonCmd() *cobra.Command {
	var o comparisonOptions
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Simulate a trace under several schedulers and configurations, and compare them job by job",
		Long: `Simulates the jobs of every window under every row: a configuration of a scheduler,
held, to the end of the last job, as simulate does, --warmup included. Nothing is
tuned; evaluate compares tuning methods.

Rows, in this order; the first is the baseline:
  - what you run, if --config, --set or --preset name it for --scheduler (current)
  - every --row: [NAME=]SCHEDULER[:PART,...], where the first PART may be a preset or
    a .yaml or .json file, and the others are key=value:
      themis                               the defaults
      tiresias:ladder-7200x6               a preset
      long=tiresias:queues=3,queue_thresholds=3250,7200
      mine=tiresias:mine.yaml,starve_limit=8h
  - the defaults of each of --schedulers, and with --presets their presets
Without --row and --schedulers: the defaults and the presets of --scheduler.

A ratio is the baseline's average JCT over the row's: above 1 is better. Its 95 %
interval is a bootstrap over the jobs, paired, in stretches of the window, and over
seeds. faster and slower are the shares of jobs whose JCT is more than 1 % shorter or
longer than under the baseline. Only run-time estimates with an error (--estimates 0.7)
draw: each of --seeds is simulated then, and spread is the largest average JCT of a seed
over the least, minus 1.

With --out, every simulation is kept once it is finished: after Ctrl-C or a crash the
same command continues, and one with more rows or windows simulates only what is new.`,
		Example: `  autosched compare --trace sample --schedulers tiresias,themis,lucid
  autosched compare --trace sample --scheduler tiresias --set queues=2 --set queue_thresholds=7200 --schedulers themis \
      --windows 2017-10-09..2017-10-10,2017-10-10..2017-10-12 --out comparison
  autosched compare --trace sacct.psv --site site --row mine=slurm:mine.yaml
  autosched compare --trace jobs.csv.gz --nodes 40 --gpus-per-node 8 --scheduler tiresias --config mine.yaml \
      --row tiresias:ladder-7200x6 --row long=tiresias:queues=3,queue_thresholds=3250,7200 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.answer.show(cmd, o.history.JSON, report.ComparisonSchema, r,
				func() (recommendation, error) {
					if v := r.Verdict; v != nil {
						return recommendation{o.rows[0].Scheduler, v.Configuration, v.Change, v.Text}, nil
					}
					best := report.Best(r)
					title, _ := report.BestRow(r)
					return recommendation{o.rows[best].Scheduler, o.rows[best].Config, best > 0, title}, nil
				},
				func(w io.Writer) error {
					return errors.Join(printRows(w, r, o.out), o.history.Site.PrintChange(w, r.Change))
				})
		},
	}
	o.given = cmd.Flags().Changed
	o.history.Add(cmd)
	o.history.AddNodeEvents(cmd)
	o.history.AddConclusion(cmd)
	o.goal.Add(cmd)
	o.plot.Add(cmd)
	o.estimates.add(cmd)
	o.answer.add(cmd, &o.history)
	fl := cmd.Flags()
	fl.StringVar(&o.schedulers, "schedulers", "", "schedulers whose defaults are rows, comma-separated")
	fl.BoolVar(&o.presets, "presets", false, "presets of --schedulers are rows, too")
	fl.StringArrayVar(&o.texts, "row", nil, "[NAME=]SCHEDULER[:SPEC], a row, repeatable; SPEC is a preset, a file or key=value,...")
	fl.StringSliceVar(&o.windows, "windows", nil,
		"FROM..TO,..., windows in place of --from and --to; FROM and TO as in --from")
	fl.IntVar(&o.seeds, "seeds", 3, "")
	fl.StringVarP(&o.out, "out", "o", "",
		"folder for the comparison (compare.html, compare.json, compare.csv, jobs.csv) and for the simulations finished "+
			"so far (cells.jsonl)")
	addJobs(cmd, &o.jobs)
	return cmd
}

// check checks all that needs no trace, and reads the rows.
func (o *comparisonOptions) check() error {
	s, current, err := o.history.Check()
	if err != nil {
		return err
	}
	if err := cmp.Or(o.estimates.check(), o.answer.check(o.history.JSON)); err != nil {
		return err
	}
	if o.aim, err = o.goal.Goal(); err != nil {
		return err
	}
	if metric := o.aim.Metered(); metric != "" {
		return cli.Usage(fmt.Errorf("--objective, --subject-to: %s: %w", metric, round.ErrNoMeter))
	}
	var names []string
	if o.given("schedulers") {
		names = cli.SplitList(o.schedulers)
	}
	if err := cli.CheckList(o.given, "schedulers", names); err != nil {
		return err
	}
	switch {
	case o.seeds < 1:
		return cli.Usage(fmt.Errorf("--seeds: %d, want at least 1", o.seeds))
	case o.jobs < 0:
		return cli.Usage(fmt.Errorf("--parallel: %d is negative", o.jobs))
	case o.presets && len(names) == 0:
		return cli.Usage(errors.New("--presets: names the presets of --schedulers, which is missing"))
	case len(o.windows) > 0 && (o.given("from") || o.given("to")):
		return cli.Usage(errors.New("--windows takes the place of --from and --to: give one or the other"))
	}
	for _, text := range o.windows {
		from, to, ok := strings.Cut(text, "..")
		if !ok {
			return cli.Usage(fmt.Errorf("--windows: %q is not FROM..TO, as in 2017-10-09..2017-10-12", text))
		}
		for _, at := range []string{from, to} {
			if err := trace.CheckInstant(at); err != nil {
				return cli.Usage(fmt.Errorf("--windows: %s: %w", text, err))
			}
		}
	}
	o.rows = nil
	if o.history.InForce.Given() {
		o.rows = append(o.rows, replay.Row{Name: "current", Scheduler: s, Config: current})
	}
	for _, text := range o.texts {
		row, err := parseRow(text, o.history.Named)
		if err != nil {
			return fmt.Errorf("--row: %w", err)
		}
		o.rows = append(o.rows, row)
	}
	presets := o.presets
	if len(o.texts) == 0 && len(names) == 0 {
		names, presets = []string{s.Name}, true
	}
	for _, name := range names {
		s, err := o.history.Named(name)
		if err != nil {
			return cli.Usage(fmt.Errorf("--schedulers: %w", err))
		}
		o.rows = append(o.rows, replay.Row{Name: s.Name, Scheduler: s, Config: s.Space.Default()})
		for _, p := range s.Presets {
			if presets {
				o.rows = append(o.rows, replay.Row{Name: s.Name + ":" + p.Name, Scheduler: s, Config: p.Config})
			}
		}
	}
	for i, r := range o.rows {
		if slices.ContainsFunc(o.rows[:i], func(x replay.Row) bool { return x.Name == r.Name }) {
			return cli.Usage(fmt.Errorf("%q names two rows: name one of them, as in --row NAME=SCHEDULER", r.Name))
		}
	}
	return o.plot.Check(o.out)
}

// parseRow reads [NAME=]SCHEDULER[:PART,...].
func parseRow(text string, find func(name string) (*schedulers.Scheduler, error)) (replay.Row, error) {
	row := replay.Row{Name: text}
	head, rest, _ := strings.Cut(text, ":")
	name, of, named := strings.Cut(head, "=")
	if !named {
		of = head
	} else if row.Name = name; name == "" {
		return row, cli.Usage(fmt.Errorf("%q has no name before =", text))
	}
	var err error
	if row.Scheduler, err = find(of); err != nil {
		return row, cli.Usage(fmt.Errorf("%q is not [NAME=]SCHEDULER[:PART,...]: %w", text, err))
	}
	// A part without = continues the array of the part before it; the first names where
	// to start.
	var c cli.ConfigFlags
	for i, part := range cli.SplitList(rest) {
		file, _, _ := strings.Cut(part, ":")
		switch n := len(c.Set); {
		case strings.Contains(part, "="):
			c.Set = append(c.Set, part)
		case n > 0:
			c.Set[n-1] += "," + part
		case rest == "" && head == text: // no colon
		case i > 0 || part == "":
			return row, cli.Usage(fmt.Errorf("%q: %q is not a preset, a file or key=value", text, part))
		case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			c.File = part
		default:
			c.Preset = part
		}
	}
	if row.Config, err = c.Config(row.Scheduler); err != nil {
		return row, fmt.Errorf("%s: %w", text, err)
	}
	return row, nil
}

// run compares, and writes the files if a folder is named. Notes and progress go to
// notes.
func (o *comparisonOptions) run(ctx context.Context, notes io.Writer) (*replay.Comparison, error) {
	in, err := o.history.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	windows, err := o.windowsOf(in)
	if err != nil {
		return nil, err
	}
	if o.out != "" { // fails now rather than after minutes of work
		if err := os.MkdirAll(o.out, 0o777); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
	}
	var graded []*fidelity.Graded
	for _, w := range windows {
		g, err := o.history.Grade(ctx, in, w, o.rows[0].Scheduler, o.rows[0].Config)
		if err != nil {
			return nil, err
		}
		graded = append(graded, g)
	}
	seeds := o.seeds
	var estimate func([]workload.Job, uint64) func(*workload.Job) time.Duration
	if o.estimates.text != "none" {
		estimate = o.estimates.estimate
	}
	if o.estimates.sigma == 0 {
		seeds = 1
	}
	progress := newGridProgress(notes, o.out, "fewer rows, fewer or shorter windows (--from, --to, --windows), --seeds 1")
	r, err := replay.Compare(ctx, replay.CompareOptions{
		Trace: in.Trace, Cluster: o.history.Cluster, Windows: windows, Warmup: in.Warmup, Rows: o.rows,
		Estimate: estimate,
		Seed:     o.history.Seed, Seeds: seeds, Simulate: in.Options, Jobs: o.jobs, Keep: progress.keep(),
		Progress: func(name string, p cells.Progress) { progress.show(name, p) },
	})
	progress.end(err)
	if r != nil {
		for i := range r.Windows {
			r.Windows[i].Fidelity = graded[i]
		}
	}
	if err == nil {
		err = o.ask(ctx, in, windows, r, notes)
	}
	if err == nil && o.out != "" {
		err = report.WriteComparison(r, o.out)
	}
	if err == nil {
		err = o.plot.Write(func() (*chart.Page, error) { return report.ComparisonFigures(r), nil })
	}
	return r, err
}

// ask asks for the verdict, where all rows are of one scheduler.
func (o *comparisonOptions) ask(ctx context.Context, in *cli.ReplayInput, windows []replay.Window, r *replay.Comparison,
	notes io.Writer) (err error) {
	about := *in
	about.Scheduler, about.From, about.To = o.rows[0].Scheduler, windows[0].From, windows[0].To
	for _, w := range windows {
		about.From, about.To = min(about.From, w.From), max(about.To, w.To)
	}
	var also []search.Preset
	for _, row := range o.rows[1:] {
		if row.Scheduler.Name != about.Scheduler.Name {
			return nil
		}
		also = append(also, search.Preset{Name: row.Name, Config: row.Config, Origin: "row"})
	}
	inForce := o.rows[0].Config
	ask := replay.AskOptions{Goal: o.aim, InForce: inForce, Also: also, Workers: o.jobs}
	if len(r.Windows) == 1 {
		ask.Fidelity = r.Windows[0].Fidelity
	}
	if r.Verdict, err = o.history.Ask(ctx, &about, ask, notes); err != nil {
		return err
	}
	if r.Verdict.Change {
		r.Change, err = o.history.Site.Change(ctx, &about, &o.history.ReplayFlags, inForce, r.Verdict.Configuration)
	}
	return err
}

// windowsOf are the windows of --windows, or that of --from and --to.
func (o *comparisonOptions) windowsOf(in *cli.ReplayInput) ([]replay.Window, error) {
	if len(o.windows) == 0 {
		return []replay.Window{in.Window()}, nil
	}
	var out []replay.Window
	for _, text := range o.windows {
		fromText, toText, _ := strings.Cut(text, "..")
		from, to, err := cli.ParseWindow(in.Trace, fromText, toText)
		if err != nil {
			return nil, fmt.Errorf("--windows: %s: %w", text, err)
		}
		if to <= from {
			return nil, cli.Usage(fmt.Errorf("--windows: %s does not end after its begin", text))
		}
		for _, w := range out {
			if from < w.To && w.From < to {
				return nil, cli.Usage(fmt.Errorf("--windows: %s and %s overlap: jobs of both would count twice",
					w.Name, text))
			}
		}
		out = append(out, replay.Window{Name: text, From: from, To: to})
	}
	return out, nil
}

// CompleteRow offers schedulers, and presets and parameters of the one named.
func CompleteRow(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	head, rest, chosen := strings.Cut(text, ":")
	name, of, named := strings.Cut(head, "=")
	before := name + "="
	if !named {
		before, of = "", head
	}
	if !chosen {
		var out []string
		for _, s := range schedulers.Names() {
			out = append(out, before+s)
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	s, err := schedulers.Find(of)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	before = head + ":" + rest[:strings.LastIndexByte(rest, ',')+1]
	var out []string
	if rest == "" || !strings.ContainsAny(rest, ",=") {
		for _, p := range s.Presets {
			out = append(out, before+p.Name)
		}
	}
	for _, p := range s.Space.Params() {
		out = append(out, before+p.ID+"=\t"+p.Description)
	}
	return out, cobra.ShellCompDirectiveNoSpace
}
