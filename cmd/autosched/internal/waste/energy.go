package waste

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// readZoned reads a file, which may be compressed, with the zone of the flags.
func readZoned[T any](f *cli.TariffFlags, path string,
	read func(io.Reader, string, *time.Location) (*T, error)) (*T, error) {
	zone, err := trace.ParseZone(f.Zone)
	if err != nil {
		return nil, err
	}
	in, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return read(in, path, zone)
}

func newEnergyCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "energy", Short: "Report the energy, cost and carbon of a cluster's jobs"}
	cmd.AddCommand(newEnergyReportCmd(), newEnergySleepCmd())
	return cmd
}

// energyReportOptions are the flags of energy report.
type energyReportOptions struct {
	replay   cli.ReplayFlags
	config   cli.ConfigFlags
	tariff   cli.TariffFlags
	measured string
	facility bool
	gpus     []string // files of telemetry
	read     cli.TelemetryFlags
	until    string
	plot     string
	jobs     string
	top      int

	simulated bool
	start     space.Config // after check
}

func newEnergyReportCmd() *cobra.Command {
	var o energyReportOptions
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report the energy, cost and carbon of a trace as recorded or simulated",
		Long: `Reports the energy at the facility's meter, what it costs and its CO2, of jobs, tenants,
idle nodes and the cluster. Without --scheduler and a configuration the jobs ran when the
trace says; with them they are simulated on a cluster that starts empty.

A GPU draws its idle power, more with a context, and up to its limit by utilisation; a
node adds its parts; PUE makes it the facility's. All constants are built in with their
sources, are printed, and --power replaces them. low and high take every constant at its
end. --measured has the power that was measured, which takes the model's place; --telemetry
that of the GPUs of jobs, whose energy counters are taken where samples have them.

Jobs have the power of the GPUs that they hold with their share of the node; idle is
the rest. SCI is the emissions with those of making the hardware, by unit of work; EDP
the energy times the mean JCT. On nodes that are always on, another order of the same jobs
changes next to nothing: compare over the same horizon (--idle-until).`,
		Example: `  autosched energy report --trace sample --nodes 20 --gpus-per-node 8 --scheduler tiresias
  autosched energy report --trace sample --nodes 20 --scheduler fifo --set backfill=true --power examples/energy/power.yaml \
      --prices examples/energy/prices.csv --carbon examples/energy/carbon.csv --plot energy.html
  autosched energy report --trace sacct.psv --power power.yaml --prices prices.csv --carbon carbon.csv --carbon-zone DE`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.simulated = cmd.Flags().Changed("scheduler") || o.config.Given()
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.replay.JSON, "energy-report/v1", r,
				func(w io.Writer) error { return r.print(w, o.top) })
		},
	}
	o.replay.Add(cmd)
	o.replay.AddTo(cmd)
	o.replay.AddNodeEvents(cmd)
	o.config.Add(cmd)
	o.tariff.Add(cmd)
	o.tariff.AddDeferrable(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.measured, "measured", "",
		"CSV file of ts,watts: the measured power of all nodes, which takes the model's place")
	o.read.Add(cmd)
	fl.StringArrayVar(&o.gpus, "telemetry", nil, "")
	fl.BoolVar(&o.facility, "facility-meter", false, "--measured is the facility's meter: PUE does not count again")
	fl.StringVar(&o.until, "idle-until", "", "count idle nodes until this instant, if it is after the last end (as --to)")
	fl.StringVar(&o.plot, "plot", "", "")
	fl.StringVar(&o.jobs, "jobs-out", "", "")
	fl.IntVar(&o.top, "top", 15, "")
	return cmd
}

// check checks all that needs no trace.
func (o *energyReportOptions) check() error {
	if err := cmp.Or(cli.CheckPlot(o.plot, ".png", ".svg", ".html"),
		cli.CheckInstant("idle-until", o.until)); err != nil {
		return err
	}
	if err := o.tariff.Check(o.replay.Scheduler); err != nil {
		return err
	}
	switch {
	case o.facility && o.measured == "":
		return cli.Usage(errors.New("--facility-meter: is said of --measured, which is missing"))
	case len(o.gpus) > 0 && o.simulated:
		return cli.Usage(errors.New("--telemetry: is of jobs as they ran: leave out --scheduler and --set"))
	case o.top < 1:
		return cli.Usage(fmt.Errorf("--top: %d is not positive", o.top))
	}
	var err error
	_, o.start, err = o.replay.Configured(&o.config)
	return err
}

