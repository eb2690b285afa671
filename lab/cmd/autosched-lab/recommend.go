package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/lab/inject"
	"github.com/autosched/autosched/lab/score"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// benchRecommendOptions are the flags of recommend.
type benchRecommendOptions struct {
	plot      cli.PlotFlag
	trace     string
	waste     []float64
	windows   int
	days      int
	drain     time.Duration
	nodes     int
	gpus      int
	load      float64
	scheduler string
	detected  bool
	seed      uint64
	json      bool
	how       cli.ReadFlags
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

With --detected, acting on what the built-in rules find is simulated as well: the jobs run under
the scheduler with telemetry of Philly's GPUs, a sample a minute, the rules are applied to it,
and their findings, right or wrong, are acted on as 'autosched recommend' does. As many
jobs as waste GPUs only look like it.

Utilisation is the GPU-time that is used over capacity, from a window's begin to its
end plus --drain, in both. Intervals are of a bootstrap over windows, p of a paired
Wilcoxon test, adjusted by Holm for the number of tests. Small tenants have less
GPU-time than the median one; Jain's index is of the tenants' mean stretch.`,
		Example: `  autosched-lab recommend --trace sample --windows 20 --nodes 8
  autosched-lab recommend --trace philly.csv.gz --windows 24 --waste 10 --scheduler tiresias --json
  autosched-lab recommend --trace philly.csv.gz --waste 10 --detected`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "recommend-benchmark/v1", r,
				func() (*chart.Page, error) { return recommendPage(r) },
				func(w io.Writer) error { return printRecommendBench(w, r) })
		},
	}
	o.plot.Add(cmd)
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
	fl.BoolVar(&o.detected, "detected", false, "simulate acting on what the built-in rules find as well")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of everything random")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

func (o *benchRecommendOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	if o.trace == "" {
		return cli.Usage(errors.New(`--trace is missing: name a trace file, "sample" or "sample-shifts"`))
	}
	for _, w := range o.waste {
		if !(w > 0 && w <= 80) {
			return cli.Usage(fmt.Errorf("--waste: %g is not above 0 and at most 80 percent", w))
		}
	}
	if len(o.waste) == 0 || o.windows < 2 || o.days < 1 || o.nodes < 1 || o.gpus < 1 || o.drain < 0 || !(o.load > 0) {
		return cli.Usage(fmt.Errorf("--waste %v, --windows %d, --days %d, --nodes %d, --gpus-per-node %d, --drain %v, "+
			"--load %g: want one, at least 2, 1, 1, 1, 0, and above 0", o.waste, o.windows, o.days, o.nodes, o.gpus,
			o.drain, o.load))
	}
	if _, err := schedulers.Find(o.scheduler); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// recommendRow is a share of waste.
type recommendRow struct {
	Waste float64 `json:"waste_percent"`
	recommend.Effect
	Holm     float64        `json:"p_holm"`
	Detected *detectedWaste `json:"detected,omitempty"`
}

// detectedWaste has the effects of acting on findings.
type detectedWaste struct {
	recommend.Effect
	Holm float64 `json:"p_holm"`
	// Cases are the targets of acting, by the rule that should find it: jobs, and keys that crash. Wrong are the jobs
	// that were acted on and waste nothing.
	Cases map[string]*wasteCases `json:"cases"`
	Wrong int                    `json:"jobs_by_mistake"`
}

type wasteCases struct {
	Cases int `json:"cases"`
	Found int `json:"found"` // and acted on
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
	w, _, err := cli.OpenTrace(ctx, notes, o.trace, o.how)
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
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	out := &recommendBench{Trace: w.Name(), Scheduler: o.scheduler, Days: o.days, Load: o.load}
	cluster := workload.Uniform(o.nodes, o.gpus)
	var ps []float64
	for _, waste := range o.waste {
		var before, after, detected []recommend.Result
		seen := &detectedWaste{Cases: map[string]*wasteCases{"crash_loop": {}, "hoarding": {}, "idle_allocation": {}}}
		for i, at := range windows {
			line.Show("waste of %g %%: window %d of %d", waste, i+1, len(windows))
			jobs := o.jobs(w, at, uint64(i))
			if len(jobs) == 0 {
				continue
			}
			one, err := wasting(jobs, at[0], at[1]+o.drain, o.nodes*o.gpus, waste/100, o.seed+uint64(i)<<20)
			if err != nil {
				return nil, err
			}
			policy := func() simulator.Policy { return s.New(s.Space.Default()) }
			b, a, err := recommend.Pair(ctx, cluster, one, simulator.Options{}, policy)
			if err != nil {
				return nil, err
			}
			before, after = append(before, b), append(after, a)
			if !o.detected {
				continue
			}
			found, err := o.detect(w, at, one, uint64(i), policy(), seen)
			if err == nil {
				a, err = recommend.Run(ctx, cluster, found, simulator.Options{}, policy(), true)
			}
			if err != nil {
				return nil, err
			}
			detected = append(detected, a)
		}
		if len(before) == 0 {
			return nil, fmt.Errorf("%s: no window has a job that fits the cluster", w.Name())
		}
		row := recommendRow{Waste: waste, Effect: recommend.Compare(before, after, o.seed)}
		ps = append(ps, row.P)
		if o.detected {
			seen.Effect, row.Detected = recommend.Compare(before, detected, o.seed), seen
			ps = append(ps, seen.P)
		}
		out.Rows = append(out.Rows, row)
	}
	ps = stats.Holm(ps)
	for i := range out.Rows {
		row := &out.Rows[i]
		row.Holm, ps = ps[0], ps[1:]
		if row.Detected != nil {
			row.Detected.Holm, ps = ps[0], ps[1:]
		}
	}
	return out, nil
}

// detect is a window with the actions on the findings of the built-in rules in it.
func (o *benchRecommendOptions) detect(w *workload.Workload, at [2]time.Duration, one *recommend.Window, n uint64,
	policy simulator.Policy, seen *detectedWaste) (*recommend.Window, error) {
	out := &recommend.Window{From: one.From, To: one.To, Jobs: slices.Clone(one.Jobs)}
	var jobs []workload.Job
	uses := map[string]inject.Use{}
	for i := range out.Jobs {
		j := &out.Jobs[i]
		j.Acted = nil
		jobs = append(jobs, j.Job)
		if used := int(j.Used); used > 0 && (used < j.GPUs.Whole() || j.Useful < j.Duration) {
			uses[j.ID] = inject.Use{GPUs: used, For: j.Useful}
		}
	}
	stream, err := inject.NewUsed(inject.Options{Trace: w, From: at[0], To: one.To, Nodes: o.nodes, GPUsPerNode: o.gpus,
		Seed: o.seed + n<<20}, jobs, uses, policy)
	if err != nil {
		return nil, fmt.Errorf("--detected: %s: %w", o.scheduler, err)
	}
	found, _, err := score.Scan(stream, patterns.Builtin())
	if err != nil {
		return nil, err
	}
	recommend.Act(out.Jobs, stream.Zero, found, func(j *recommend.Job, at time.Duration) (time.Duration, bool) {
		return stream.Ran(j.ID, at), true
	})
	seen.count(one.Jobs, out.Jobs, func(j *recommend.Job) time.Duration { return stream.Ran(j.ID, one.To) })
	return out, nil
}

// count compares the targets with the jobs acted on. Jobs that had not wasted GPUs for an hour do not count.
func (d *detectedWaste) count(wanted, acted []recommend.Job, ran func(*recommend.Job) time.Duration) {
	found := map[[2]string]bool{} // by rule and job or key
	for i := range wanted {
		j := &wanted[i]
		name, since := [2]string{"idle_allocation", j.ID}, j.Useful
		switch {
		case j.Used == 0:
			name, since = [2]string{"crash_loop", j.User + "/" + j.Key}, -time.Hour
		case j.Used < j.GPUs.Count():
			name[0], since = "hoarding", 0
		}
		switch {
		case j.Used > 0 && j.Acted == nil:
			if acts(&acted[i]) {
				d.Wrong++
			}
		case acts(j) && ran(j) >= since+time.Hour:
			found[name] = found[name] || acts(&acted[i])
		}
	}
	for name, yes := range found {
		n := d.Cases[name[0]]
		if n.Cases++; yes {
			n.Found++
		}
	}
}

// jobs returns the jobs of a window, thinned to the load.
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
		units.Plural(r.Days, "day"), r.Load)
	t := table.Numbers(w,
		"waste\twindows\tutilisation\tacting\tgain\t95 %\tp\tmean wait h\tacting\tsmall tenants\tacting\tJain\t"+
			"acting\tless used in\tlonger waits in\t")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%g %%\t%d\t%.3f\t%.3f\t%+.1f %%\t%+.1f to %+.1f\t"+
			"%.2g\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t%.3f\t%d\t%d\t\n",
			x.Waste, x.Windows, x.Before.Utilization, x.After.Utilization, 100*x.Gain, 100*x.Low, 100*x.High, x.Holm,
			x.Before.WaitS/3600, x.After.WaitS/3600, x.Before.SmallWaitS/3600, x.After.SmallWaitS/3600, x.Before.Jain,
			x.After.Jain, x.Hurt, x.Longer)
	}
	if len(r.Rows) == 0 || r.Rows[0].Detected == nil {
		return t.Flush()
	}
	fmt.Fprintln(t, "\nacting on what the built-in rules find\n\nwaste\twindows\tutilisation\tacting\tgain\t95 %\tp\tof the gain\t"+
		"mean wait h\tacting\tidle jobs\thoarding\tkeys that crash\tby mistake\tless used in\tlonger waits in\t")
	for _, x := range r.Rows {
		found := func(rule string) string {
			return fmt.Sprintf("%d of %d", x.Detected.Cases[rule].Found, x.Detected.Cases[rule].Cases)
		}
		d, share := x.Detected, "-"
		if x.Gain > 0 {
			share = fmt.Sprintf("%.0f %%", 100*d.Gain/x.Gain)
		}
		fmt.Fprintf(t, "%g %%\t%d\t%.3f\t%.3f\t%+.1f %%\t%+.1f to %+.1f\t%.2g\t%s\t%.2f\t%.2f\t%s\t%s\t%s\t%d\t%d\t%d\t\n",
			x.Waste, d.Windows, d.Before.Utilization, d.After.Utilization, 100*d.Gain, 100*d.Low, 100*d.High, d.Holm,
			share, d.Before.WaitS/3600, d.After.WaitS/3600, found("idle_allocation"), found("hoarding"),
			found("crash_loop"), d.Wrong, d.Hurt, d.Longer)
	}
	return t.Flush()
}
