package waste

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// recommendOptions are the flags of recommend.
type recommendOptions struct {
	scan    patternsScanOptions
	history cli.HistoryFlags
	goal    cli.GoalFlags
	tariff  cli.TariffFlags
	windows int
	service string

	inForce space.Config // after check
	aim     round.Goal   // after check
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

Last it says whether the settings should change, by the rule of 'autosched evaluate': if
so, the command that applies it follows: a pin in the service, whose scheduler --service
names, or a change of slurm.conf with --site. Where the simulation does not describe the
history, it ends with an error. Other advice says that it was not simulated.

With --power, --prices or --carbon, the energy of jobs counts as well.`
	cmd.Example = `  autosched recommend --trace sacct.psv --nodes 40 --telemetry gpus.csv.zst --price 2
  autosched recommend --trace sacct.psv --site site --conf-out tuned.conf
  autosched recommend --trace sample --nodes 20 --service prod --json`
	cmd.RunE = cli.Report(&o.scan.json, "recommendations/v1", o.check, o.run, (*recommendations).print)
	o.history.AddBeside(cmd)
	o.history.AddNodeEvents(cmd)
	o.history.AddConclusion(cmd)
	o.history.Site.AddOut(cmd)
	o.goal.Add(cmd)
	o.tariff.Add(cmd)
	fl := cmd.Flags()
	fl.IntVar(&o.windows, "most-windows", 20, "windows of the trace to simulate at most, a day or longer each")
	fl.StringVar(&o.service, "service", "", "name of the scheduler in the service, for the commands that are printed")
	return cmd
}

func (o *recommendOptions) check() error {
	if o.scan.trace == "" {
		return cli.Usage(errors.New("--trace is missing: name a trace"))
	}
	if o.windows < 1 {
		return cli.Usage(fmt.Errorf("--most-windows: %d is not positive", o.windows))
	}
	if o.history.Site.Dir != "" && o.service != "" {
		return cli.Usage(errors.New("--site and --service exclude each other: the change is one of slurm.conf, or a pin " +
			"in the service"))
	}
	if schedulers.Defers(o.history.Scheduler) {
		return cli.Usage(fmt.Errorf("--scheduler: %s defers jobs, which is not simulated here", o.history.Scheduler))
	}
	o.history.Trace, o.history.Cluster, o.history.ClusterFile = o.scan.trace, o.scan.cluster, o.scan.described
	if !o.scan.given("gpus-per-node") {
		o.history.Cluster.Groups[0].GPUsPerNode = 0 // as the history shows
	}
	var err error
	if _, o.inForce, err = o.history.Check(); err != nil {
		return err
	}
	if o.aim, err = o.goal.Goal(); err != nil {
		return err
	}
	if metric := o.aim.Metered(); metric != "" && !o.tariff.Given() {
		return cli.Usage(fmt.Errorf("--objective, --subject-to: %s: %w", metric, round.ErrNoMeter))
	}
	o.scan.described = o.history.ClusterFile
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
	// Verdict is whether other settings are better, absent where nothing was simulated. Settings are the change of the
	// site's, Apply the commands that check, apply and take it back.
	Verdict  *replay.Verdict        `json:"verdict,omitempty"`
	Settings *replay.SettingsChange `json:"settings,omitempty"`
	Apply    []string               `json:"apply,omitempty"`

	site      *cli.SiteFlag
	synthetic bool
}

func (o *recommendOptions) run(ctx context.Context, notes io.Writer) (*recommendations, error) {
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
	out := &recommendations{Trace: w.Name(), Scheduler: o.history.Scheduler, Examined: found.Examined,
		Rules: found.Rules, Lacking: found.Lacking, Notes: found.Notes, site: &o.history.Site,
		synthetic: w.Synthetic()}
	r := recommend.Options{Trace: w, Windows: o.windows, Seed: o.history.Seed, Price: o.scan.price}
	if len(o.scan.cluster.Groups) > 0 {
		if err := o.simulation(ctx, &r, out, tariff, notes); err != nil {
			return nil, err
		}
	}
	if out.Advice, err = recommend.Advise(ctx, r, found.Findings); err != nil {
		return nil, err
	}
	return out, o.scan.plot.Write(out.page)
}

// simulation fills in the simulation and whether other settings are better, on a history that the simulation describes.
func (o *recommendOptions) simulation(ctx context.Context, r *recommend.Options, out *recommendations,
	t *energy.Tariff, notes io.Writer) error {
	in, err := o.history.Load(ctx, io.Discard)
	if err != nil {
		return err
	}
	if err := o.tariff.Measure(t, in, o.history.Cluster, io.Discard); err != nil {
		return err
	}
	r.Trace, r.From, r.Warmup = in.Trace.Window(in.From-in.Warmup, in.To), in.From, in.Warmup
	r.Cluster, r.Scheduler, r.Running, r.Simulation = o.history.Cluster, in.Scheduler, o.inForce, in.Options
	graded, err := o.history.Grade(ctx, in, in.Window(), in.Scheduler, o.inForce)
	if err != nil {
		return err
	}
	out.Verdict, err = o.history.Ask(ctx, in, replay.AskOptions{Goal: o.aim, InForce: o.inForce, Fidelity: graded},
		notes)
	if err != nil || !out.Verdict.Change {
		return err
	}
	if out.Settings, err = o.history.Site.Change(ctx, in, &o.history.ReplayFlags, o.inForce,
		out.Verdict.Configuration); err != nil {
		return err
	}
	if out.Settings != nil {
		out.Apply = out.Settings.Commands
		return nil
	}
	name, sets := cmp.Or(o.service, "SCHEDULER"), []string{}
	for _, c := range out.Verdict.Changes {
		if c.To != "" {
			sets = append(sets, "--set", c.Parameter+"="+c.To)
		}
	}
	line := func(words ...string) string {
		return units.Command(append([]string{"autosched", "scheduler"}, words...))
	}
	out.Apply = []string{line(append([]string{"what-if", name}, sets...)...),
		line(append(append([]string{"config", "pin", name}, sets...), "--reason", "autosched recommend")...),
		line("config", "unpin", name)}
	return nil
}

func (r *recommendations) print(w io.Writer) error {
	if len(r.Advice) == 0 {
		table.Strong(w, r.Trace+": "+verdict(r.Examined, r.Rules, r.Lacking))
	}
	for i := range r.Advice {
		a := &r.Advice[i]
		fmt.Fprintf(w, "%d. %s: %s, confidence %.2f", i+1, a.Rule, units.Plural(a.Findings, "finding"), a.Confidence)
		if a.Monthly > 0 {
			fmt.Fprintf(w, ", %.1f GPU-hours a month wasted", a.Monthly)
		}
		if a.Cost > 0 {
			fmt.Fprintf(w, " (%.2f)", a.Cost)
		}
		fmt.Fprintln(w)
		table.Prose(w, "   ", a.Words)
		switch {
		case a.Reconfigures && r.Verdict != nil:
			fmt.Fprintln(w, "   Whether other settings are better is said below.")
		case a.Simulated == nil:
			fmt.Fprintln(w, "   Not simulated.")
		default:
			r.printEffect(w, a)
		}
	}
	if r.Verdict != nil {
		if err := r.printVerdict(w); err != nil {
			return err
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	return nil
}

// printVerdict prints whether other settings are better, and how to apply them.
func (r *recommendations) printVerdict(w io.Writer) error {
	fmt.Fprintln(w, "\nThe settings:")
	if err := cli.PrintVerdict(w, r.Verdict); err != nil {
		return err
	}
	if r.Settings != nil || len(r.Apply) == 0 {
		return r.site.PrintChange(w, r.Settings)
	}
	for k, line := range r.Apply {
		fmt.Fprintf(table.Whole(w), "   %s %s\n", []string{"Check:    ", "Apply:    ", "Take back:"}[k], line)
	}
	return nil
}

// printEffect prints the simulated effect of advice.
func (r *recommendations) printEffect(w io.Writer, a *recommend.Advice) {
	e, m := a.Simulated, a.Effect
	fmt.Fprintf(w, "   Simulated, it frees %.1f GPU-hours a month more (95 %% %.1f to %.1f)", m.GPUHours.Mean,
		m.GPUHours.Low, m.GPUHours.High)
	if m.Cost != nil {
		fmt.Fprintf(w, ", worth %.2f (%.2f to %.2f)", m.Cost.Mean, m.Cost.Low, m.Cost.High)
	}
	fmt.Fprintln(w, ".")
	if m.Energy != nil {
		fmt.Fprintf(w, "   Energy of jobs %+.1f kWh a month (95 %% %+.1f to %+.1f), its cost %+.2f $, CO2 %+.1f kg.\n",
			m.Energy.Mean, m.Energy.Low, m.Energy.High, m.EnergyCost, m.CO2)
	}
	fmt.Fprintf(w, "   Under %s over %s: utilisation %.3f to %.3f (%+.1f %%, 95 %% %+.1f to %+.1f), "+
		"mean wait %.0f s to %.0f s;\n   jobs wait longer in %s.\n", r.Scheduler, units.Plural(e.Windows, "window"),
		e.Before.Utilization, e.After.Utilization, 100*e.Gain, 100*e.Low, 100*e.High, e.Before.WaitS, e.After.WaitS,
		units.Plural(e.Longer, "window"))
	for _, g := range []struct {
		name    string
		was, is float64
		of      recommend.Tenants
	}{{"Small", e.Before.SmallWaitS, e.After.SmallWaitS, e.Small},
		{"Large", e.Before.LargeWaitS, e.After.LargeWaitS, e.Large}} {
		if n := g.of.Shorter + g.of.Longer + g.of.Equal; n > 0 {
			fmt.Fprintf(w, "   %s tenants: mean wait %.0f s to %.0f s; of %d, %d wait shorter and %d longer.\n", g.name,
				g.was, g.is, n, g.of.Shorter, g.of.Longer)
		}
	}
	fmt.Fprintf(w, "   Jain's index of the tenants' stretch %.3f to %.3f, of their shares %.3f to %.3f.\n",
		e.Before.Jain, e.After.Jain, e.Before.JainShares, e.After.JainShares)
}