// run computes the report and writes the files that flags name.
func (o *energyReportOptions) run(ctx context.Context, notes io.Writer) (*energyReport, error) {
	t, err := o.tariff.Read()
	if err != nil {
		return nil, err
	}
	var measured *energy.Measured
	if o.measured != "" {
		if measured, err = readZoned(&o.tariff, o.measured, energy.ReadMeasured); err != nil {
			return nil, fmt.Errorf("--measured: %w", err)
		}
		measured.Facility = o.facility
	}
	in, err := o.replay.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	w := in.Trace.Window(in.From, in.To)
	if w.Len() == 0 {
		return nil, fmt.Errorf("no job of %s is submitted between --from and --to", in.Trace.Name())
	}
	x := &energy.Input{Cluster: o.replay.Cluster, Nodes: in.Options.Nodes, Zero: in.Trace.Zero(), From: in.From,
		Measured: measured}
	if o.until != "" {
		if x.To, err = trace.ParseInstant(in.Trace, o.until); err != nil {
			return nil, cli.Usage(fmt.Errorf("--idle-until: %w", err))
		}
	}
	r := &energyReport{Trace: in.Trace.Name(), Synthetic: in.Trace.Synthetic(), Size: o.replay.Cluster.String()}
	if o.simulated {
		r.Scheduler, r.Configuration = in.Scheduler.Name, &o.start
		if r.Sleep, r.Deferred, err = o.simulate(ctx, notes, t, in, w, x); err != nil {
			return nil, err
		}
	} else if x.Jobs, x.Spells, err = energy.Recorded(w); err != nil {
		return nil, fmt.Errorf("%s: %w", in.Trace.Name(), err)
	}
	if len(o.gpus) > 0 {
		joiner := telemetry.NewJoiner(w, o.replay.Cluster)
		var m energy.GPUMeter
		if groups := o.replay.Cluster.Groups; len(groups) > 0 {
			if m.Watts, err = t.Assumptions.GPUWatts(groups[0].GPUModel); err != nil {
				return nil, err
			}
		}
		if x.GPUs, err = o.readGPUs(ctx, notes, joiner, &m); err != nil {
			return nil, err
		}
		r.Joins = joiner.Report()
	}
	x.Cover()
	if r.Report, err = t.Account(x); err != nil {
		return nil, err
	}
	for _, note := range r.Notes {
		fmt.Fprintf(notes, "note: %s\n", note)
	}
	if len(o.gpus) > 0 && r.MeasuredGPUHours == 0 {
		fmt.Fprintln(notes, "note: --telemetry: no sample of a whole GPU with power or energy is joined to a job of the trace: "+
			"the model holds")
	}
	if o.jobs != "" {
		if err := cli.WriteFile(o.jobs, "--jobs-out", r.WriteJobs); err != nil {
			return nil, err
		}
	}
	if o.plot != "" {
		return r, cli.WritePlot(o.plot, r.page())
	}
	return r, nil
}

// readGPUs integrates the power of the GPUs of jobs.
func (o *energyReportOptions) readGPUs(ctx context.Context, notes io.Writer,
	joiner *telemetry.Joiner, m *energy.GPUMeter) (map[string]energy.GPUEnergy, error) {
	opts, err := o.read.Options()
	if err != nil {
		return nil, err
	}
	for _, path := range o.gpus {
		stats, err := telemetry.ReadFile(ctx, path, opts, telemetry.Visit{GPU: func(s *telemetry.GPUSample) error {
			s.Job, _ = joiner.Join(s)
			m.Add(s)
			return nil
		}})
		if err == nil {
			err = stats.Nothing()
		}
		if err != nil {
			return nil, fmt.Errorf("--telemetry: %w", err)
		}
		if stats.Rejected > 0 {
			fmt.Fprintf(notes, "note: %d of %d rows of %s rejected, first %s; see 'autosched telemetry validate'\n",
				stats.Rejected, stats.Rows, path, stats.First[0])
		}
	}
	if err := joiner.Nothing(); err != nil {
		return nil, fmt.Errorf("--telemetry: %w", err)
	}
	r := joiner.Report()
	for _, line := range append(r.Lines, r.Left...) {
		fmt.Fprintf(notes, "note: --telemetry: %s\n", line)
	}
	if m.Modelled > 0 {
		fmt.Fprintf(notes, "note: --telemetry: %.1f GPU-hours without power or energy are modelled by SM activity, %.1f of "+
			"them by utilisation, which says too much of GPUs that wait for their host\n", m.Modelled, m.ByUtilization)
	}
	return m.Jobs(), nil
}

// simulate fills the jobs and spells of a simulation in, and says how nodes slept and jobs were deferred.
func (o *energyReportOptions) simulate(ctx context.Context, notes io.Writer, t *energy.Tariff, in *cli.ReplayInput,
	w *workload.Workload, x *energy.Input) (*simulator.Sleep, *simulator.Deferred, error) {
	in.Options.Past = replay.Past(in.Trace, o.replay.Cluster, in.From)
	if err := o.tariff.Operate(t, in, notes); err != nil {
		return nil, nil, err
	}
	sim, err := x.Simulate(ctx, t, w, in.Scheduler.New(o.start), in.Options)
	if err != nil {
		return nil, nil, err
	}
	return sim.Sleep(), sim.Deferred(), nil
}

// energyReport is the result of energy report.
type energyReport struct {
	Trace         string        `json:"trace"`
	Synthetic     bool          `json:"synthetic"`
	Size          string        `json:"cluster_size"`
	Scheduler     string        `json:"scheduler,omitempty"` // that was simulated
	Configuration *space.Config `json:"configuration,omitempty"`
	// Sleep is absent where nodes do not sleep, Deferred where jobs are not deferred.
	Sleep    *simulator.Sleep    `json:"sleep,omitempty"`
	Deferred *simulator.Deferred `json:"deferred,omitempty"`
	// Joins says how samples of GPUs were joined to jobs.
	Joins *telemetry.JoinReport `json:"joins,omitempty"`
	*energy.Report
}
