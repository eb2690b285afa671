package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/lab/aggregate"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

// benchAggregateOptions are the flags of aggregate.
type benchAggregateOptions struct {
	plot      cli.PlotFlag
	replay    cli.ReplayFlags
	objective string
	horizon   time.Duration
	study     aggregate.Options
}

func newBenchAggregateCmd() *cobra.Command {
	var o benchAggregateOptions
	cmd := &cobra.Command{
		Use:   "aggregate",
		Short: "Measure what grouping similar jobs saves, and what it costs in rank and result",
		Long: `Ranks configurations (the default, the presets, then random ones) on the
jobs of a window and on groups of similar jobs, for several sizes: how many GPUs
a group asks for at most. Without --hours the window is
simulated from an empty cluster; with it, tuning rounds at that many busy instants
are: the active jobs, and those that arrive within --horizon.

Columns: tau is Kendall's rank correlation of the configurations on groups and on
jobs (the least of an instant beside it), and "tau apart" that of the pairs that
differ by more than 1 %; lost is by how much the configuration
that is best on groups is worse on the jobs than the best there; bias by how
much the objective differs on groups; speed-up the time of a measurement on jobs over
that on groups, grouping included (the median over configurations, measured one
after the other on one core). The first row has no
groups but every job up to a minute later: what ranks are worth.`,
		Example: `  autosched-lab aggregate --trace sample --nodes 20 --scheduler tiresias --configs 12
  autosched-lab aggregate --trace jobs.csv.gz --from 2017-10-09 --to 2017-10-23 --nodes 60 --scheduler lucid --hours 8 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.replay.JSON, "aggregate-benchmark/v1", r,
				func() (*chart.Page, error) { return aggregatePage(r) },
				func(w io.Writer) error { return printAggregate(w, r) })
		},
	}
	o.replay.Add(cmd)
	o.replay.AddTo(cmd)
	cli.AddObjective(cmd, &o.objective)
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.DurationVar(&o.horizon, "horizon", round.DefaultSettings().Horizon,
		"with --hours, how far ahead arrivals are forecast")
	fl.IntSliceVar(&o.study.Sizes, "sizes",
		[]int{aggregate.DefaultGroup / 2, aggregate.DefaultGroup, 2 * aggregate.DefaultGroup},
		"sizes of groups to compare, in GPUs, comma-separated")
	fl.IntVar(&o.study.Configs, "configs", 24, "configurations to rank")
	fl.IntVar(&o.study.Hours, "hours", 0, "busy instants to look at (0: the whole window at once)")
	fl.IntVar(&o.study.Repeats, "repeats", 2, "times each measurement is timed; the fastest counts")
	return cmd
}

// check checks all that needs no trace.
func (o *benchAggregateOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	s := &o.study
	if s.Configs < 2 || s.Hours < 0 || s.Repeats < 1 {
		return cli.Usage(fmt.Errorf("--configs %d, --hours %d, --repeats %d: want at least 2, 0 and 1",
			s.Configs, s.Hours, s.Repeats))
	}
	for _, v := range s.Sizes {
		if v < 2 {
			return cli.Usage(fmt.Errorf("--sizes: %d is below 2: nothing would be grouped", v))
		}
	}
	if err := round.CheckObjective(o.objective, false); err != nil {
		return cli.Usage(fmt.Errorf("--%w", err))
	}
	if o.horizon <= 0 {
		return cli.Usage(fmt.Errorf("--horizon: %v is not positive", o.horizon))
	}
	return nil
}

// run studies. Notes and progress go to notes.
func (o *benchAggregateOptions) run(ctx context.Context, notes io.Writer) (*aggregate.Study, error) {
	in, err := o.replay.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	o.study.Progress = func(done, of int) { line.Show("measurement %d of %d", done, of) }
	return aggregate.Measure(ctx, replay.Options{
		Trace: in.Trace, From: in.From, To: in.To, Cluster: o.replay.Cluster, Scheduler: in.Scheduler,
		Goal:     round.Minimise(o.objective),
		Settings: round.Settings{Horizon: o.horizon, Seed: o.replay.Seed}, Simulate: in.Options,
	}, o.study)
}

// groupSize names a row.
func groupSize(x *aggregate.Row) string {
	if x.Size == 1 {
		return "later"
	}
	return fmt.Sprint(x.Size)
}

func printAggregate(w io.Writer, r *aggregate.Study) error {
	fmt.Fprintf(w, "%s, %s, %s: %d configurations at %s\n\n",
		r.Trace, r.Scheduler, r.Objective, r.Configs, units.Plural(len(r.Instants), "instant"))
	t := table.Numbers(w, "size\tjobs\tgroups\ttau\tleast tau\ttau apart\tof pairs\tlost\tmost lost\tbias\tspeed-up\t")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.0f %%\t%.2f %%\t%.2f %%\t%+.1f %%\t%.2f\t\n",
			groupSize(&x), x.JobsIn, x.JobsOut, x.Tau, x.MinTau, x.TauApart, 100*x.Apart, 100*x.Lost, 100*x.MostLost,
			100*x.Bias, x.Speedup)
	}
	return t.Flush()
}
