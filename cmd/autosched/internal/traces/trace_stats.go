package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
	"github.com/autosched/autosched/workload/stats"
)

// traceStatsOptions are the flags of trace stats.
type traceStatsOptions struct {
	input   traceInput
	window  traceWindow
	cluster workload.Cluster
	plot    string

	given func(flag string) bool
}

func newTraceStatsCmd() *cobra.Command {
	var o traceStatsOptions
	cmd := &cobra.Command{
		Use:   "stats TRACE",
		Short: "Characterise a trace in numbers and plots",
		Long: `Stats describes a trace: arrivals and their periods, durations, sizes, the
distribution of GPU-time over jobs and users, batches, recurrence, status and
queueing delay, by tenant, and the load on a cluster.

Where the cluster is given (--nodes, --gpus-per-node) or the trace shows it, stats
prints the offered load: the requested GPU-time of all jobs over
the cluster's capacity between the first and the last submission. Above 1 jobs
must queue; far below 1 no scheduler setting makes a difference. The next line has
the GPUs in use if no job ever waited.

Variance over mean is 1 for arrivals at random (Poisson) and more for bursts.
Periods are those of a Fourier transform of the number of submissions: the shares
of its variance within a day, at a day, at a week.

A batch is a sequence of jobs of one tenant at most 60 s apart: a sweep. Jobs with
the same key recur and are expected to run about as long. The smaller the spread
of ln(duration) within a key is against that of all jobs, the better durations can
be predicted.

--plot draws arrivals, profile, periods, durations, sizes and demand into a PNG or
SVG file, or with the numbers into an HTML page of one file.`,
		Example: `  autosched trace stats sample --nodes 20 --gpus-per-node 8
  autosched trace stats jobs.csv.gz --from 2017-10-02 --to 2017-10-30 --plot jobs.svg
  autosched trace stats pods.csv.gz,nodes.csv --plot pods.html
  autosched trace stats jobs.csv.gz --json | jq .arrivals_per_hour`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.input.json, "trace-statistics/v1", r,
				func(w io.Writer) error { return printStats(w, r) })
		},
	}
	o.given = cmd.Flags().Changed
	o.input.add(cmd)
	o.window.add(cmd)
	cli.ClusterFlags(cmd, &o.cluster)
	cmd.Flags().StringVar(&o.plot, "plot", "", "")
	return cmd
}

// sized reports whether flags give the cluster.
func (o *traceStatsOptions) sized() bool { return o.given("nodes") || o.given("gpus-per-node") }

// check checks all that needs no trace.
func (o *traceStatsOptions) check() error {
	if o.sized() {
		if err := o.cluster.Validate(); err != nil {
			return cli.Usage(err)
		}
	}
	return cmp.Or(cli.CheckPlot(o.plot, ".png", ".svg", ".html"), o.input.check(), o.window.check())
}

// run describes the trace, and draws the plot. Notes go to notes.
func (o *traceStatsOptions) run(ctx context.Context, notes io.Writer) (*stats.Description, error) {
	w, report, err := o.input.open(ctx, notes)
	if err != nil {
		return nil, err
	}
	if w, err = o.window.cut(w); err != nil {
		return nil, err
	}
	cluster := &o.cluster
	if !o.sized() {
		e := capacity.Evidence{Machines: report.Machines, Declared: report.Declared}
		switch found, err := capacity.Infer(w, e); {
		case errors.Is(err, capacity.ErrUnknown):
			cluster = nil
		case err != nil:
			return nil, err
		default:
			cluster = &found.Cluster
			fmt.Fprintf(notes, "note: cluster: %s; --nodes and --gpus-per-node set it\n", found)
		}
	}
	s := stats.Describe(w, cluster)
	if o.plot != "" {
		err = plotStats(o.plot, w, &s)
	}
	return &s, err
}
