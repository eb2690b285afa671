package traces

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
)

// traceSynthOptions are the flags of trace synth.
type traceSynthOptions struct {
	synth.Options // with the zero and the cluster after check
	recipe        string
	start, out    string
	json          bool

	given func(flag string) bool
}

func newTraceSynthCmd() *cobra.Command {
	var o traceSynthOptions
	cmd := &cobra.Command{
		Use:   "synth --days N --out FILE",
		Short: "Generate a trace that resembles a published one",
		Long: `Synth draws a trace from published statistics: durations, GPUs and GPU-time by
size, batches (sweeps) or recurring jobs, daily and weekly arrivals, users,
tenants and status. The trace is labelled synthetic, and so is every result
computed from it. The same options give the same trace. Profiles:

` + profileHelp() + `
--load sets the offered load: the requested GPU-time over the capacity of --nodes
of --gpus-per-node. At 0.8 jobs seldom queue, above 1 they must. --job-count sets their
number instead. Without either the profile's own rate counts. Given a cluster, no
job is wider than it, and the file names it: commands that replay the trace need no
--nodes.

A few jobs run for weeks, as they do in reality. --max-duration keeps them from
dominating a short trace.

--recipe composes a trace of parts instead: jobs of a profile at a load, bursts of equal
jobs, each on some days. The recipe has all but the cluster; --seed draws another
trace of it.`,
		Example: `  autosched trace synth --profile philly --days 14 --load 1.2 --nodes 70 --gpus-per-node 8 --seed 1 --out philly-like.csv.gz
  autosched trace synth --profile pai --days 7 --job-count 5000 --seed 3 -o pai-like.csv.gz
  autosched trace synth --days 3 --job-count 2000 --max-duration 96h | autosched trace stats -
  autosched trace synth --recipe examples/scenarios.json:flash-crowd --nodes 20 --seed 7 -o crowd-7.csv.gz`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage(fmt.Errorf("trace synth takes no argument, but got %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			w, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return writeAndShow(cmd, o.out, o.json, w, o.Cluster.Groups)
		},
	}
	o.add(cmd)
	return cmd
}

func (o *traceSynthOptions) add(cmd *cobra.Command) {
	o.given = cmd.Flags().Changed
	f := cmd.Flags()
	f.StringVar(&o.recipe, "recipe", "", "FILE:NAME, a recipe of a JSON file of scenarios, instead of a profile")
	f.StringVar(&o.Profile, "profile", "philly",
		"published cluster to resemble: one of "+strings.Join(synth.Profiles(), ", "))
	f.IntVar(&o.Days, "days", 7, "days of arrivals")
	f.IntVar(&o.Jobs, "job-count", 0, "number of jobs (default: the profile's rate)")
	f.Float64Var(&o.Load, "load", 0, "offered load on the cluster, instead of --job-count")
	f.DurationVar(&o.MaxDuration, "max-duration", 0, "longest job (default: the profile's)")
	f.Uint64Var(&o.Seed, "seed", 1, "")
	f.StringVar(&o.start, "start", "2017-10-09",
		"date or RFC 3339 time of the first instant, a Monday by default")
	f.BoolVar(&o.json, "json", false, "")
	f.StringVarP(&o.out, "out", "o", "-", "file to write, compressed if it ends in .gz or .zst, - for standard output")
	cli.ClusterFlags(cmd, &o.Cluster)
}

func (o *traceSynthOptions) check() error {
	if err := checkOut("synth", o.out, o.json); err != nil {
		return err
	}
	var err error
	if o.Zero, err = time.Parse(time.DateOnly, o.start); err != nil {
		if o.Zero, err = time.Parse(time.RFC3339, o.start); err != nil {
			return cli.Usage(fmt.Errorf("--start: %q is neither a date (2017-10-09) nor an RFC 3339 time", o.start))
		}
	}
	if o.recipe != "" {
		for _, name := range []string{"profile", "days", "job-count", "load", "max-duration"} {
			if o.given(name) {
				return cli.Usage(fmt.Errorf("--recipe and --%s: the recipe has that; drop one", name))
			}
		}
		if o.Cluster.Nodes() == 0 {
			return cli.Usage(fmt.Errorf("--recipe needs --nodes, the cluster that its loads refer to"))
		}
	}
	if o.Cluster.Nodes() == 0 { // no cluster: --gpus-per-node has a default
		o.Cluster = workload.Cluster{}
	}
	return nil
}

// run draws the trace. Progress goes to notes.
func (o *traceSynthOptions) run(ctx context.Context, notes io.Writer) (*workload.Workload, error) {
	if o.recipe != "" {
		return o.fromRecipe(ctx)
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	options := o.Options
	options.Progress = func(jobs int) { line.Show("%d jobs drawn", jobs) }
	w, err := synth.Generate(ctx, options)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, cli.Usage(err)
	}
	return w, nil
}

func (o *traceSynthOptions) fromRecipe(ctx context.Context) (*workload.Workload, error) {
	r, name, err := readRecipe(o.recipe)
	if err != nil {
		return nil, err
	}
	if o.given("seed") {
		r.Seed = o.Seed
	}
	return r.Generate(ctx, name, o.Zero, o.Cluster)
}

func profileHelp() string {
	var b strings.Builder
	for _, name := range synth.Profiles() {
		fmt.Fprintf(&b, "  %-7s %s\n", name, synth.Title(name))
	}
	return b.String()
}
