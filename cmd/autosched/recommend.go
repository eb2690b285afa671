package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/act"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	kept "github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/space"
)

// recommendOptions are the flags of recommend.
type recommendOptions struct {
	scan    patternsScanOptions
	replay  replayFlags // what of it simulations use
	config  configFlag
	site    siteFlag
	tariff  tariffFlags
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
		return show(cmd.OutOrStdout(), o.scan.json, "recommendations/v1", r, r.print)
	}
	o.config.add(cmd)
	o.site.addOut(cmd)
	o.tariff.add(cmd)
	o.replay.given, o.replay.placement = cmd.Flags().Changed, "fewest"
	fl := cmd.Flags()
	fl.StringVar(&o.replay.scheduler, "scheduler", "fifo", "scheduler to simulate")
	fl.IntVar(&o.windows, "windows", 20, "windows of the trace to simulate at most, a day or longer each")
	fl.Uint64Var(&o.replay.seed, "seed", 1, "seed of the intervals")
	fl.StringVar(&o.actions, "actions", "", "YAML file of the site's commands for actions, to print them")
	fl.StringVar(&o.service, "service", "", "name of the scheduler in the service, for the commands that are printed")
	return cmd
}

func (o *recommendOptions) check() error {
	if o.scan.trace == "" {
		return usageError{errors.New("--trace is missing: name a trace")}
	}
	if o.windows < 1 {
		return usageError{fmt.Errorf("--windows: %d is not positive", o.windows)}
	}
	if o.site.dir != "" && o.service != "" {
		return usageError{errors.New("--site and --service exclude each other: the change is one of slurm.conf, or a pin " +
			"in the service")}
	}
	if schedulers.Defers(o.replay.scheduler) {
		return usageError{fmt.Errorf("--scheduler: %s defers jobs, which is not simulated here", o.replay.scheduler)}
	}
	o.replay.described = o.scan.described
	if err := o.site.use(&o.replay, &o.config, &recordedFlag{}); err != nil {
		return err
	}
	o.scan.described = o.replay.described
	if _, _, err := o.replay.configured(&o.config); err != nil {
		return err
	}
	return o.scan.check()
}

// advice is what to do about the findings of a rule.
type advice struct {
	Rule       string  `json:"rule"`
	Action     string  `json:"action"`
	Words      string  `json:"words"` // of the largest finding
	Findings   int     `json:"findings"`
	Confidence float64 `json:"mean_confidence"`
	// Monthly and Cost are what findings say is wasted.
	Monthly float64 `json:"gpu_hours_a_month"`
	Cost    float64 `json:"cost_a_month,omitempty"`
	// Effect is Simulated by the month.
	Effect    *monthlyEffect    `json:"effect_a_month,omitempty"`
	Simulated *recommend.Effect `json:"simulated,omitempty"`
	reconfiguration
	// Command is the site's, for the largest finding; NoCommand says what it lacks.
	Command   []string `json:"command,omitempty"`
	NoCommand string   `json:"no_command,omitempty"`
}

// monthlyEffect is what an action changes in a month. GPUHours are no longer held without use, or, of another
// configuration, used more before the ends of windows.
type monthlyEffect struct {
	GPUHours recommend.Interval  `json:"gpu_hours"`
	Cost     *recommend.Interval `json:"cost,omitempty"` // of these, with --price
	// With --power, --prices or --carbon, what jobs draw more above idle nodes.
	Energy     *recommend.Interval `json:"energy_kwh_more,omitempty"`
	EnergyCost float64             `json:"energy_cost_more,omitempty"`
	CO2        float64             `json:"co2_kg_more,omitempty"`
}

// reconfiguration is another configuration.
type reconfiguration struct {
	// Configuration is what Simulated has in place of the one that runs; Set are its values that differ.
	Configuration string         `json:"configuration,omitempty"`
	Set           []string       `json:"set,omitempty"`
	Guards        *replay.Guards `json:"guards,omitempty"`
	// Apply are the commands that check, apply and take it back, and Settings the change of slurm.conf. Withheld says
	// why there are none.
	Apply    []string               `json:"apply,omitempty"`
	Settings *replay.SettingsChange `json:"settings,omitempty"`
	Withheld string                 `json:"withheld,omitempty"`

	config space.Config
}

// recommendations is the result.
type recommendations struct {
	Trace     string   `json:"trace"`
	Scheduler string   `json:"scheduler"`
	Advice    []advice `json:"advice"`
	Examined  []string `json:"examined"`
	Rules     []string `json:"rules"`
	Lacking   []string `json:"lacking"` // inputs of the rules that were not examined
	Notes     []string `json:"notes"`

	site *siteFlag
}

func (o *recommendOptions) run(ctx context.Context, notes io.Writer) (*recommendations, error) {
	var rules *patterns.RuleSet
	var commands *act.Commands
	if o.actions != "" {
		var err error
		if rules, err = readRules("--rules", o.scan.rules, nil); err != nil {
			return nil, err
		}
		if commands, err = readActions(o.actions, rules); err != nil {
			return nil, err
		}
	}
	var tariff *energy.Tariff
	if o.tariff.given() {
		var err error
		if tariff, err = o.tariff.read(); err != nil {
			return nil, err
		}
	}
	found, err := o.scan.run(ctx, notes)
	if err != nil {
		return nil, err
	}
	w, _, err := openTrace(ctx, io.Discard, o.scan.trace, o.scan.how)
	if err != nil {
		return nil, err
	}
	sim, err := o.simulation(w, tariff)
	if err != nil {
		return nil, err
	}
	out := &recommendations{Trace: w.Name(), Scheduler: o.replay.scheduler, Advice: []advice{},
		Examined: found.Examined, Rules: found.Rules, Lacking: found.Lacking, Notes: found.Notes,
		site: &o.site}
	first, last := w.Span()
	months := max(1, (last-first).Hours()/24) / 30
	byRule := map[string][]patternsFinding{}
	for _, f := range found.Findings { // most wasted first
		byRule[f.Rule] = append(byRule[f.Rule], f)
	}
	for _, rule := range sortedKeys(byRule) {
		list := byRule[rule]
		a := advice{Rule: rule, Action: list[0].Action, Words: list[0].Words, Findings: len(list)}
		for _, f := range list {
			a.Confidence += f.Confidence / float64(len(list))
			a.Monthly += f.WastedGPUHours / months
			a.Cost += f.Cost / months
		}
		if kept.Reconfigures(a.Action) {
			err = sim.reconfigure(ctx, &a)
		} else {
			err = sim.act(ctx, &a, list)
		}
		if err != nil {
			return nil, err
		}
		if commands != nil && commands.Has(a.Action) {
			f := &patterns.Finding{Rule: rule, Action: a.Action, Entity: list[0].Entity, Job: list[0].Job,
				Node: list[0].Node, WastedGPUHours: list[0].WastedGPUHours}
			if a.Command, err = commands.Render(a.Action, act.Values(f, ruleGroups(rules, rule))); err != nil {
				a.NoCommand = err.Error()
			}
		}
		out.Advice = append(out.Advice, a)
	}
	slices.SortStableFunc(out.Advice, func(a, b advice) int {
		switch {
		case a.Effect != nil && b.Effect != nil:
			return cmp.Compare(b.Effect.GPUHours.Mean, a.Effect.GPUHours.Mean)
		case a.Effect != nil:
			return -1
		case b.Effect != nil:
			return 1
		}
		return cmp.Compare(b.Monthly, a.Monthly)
	})
	return out, nil
}
