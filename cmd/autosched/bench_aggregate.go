package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/lab"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

func newBenchAggregateCmd() *cobra.Command {
	var f replayFlags
	var objective string
	var horizon time.Duration
	var o lab.AggregateOptions
	cmd := &cobra.Command{
		Use:   "aggregate",
		Short: "Measure what grouping similar jobs saves, and what it costs in rank and result",
		Long: `Ranks configurations (the default, the presets, then random ones) on the
jobs of a window and on groups of similar jobs, for several sizes: how many GPUs
a group asks for at most. Without --hours the window is
played from an empty cluster; with it, tuning rounds at that many busy instants
are: what is active, and what comes within --horizon.

Columns: tau is Kendall's rank correlation of the configurations on groups and on
jobs (the least of an instant beside it), and "tau apart" that of the pairs that
differ by more than 1 %; lost is by how much the configuration
that is best on groups is worse on the jobs than the best there; bias by how
much the objective differs on groups; speed-up the time of a measurement on jobs over
that on groups, grouping included (the median over configurations, measured one
after the other on one core). The first row has no
groups but every job up to a minute later: what ranks are worth.`,
		Example: `  autosched bench aggregate --trace sample --nodes 20 --scheduler tiresias --configs 12
  autosched bench aggregate --trace jobs.csv.gz --from 2017-10-09 --to 2017-10-23 --nodes 60 --scheduler lucid --hours 8 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Configs < 2 || o.Hours < 0 || o.Repeats < 1 {
				return usageError{fmt.Errorf("--configs %d, --hours %d, --repeats %d: want at least 2, 0 and 1", o.Configs, o.Hours, o.Repeats)}
			}
			for _, v := range o.Sizes {
				if v < 2 {
					return usageError{fmt.Errorf("--sizes: %d is below 2: nothing would be grouped", v)}
				}
			}
			if err := round.CheckObjective(objective); err != nil {
				return usageError{fmt.Errorf("--%w", err)}
			}
			if horizon <= 0 {
				return usageError{fmt.Errorf("--horizon: %v is not positive", horizon)}
			}
			in, err := f.load(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			line := newProgressLine(cmd.ErrOrStderr())
			o.Progress = func(done, of int) { line.show("measurement %d of %d", done, of) }
			r, err := lab.StudyAggregate(cmd.Context(), replay.Options{
				Trace: in.trace, From: in.from, To: in.to, Cluster: f.cluster, Scheduler: in.scheduler, Goal: round.Minimise(objective),
				Settings: round.Settings{Horizon: horizon, Seed: f.seed}, Simulate: in.options,
			}, o)
			line.clear()
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printAggregate(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd)
	f.addTo(cmd)
	addObjective(cmd, &objective)
	fl := cmd.Flags()
	fl.DurationVar(&horizon, "horizon", round.DefaultSettings().Horizon, "with --hours, arrivals for this long belong to a round")
	fl.IntSliceVar(&o.Sizes, "sizes", []int{workload.DefaultGroup / 2, workload.DefaultGroup, 2 * workload.DefaultGroup}, "sizes of groups to compare, in GPUs, comma-separated")
	fl.IntVar(&o.Configs, "configs", 24, "configurations to rank")
	fl.IntVar(&o.Hours, "hours", 0, "busy instants to look at (0: the whole window at once)")
	fl.IntVar(&o.Repeats, "repeats", 2, "times each measurement is timed; the fastest counts")
	return cmd
}

func printAggregate(w io.Writer, r *lab.AggregateStudy) error {
	fmt.Fprintf(w, "%s, %s, %s: %d configurations at %s\n\n", r.Trace, r.Scheduler, r.Objective, r.Configs, plural(len(r.Instants), "instant"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "size\tjobs\tgroups\ttau\tleast tau\ttau apart\tof pairs\tlost\tmost lost\tbias\tspeed-up\t")
	for _, x := range r.Rows {
		size := fmt.Sprint(x.Size)
		if x.Size == 1 {
			size = "later"
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.0f %%\t%.2f %%\t%.2f %%\t%+.1f %%\t%.2f\t\n", size, x.JobsIn, x.JobsOut, x.Tau, x.MinTau, x.TauApart, 100*x.Apart, 100*x.Lost, 100*x.MostLost, 100*x.Bias, x.Speedup)
	}
	return t.Flush()
}
