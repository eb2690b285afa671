package main

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
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// tariffFlags name the constants and series by which power becomes energy, cost and carbon.
type tariffFlags struct {
	power, prices, carbon, grid, zone, by string
	deferrable                            []string

	marks energy.Marks // of deferrable, after check
}

func (f *tariffFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.power, "power", "", "YAML file of power, cost and carbon constants; what it omits keeps its built-in value")
	fl.StringVar(&f.prices, "prices", "",
		"CSV file of ts,price_per_mwh: electricity prices in $/MWh, each from an instant on (default: a constant)")
	fl.StringVar(&f.carbon, "carbon", "",
		"CSV file of ts,zone,g_per_kwh: carbon intensities, each from an instant on (default: a constant)")
	fl.StringVar(&f.grid, "carbon-zone", "", "zone of --carbon, if the file has several")
	fl.StringVar(&f.zone, "tariff-timezone", "UTC",
		"zone of instants without an offset in --prices and --carbon, such as Europe/Berlin")
}

// addDeferrable adds the flags of jobs that wait for cheap hours.
func (f *tariffFlags) addDeferrable(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.deferrable, "deferrable", nil,
		"jobs that may wait for cheap hours, repeatable: user=, tenant=, model=, key= or partition= and a value, or a "+
			"share of the jobs such as 0.3; for schedulers with "+schedulers.DeferSuffix)
	fl.StringVar(&f.by, "defer-by", "", "what deferrable jobs wait for: price or carbon (default: price with --prices)")
	_ = cmd.RegisterFlagCompletionFunc("defer-by", oneOf("price", "carbon"))
}

// check checks what needs no file, for the scheduler of a name.
func (f *tariffFlags) check(scheduler string) error {
	f.marks = nil
	for _, text := range f.deferrable {
		m, err := energy.ParseMark(text)
		if err != nil {
			return usageError{fmt.Errorf("--deferrable: %w", err)}
		}
		f.marks = append(f.marks, m)
	}
	defers := schedulers.Defers(scheduler)
	switch {
	case defers && len(f.marks) == 0:
		return usageError{fmt.Errorf("--deferrable is missing: %s defers jobs, so name those that may wait, such as 0.3 or "+
			"tenant=batch", scheduler)}
	case !defers && (len(f.marks) > 0 || f.by != ""):
		return usageError{fmt.Errorf("--deferrable and --defer-by are for schedulers that defer jobs: --scheduler %s%s",
			scheduler, schedulers.DeferSuffix)}
	case f.by != "" && f.by != "price" && f.by != "carbon":
		return usageError{fmt.Errorf("--defer-by: %q is neither price nor carbon", f.by)}
	case f.by == "price" && f.prices == "", f.by == "carbon" && f.carbon == "":
		return usageError{fmt.Errorf("--defer-by %s: --%s is missing", f.by,
			map[string]string{"price": "prices", "carbon": "carbon"}[f.by])}
	}
	return nil
}

// given reports whether any of the flags is.
func (f *tariffFlags) given() bool { return f.power != "" || f.prices != "" || f.carbon != "" }

// read reads what the flags name.
func (f *tariffFlags) read() (*energy.Tariff, error) {
	zone, err := trace.ParseZone(f.zone)
	if err != nil {
		return nil, usageError{fmt.Errorf("--tariff-timezone: %w", err)}
	}
	if f.grid != "" && f.carbon == "" {
		return nil, usageError{errors.New("--carbon-zone: is a zone of --carbon, which is missing")}
	}
	files := energy.Files{Power: f.power, Prices: f.prices, Carbon: f.carbon, CarbonZone: f.grid}
	t, err := files.Read(zone)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return t, nil
}

// readZoned reads a file, which may be compressed, with the zone of the flags.
func readZoned[T any](f *tariffFlags, path string,
	read func(io.Reader, string, *time.Location) (*T, error)) (*T, error) {
	zone, err := trace.ParseZone(f.zone)
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

// measure makes runs count what jobs draw; a nil tariff leaves them as they are.
func (f *tariffFlags) measure(t *energy.Tariff, in *replayInput, c workload.Cluster, notes io.Writer) error {
	if t == nil {
		return nil
	}
	meter, err := t.Meter(c, in.trace.Zero())
	if err != nil {
		return err
	}
	in.options.Meter = meter
	return f.operate(t, in, notes)
}

// operate sets what nodes that sleep and jobs that are deferred need.
func (f *tariffFlags) operate(t *energy.Tariff, in *replayInput, notes io.Writer) error {
	constant, err := t.Operate(&in.options, f.marks, f.by, in.trace.Zero())
	if constant {
		fmt.Fprintln(notes, "note: prices and carbon intensities are constant: no job is deferred")
	}
	return err
}

func newEnergyCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "energy", Short: "Report the energy, cost and carbon of a cluster's jobs"}
	cmd.AddCommand(newEnergyReportCmd(), newEnergySleepCmd())
	return cmd
}

