package waste

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/act"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// recommendOptions are the flags of recommend.
type recommendOptions struct {
	scan    patternsScanOptions
	replay  cli.ReplayFlags // for simulations
	config  cli.ConfigFlags
	site    cli.SiteFlag
	tariff  cli.TariffFlags
	windows int
	actions string
	service string
}

func newRecommendCmd() *cobra.Command {
	o := &recommendOptions{}
	cmd := patternsScanCommand(&o.scan)
	cmd.Use, cmd.Short = "recommend", "Rank what to do about the waste of a cluster, with its simulated effect"
	cmd.Long = `Scans a trace and telemetry as 'autosched patterns scan' does and ranks what to do: by
the GPU-hours a month that it frees or uses more in simulation, and after that by those that are wasted.
Cancelling idle jobs and right-sizing those that hoard, an hour after they were found,
holding keys that crash, replacing stragglers and full clocks of throttled GPUs are
simulated: windows of the trace run with and without, under one scheduler and the
configuration that runs (--site, --config, --preset, --set).

Where the action is another configuration, the one of shortest waits is chosen on every other window,
of presets and single changes that keep the guards, and compared with what runs on the
rest. Guards are those of 'autosched evaluate'. If it keeps them there and waits are shorter beyond
chance, the command that applies it follows: a pin in the service, whose scheduler
--service names, or a change of slurm.conf with --site. Other advice says that it was not
simulated.

With --power, --prices or --carbon, the energy of jobs counts as well. With --actions, advice has the
site's command for its largest finding, which is not run.`
	cmd.Example = `  autosched recommend --trace sacct.psv --nodes 40 --telemetry gpus.csv.zst --price 2
  autosched recommend --trace sacct.psv --site site --conf-out tuned.conf
  autosched recommend --trace sample --nodes 20 --service prod --json`
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return cli.Show(cmd.OutOrStdout(), o.scan.json, "recommendations/v1", r, r.print)
	}
	o.config.Add(cmd)
	o.site.Add(cmd)
	o.site.AddOut(cmd)
	o.tariff.Add(cmd)
	o.replay.Given, o.replay.Placement = cmd.Flags().Changed, "fewest"
	fl := cmd.Flags()
	fl.StringVar(&o.replay.Scheduler, "scheduler", "fifo", "scheduler to simulate")
	fl.IntVar(&o.windows, "windows", 20, "windows of the trace to simulate at most, a day or longer each")
	fl.Uint64Var(&o.replay.Seed, "seed", 1, "seed of the intervals")
	fl.StringVar(&o.actions, "actions", "", "YAML file of the site's commands for actions, to print them")
	fl.StringVar(&o.service, "service", "", "name of the scheduler in the service, for the commands that are printed")
	return cmd
}

func (o *recommendOptions) check() error {
	if o.scan.trace == "" {
		return cli.Usage(errors.New("--trace is missing: name a trace"))
	}
	if o.windows < 1 {
		return cli.Usage(fmt.Errorf("--windows: %d is not positive", o.windows))
	}
	if o.site.Dir != "" && o.service != "" {
		return cli.Usage(errors.New("--site and --service exclude each other: the change is one of slurm.conf, or a pin " +
			"in the service"))
	}
	if schedulers.Defers(o.replay.Scheduler) {
		return cli.Usage(fmt.Errorf("--scheduler: %s defers jobs, which is not simulated here", o.replay.Scheduler))
	}
	o.replay.ClusterFile = o.scan.described
	if err := o.site.Use(&o.replay, &o.config, &cli.RecordedFlag{}); err != nil {
		return err
	}
	o.scan.described = o.replay.ClusterFile
	if _, _, err := o.replay.Configured(&o.config); err != nil {
		return err
	}
	return o.scan.check()
}

// recommendations is the result.
type recommendations struct {
	Trace     string             `json:"trace"`
	Scheduler string             `json:"scheduler"`
	Advice    []recommend.Advice `json:"advice"`
	Examined  []string           `json:"examined"`
	Rules     []string           `json:"rules"`
	Lacking   []string           `json:"lacking"` // inputs of the rules that were not examined
	Notes     []string           `json:"notes"`

	site *cli.SiteFlag
}

func (o *recommendOptions) run(ctx context.Context, notes io.Writer) (*recommendations, error) {
	var rules *patterns.RuleSet
	var commands *act.Commands
	if o.actions != "" {
		var err error
		if rules, err = cli.ReadRules("--rules", o.scan.rules, nil); err != nil {
			return nil, err
		}
		if commands, err = readActions(o.actions, rules); err != nil {
			return nil, err
		}
	}
	var tariff *energy.Tariff
	if o.tariff.Given() {
		var err error
		if tariff, err = o.tariff.Read(); err != nil {
			return nil, err
		}
	}
	found, err := o.scan.run(ctx, notes)
	if err != nil {
		return nil, err
	}
	w, _, err := cli.OpenTrace(ctx, io.Discard, o.scan.trace, o.scan.how)
	if err != nil {
		return nil, err
	}
	r := recommend.Options{Trace: w, Windows: o.windows, Seed: o.replay.Seed, Price: o.scan.price, Commands: commands,
		Rules: rules, Service: o.service}
	if err := o.simulation(&r, w, tariff); err != nil {
		return nil, err
	}
	advice, err := recommend.Advise(ctx, r, found.Findings)
	if err != nil {
		return nil, err
	}
	return &recommendations{Trace: w.Name(), Scheduler: o.replay.Scheduler, Advice: advice, Examined: found.Examined,
		Rules: found.Rules, Lacking: found.Lacking, Notes: found.Notes, site: &o.site}, nil
}

// simulation fills in the cluster, scheduler, configuration and settings of the simulation.
func (o *recommendOptions) simulation(r *recommend.Options, w *workload.Workload, t *energy.Tariff) (err error) {
	in := &cli.ReplayInput{Trace: w}
	in.From, in.To = w.Span()
	in.To++ // the last submission counts
	if in.Scheduler, r.Running, err = o.replay.Configured(&o.config); err != nil {
		return err
	}
	if in.Options, err = o.replay.Simulate(); err != nil {
		return err
	}
	o.replay.Cluster = o.scan.cluster
	if len(o.scan.cluster.Groups) > 0 {
		if err = o.tariff.Measure(t, in, o.scan.cluster, io.Discard); err != nil {
			return err
		}
	}
	r.Cluster, r.Scheduler, r.Simulation = o.scan.cluster, in.Scheduler, in.Options
	if o.site.Dir != "" {
		r.Change = func(ctx context.Context, to space.Config) (*replay.SettingsChange, error) {
			return o.site.Change(ctx, in, &o.replay, r.Running, to)
		}
	}
	return nil
}
