package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/patterns/recommend"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// benchRecommendOptions are the flags of bench recommend.
type benchRecommendOptions struct {
	trace     string
	waste     []float64
	windows   int
	days      int
	drain     time.Duration
	nodes     int
	gpus      int
	load      float64
	scheduler string
	seed      uint64
	json      bool
	how       readFlags
}

func newBenchRecommendCmd() *cobra.Command {
	var o benchRecommendOptions
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "Measure what acting on findings is worth, by the share of wasted GPU-hours",
		Long: `Adds waste to the jobs of windows of a trace and simulates them with and without
acting on it: jobs that idle after their work are cancelled after two hours of that,
jobs that ask for twice the GPUs they use get what they use after an hour, and
keys that crash are held after three failures. Every case is taken as found.

Utilisation is the GPU-time that is used over capacity, from a window's begin to its
end plus --drain, in both. Intervals are of a bootstrap over windows, p of a paired
Wilcoxon test, adjusted by Holm for the number of shares. Small tenants have less
GPU-time than the median one; Jain's index is of the tenants' mean stretch.`,
		Example: `  autosched bench recommend --trace sample --windows 20 --nodes 8
  autosched bench recommend --trace philly.csv.gz --windows 24 --waste 10 --scheduler tiresias --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), o.json, "recommend-benchmark/v1", r,
				func(w io.Writer) error { return printRecommendBench(w, r) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.trace, "trace", "",
		`trace file, or "sample" or "sample-shifts", synthetic ones that are built in (required)`)
	fl.Float64SliceVar(&o.waste, "waste", []float64{2, 5, 10, 20},
		"percent of GPU-hours that are wasted, comma-separated")
	fl.IntVar(&o.windows, "windows", 24, "windows of the trace")
	fl.IntVar(&o.days, "days", 2, "length of a window")
	fl.DurationVar(&o.drain, "drain", 12*time.Hour, "time after a window's last submission in which use still counts")
	fl.IntVar(&o.nodes, "nodes", 20, "nodes of the cluster")
	fl.IntVar(&o.gpus, "gpus-per-node", 8, "GPUs of a node")
	fl.Float64Var(&o.load, "load", 1.2,
		"useful GPU-time that the jobs ask for over capacity; a trace with more is thinned")
	fl.StringVar(&o.scheduler, "scheduler", "fifo", "scheduler under its default configuration")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of everything random")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	o.how.add(cmd)
	return cmd
}

func (o *benchRecommendOptions) check() error {
	if o.trace == "" {
		return usageError{errors.New(`--trace is missing: name a trace file, "sample" or "sample-shifts"`)}
	}
	for _, w := range o.waste {
		if !(w > 0 && w <= 80) {
			return usageError{fmt.Errorf("--waste: %g is not above 0 and at most 80 percent", w)}
		}
	}
	if len(o.waste) == 0 || o.windows < 2 || o.days < 1 || o.nodes < 1 || o.gpus < 1 || o.drain < 0 || !(o.load > 0) {
		return usageError{fmt.Errorf("--waste %v, --windows %d, --days %d, --nodes %d, --gpus-per-node %d, --drain %v, "+
			"--load %g: want one, at least 2, 1, 1, 1, 0, and above 0", o.waste, o.windows, o.days, o.nodes, o.gpus,
			o.drain, o.load)}
	}
	if _, err := schedulers.Find(o.scheduler); err != nil {
		return usageError{err}
	}
	return nil
}

// recommendRow is a share of waste.
type recommendRow struct {
	Waste float64 `json:"waste_percent"`
	recommend.Effect
	Holm float64 `json:"p_holm"`
}

// recommendBench is the result.
type recommendBench struct {
	Trace     string         `json:"trace"`
	Scheduler string         `json:"scheduler"`
	Days      int            `json:"days"`
	Load      float64        `json:"load"`
	Rows      []recommendRow `json:"rows"`
}

func (o *benchRecommendOptions) run(ctx context.Context, notes io.Writer) (*recommendBench, error) {
	w, _, err := openTrace(ctx, notes, o.trace, o.how)
	if err != nil {
		return nil, err
	}
	windows, err := windowsOf(w, o.windows, o.days)
	if err != nil {
		return nil, err
	}
	s, err := schedulers.Find(o.scheduler)
	if err != nil {
		return nil, err
	}
	line := newProgressLine(notes)
	defer line.clear()
	out := &recommendBench{Trace: w.Name(), Scheduler: o.scheduler, Days: o.days, Load: o.load}
	cluster := workload.Uniform(o.nodes, o.gpus)
	var ps []float64
	for _, waste := range o.waste {
		var before, after []recommend.Result
		for i, at := range windows {
			line.show("waste of %g %%: window %d of %d", waste, i+1, len(windows))
			jobs := o.jobs(w, at, uint64(i))
			if len(jobs) == 0 {
				continue
			}
			one, err := recommend.Waste(jobs, at[0], at[1]+o.drain, o.nodes*o.gpus, waste/100, o.seed+uint64(i)<<20)
			if err != nil {
				return nil, err
			}
			b, a, err := recommend.Pair(ctx, cluster, one, simulator.Options{},
				func() simulator.Policy { return s.New(s.Space.Default()) })
			if err != nil {
				return nil, err
			}
			before, after = append(before, b), append(after, a)
		}
		if len(before) == 0 {
			return nil, fmt.Errorf("%s: no window has a job that fits the cluster", w.Name())
		}
		row := recommendRow{Waste: waste, Effect: recommend.Compare(before, after, o.seed)}
		out.Rows, ps = append(out.Rows, row), append(ps, row.P)
	}
	for i, p := range stats.Holm(ps) {
		out.Rows[i].Holm = p
	}
	return out, nil
}

// jobs are those of a window, thinned to the load.
func (o *benchRecommendOptions) jobs(w *workload.Workload, at [2]time.Duration, n uint64) []workload.Job {
	var all []workload.Job
	asked := 0.
	for _, j := range w.Window(at[0], at[1]).Jobs() {
		g := j.GPUs.Whole()
		if g < 1 || 2*g > o.nodes*o.gpus || j.Duration <= 0 {
			continue
		}
		j.GPUs, j.Members, j.Requested, j.Status = workload.GPUs(g), 0, workload.Requested{}, workload.Completed
		j.Duration = min(j.Duration, at[1]-at[0])
		asked += float64(g) * j.Duration.Hours()
		all = append(all, j)
	}
	keep := o.load * float64(o.nodes*o.gpus) * (at[1] - at[0]).Hours() / max(asked, 1)
	x := rng.Stream("bench recommend", o.seed, n)
	var out []workload.Job
	for _, j := range all {
		if x.Float64() < keep {
			out = append(out, j)
		}
	}
	return out
}

func printRecommendBench(w io.Writer, r *recommendBench) error {
	fmt.Fprintf(w, "%s, %s, windows of %s, load %g without waste\n\n", r.Trace, r.Scheduler,
		plural(r.Days, "day"), r.Load)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "waste\twindows\tutilisation\tacting\tgain\t95 %\tp\tmean wait h\tacting\tsmall tenants\tacting\tJain\t"+
		"acting\tless used in\tlonger waits in\t")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%g %%\t%d\t%.3f\t%.3f\t%+.1f %%\t%+.1f to %+.1f\t"+
			"%.2g\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t%.3f\t%d\t%d\t\n",
			x.Waste, x.Windows, x.Before.Utilization, x.After.Utilization, 100*x.Gain, 100*x.Low, 100*x.High, x.Holm,
			x.Before.WaitS/3600, x.After.WaitS/3600, x.Before.SmallWaitS/3600, x.After.SmallWaitS/3600, x.Before.Jain,
			x.After.Jain, x.Hurt, x.Longer)
	}
	return t.Flush()
}