// energyReportOptions are the flags of energy report.
type energyReportOptions struct {
	replay   replayFlags
	config   configFlag
	tariff   tariffFlags
	measured string
	facility bool
	gpus     []string // files of telemetry
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
changes next to nothing: compare over the same horizon (--until).`,
		Example: `  autosched energy report --trace sample --nodes 20 --gpus-per-node 8 --scheduler tiresias
  autosched energy report --trace sample --nodes 20 --scheduler fifo --set backfill=true --power examples/energy/power.yaml \
      --prices examples/energy/prices.csv --carbon examples/energy/carbon.csv --plot energy.html
  autosched energy report --trace sacct.psv --power power.yaml --prices prices.csv --carbon carbon.csv --carbon-zone DE`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.simulated = cmd.Flags().Changed("scheduler") || o.config.given()
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), o.replay.json, "energy-report/v1", r,
				func(w io.Writer) error { return r.print(w, o.top) })
		},
	}
	o.replay.add(cmd)
	o.replay.addTo(cmd)
	o.replay.addNodeEvents(cmd)
	o.config.add(cmd)
	o.tariff.add(cmd)
	o.tariff.addDeferrable(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.measured, "measured", "",
		"CSV file of ts,watts: the measured power of all nodes, which takes the model's place")
	fl.StringArrayVar(&o.gpus, "telemetry", nil, "file of samples of GPUs that name their jobs: what these drew takes the place "+
		"of the model's GPUs; repeat the flag for several")
	fl.BoolVar(&o.facility, "facility-meter", false, "--measured is the facility's meter: PUE does not count again")
	fl.StringVar(&o.until, "until", "", "count idle nodes until this instant, if it is after the last end (as --to)")
	fl.StringVar(&o.plot, "plot", "", "draw power, price, carbon and tenants into this .png, .svg or .html file")
	fl.StringVar(&o.jobs, "jobs-out", "", "write energy, cost and CO2 of every job to this CSV file (.gz: compressed)")
	fl.IntVar(&o.top, "top", 15, "tenants to print, most energy first")
	return cmd
}

// check checks all that needs no trace.
func (o *energyReportOptions) check() error {
	if err := cmp.Or(checkPlot(o.plot, ".png", ".svg", ".html"), checkInstant("until", o.until)); err != nil {
		return err
	}
	if err := o.tariff.check(o.replay.scheduler); err != nil {
		return err
	}
	switch {
	case o.facility && o.measured == "":
		return usageError{errors.New("--facility-meter: is said of --measured, which is missing")}
	case len(o.gpus) > 0 && o.simulated:
		return usageError{errors.New("--telemetry: is of jobs as they ran: leave out --scheduler and --set")}
	case o.top < 1:
		return usageError{fmt.Errorf("--top: %d is not positive", o.top)}
	}
	var err error
	_, o.start, err = o.replay.configured(&o.config)
	return err
}

// run computes the report and writes the files that flags name.
func (o *energyReportOptions) run(ctx context.Context, notes io.Writer) (*energyReport, error) {
	t, err := o.tariff.read()
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
	in, err := o.replay.load(ctx, notes)
	if err != nil {
		return nil, err
	}
	w := in.trace.Window(in.from, in.to)
	if w.Len() == 0 {
		return nil, fmt.Errorf("no job of %s is submitted between --from and --to", in.trace.Name())
	}
	x := &energy.Input{Cluster: o.replay.cluster, Nodes: in.options.Nodes, Zero: in.trace.Zero(), From: in.from,
		Measured: measured}
	if o.until != "" {
		if x.To, err = trace.ParseInstant(in.trace, o.until); err != nil {
			return nil, usageError{fmt.Errorf("--until: %w", err)}
		}
	}
	r := &energyReport{Trace: in.trace.Name(), Synthetic: in.trace.Synthetic(), Size: o.replay.cluster.String()}
	if o.simulated {
		r.Scheduler, r.Configuration = in.scheduler.Name, &o.start
		if r.Sleep, r.Deferred, err = o.simulate(ctx, notes, t, in, w, x); err != nil {
			return nil, err
		}
	} else if x.Jobs, x.Spells, err = energy.Recorded(w); err != nil {
		return nil, fmt.Errorf("%s: %w", in.trace.Name(), err)
	}
	if x.GPUs, err = o.readGPUs(ctx, notes); err != nil {
		return nil, err
	}
	x.Cover()
	if r.Report, err = t.Account(x); err != nil {
		return nil, err
	}
	for _, note := range r.Notes {
		fmt.Fprintf(notes, "note: %s\n", note)
	}
	if len(o.gpus) > 0 && r.MeasuredGPUHours == 0 {
		fmt.Fprintln(notes, "note: --telemetry: no sample with power or energy names a job of the trace: the model holds")
	}
	if o.jobs != "" {
		if err := writeFile(o.jobs, "--jobs-out", r.WriteJobs); err != nil {
			return nil, err
		}
	}
	if o.plot != "" {
		return r, writePlot(o.plot, r.page())
	}
	return r, nil
}

// readGPUs integrates what GPUs of jobs drew.
func (o *energyReportOptions) readGPUs(ctx context.Context, notes io.Writer) (map[string]energy.GPUEnergy, error) {
	var m energy.GPUMeter
	for _, path := range o.gpus {
		stats, err := readTelemetry(ctx, path, telemetry.Visit{GPU: func(s *telemetry.GPUSample) error {
			m.Add(s)
			return nil
		}})
		if err != nil {
			return nil, fmt.Errorf("--telemetry: %w", err)
		}
		if stats.Rejected > 0 {
			fmt.Fprintf(notes, "note: %d of %d rows of %s rejected, first %s; see 'autosched telemetry validate'\n",
				stats.Rejected, stats.Rows, path, stats.First[0])
		}
	}
	return m.Jobs(), nil
}

// simulate fills the jobs and spells of a simulation in, and says how nodes slept and jobs were deferred.
func (o *energyReportOptions) simulate(ctx context.Context, notes io.Writer, t *energy.Tariff, in *replayInput,
	w *workload.Workload, x *energy.Input) (*simulator.Sleep, *simulator.Deferred, error) {
	in.options.Past = replay.Past(in.trace, o.replay.cluster, in.from)
	if err := o.tariff.operate(t, in, notes); err != nil {
		return nil, nil, err
	}
	sim, err := x.Simulate(ctx, t, w, in.scheduler.New(o.start), in.options)
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
	*energy.Report
}
