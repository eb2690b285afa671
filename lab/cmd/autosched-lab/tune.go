package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/lab/searches"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

// benchTuneOptions are the flags of tune.
type benchTuneOptions struct {
	replay  cli.ReplayFlags
	round   cli.TuneFlags
	config  cli.ConfigFlags
	compare searches.Options
	plot    cli.PlotFlag
	given   func(flag string) bool
}

func newBenchTuneCmd() *cobra.Command {
	var o benchTuneOptions
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Compare searches on the tuning rounds of a trace, with paired tests",
		Long: `Runs the cluster under one configuration (the default, or what --preset and
--set say) and tunes at instants of the window at which jobs wait. Every search
gets the same futures and the same budget (evaluations, or with --time processor
time), and what it found is judged on those futures and on the true future.

Ratios are of the controllable part of the objective: the incumbent's over the
winner's, above 1 is better; means over seeds, then geometric means over
instants. The columns "vs" compare with the first search: below 1 found better
configurations; p is of a paired t-test over the instants.

"to match" is after how many evaluations a search had a configuration within 1 %
of the best that the first one found, "without model" after how many, and after what
processor time, within 1 % of what the same search without a causal model found (name it
before the one with). "in s" is that processor time in seconds, "s" the processor
time of a whole search. "rejected" is how many proposals per search a causal model
rejected; some of them are measured all the same, and "audits right" is the share
of those that were rejected rightly.

Searches, each optionally followed by ` + searches.Causal + `, which lets a causal model
of its trials reject proposals:
` + searchList(),
		Example: `  autosched-lab tune --trace sample --nodes 20 --hours 4 --seeds 2 --searches autosched,random,bluefin
  autosched-lab tune --trace jobs.csv.gz --from 2017-10-09 --to 2017-10-12 --nodes 40 --scheduler lucid --time 500ms --budget 1000 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.replay.JSON, "tuning-benchmark/v1", r,
				func() (*chart.Page, error) { return searchesPage(r) },
				func(w io.Writer) error { return printComparison(w, r) })
		},
	}
	o.replay.Add(cmd)
	o.replay.AddTo(cmd)
	o.round.AddSearch(cmd)
	o.config.Add(cmd)
	o.given = cmd.Flags().Changed
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringSliceVar(&o.compare.Searches, "searches",
		searchNames(), "searches to compare, comma-separated; the first is the reference")
	fl.IntVar(&o.compare.Hours, "hours", 10, "instants to tune at")
	fl.IntVar(&o.compare.Seeds, "seeds", 5, "searches per instant, each with its own futures")
	fl.DurationVar(&o.compare.Time, "time",
		0, "processor time of each search (0: only --budget counts); results then depend on the machine")
	return cmd
}

// check checks all that needs no trace.
func (o *benchTuneOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	c := &o.compare
	if err := cli.CheckList(o.given, "searches", c.Searches); err != nil {
		return err
	}
	if err := round.CheckObjective(o.round.Objective, false); err != nil {
		return cli.Usage(fmt.Errorf("--%w", err))
	}
	if err := o.round.CheckSettings(); err != nil {
		return err
	}
	if c.Hours < 2 || c.Seeds < 1 || c.Time < 0 {
		return cli.Usage(fmt.Errorf("--hours %d, --seeds %d, --time %v: want at least 2, 1 and 0",
			c.Hours, c.Seeds, c.Time))
	}
	for _, n := range c.Searches {
		if searches.Check(n) != nil {
			return cli.Usage(fmt.Errorf("--searches: %q is not known; there are %s, each optionally followed by %s",
				n, strings.Join(searchNames(), ", "), searches.Causal))
		}
	}
	var err error
	_, c.Incumbent, err = o.replay.Configured(&o.config)
	return err
}

// run compares. Notes and progress go to notes.
func (o *benchTuneOptions) run(ctx context.Context, notes io.Writer) (*searches.Comparison, error) {
	in, err := o.replay.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	o.compare.Progress = func(done, of int) { line.Show("search %d of %d", done, of) }
	return searches.Compare(ctx, replay.Options{
		Trace: in.Trace, From: in.From, To: in.To, Cluster: o.replay.Cluster, Scheduler: in.Scheduler,
		Goal: round.Minimise(o.round.Objective), Settings: o.round.Seeded(o.replay.Seed),
		Generate: o.round.Method, Simulate: in.Options,
	}, o.compare)
}

func searchNames() []string {
	var out []string
	for _, s := range searches.Searches() {
		out = append(out, s[0])
	}
	return out
}

func searchList() string {
	var b strings.Builder
	for _, s := range searches.Searches() {
		fmt.Fprintf(&b, "  %-10s %s\n", s[0], s[1])
	}
	return strings.TrimRight(b.String(), "\n")
}

func printComparison(w io.Writer, r *searches.Comparison) error {
	limit := units.Plural(r.Budget, "evaluation")
	if r.TimeS > 0 {
		limit = fmt.Sprintf("%v of a processor", time.Duration(r.TimeS*float64(time.Second)))
	}
	fmt.Fprintf(w, "%s, %s, %s: %s x %s, %s per search on %d futures\n\n",
		r.Trace, r.Scheduler, r.Objective, units.Plural(len(r.Hours), "instant"), units.Plural(r.Seeds, "seed"), limit,
		r.Futures)
	t := table.Numbers(w, "")
	fmt.Fprintf(t,
		"search\ton futures\tin truth\tvs %s\tp\tvs in truth\tp\tevaluations\tto match\twithout model\tin "+
			"s\ts\trejected\taudits right\t\n", r.Reference)
	for _, s := range r.Searches {
		audits := ""
		if s.Audits > 0 {
			audits = fmt.Sprintf("%.0f %% of %d", 100*s.AuditsRight, s.Audits)
		}
		fmt.Fprintf(t, "%s\t%.4f\t%.4f\t%.4f\t%.3f\t%.4f\t%.3f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%.1f\t%s\t\n",
			s.Search, s.OnFutures, s.OnTruth, s.AgainstReference, s.P, s.AgainstReferenceTruth, s.PTruth,
			s.Evaluations, s.EvaluationsToMatch, s.Plain.Evaluations, s.Plain.Seconds, s.Seconds, s.Rejected, audits)
	}
	return t.Flush()
}
