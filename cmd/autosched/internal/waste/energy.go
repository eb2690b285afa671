// Package waste has the commands that find waste: patterns, findings, recommendations, energy.
package waste

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// readMeasured reads the measured power of the nodes, with the zone of the flags.
func (o *energyReportOptions) readMeasured() (*energy.Measured, error) {
	zone, err := trace.ParseZone(o.tariff.Zone)
	if err != nil {
		return nil, err
	}
	in, err := atomicfile.Open(o.measured)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m, err := energy.ReadMeasured(in, o.measured, zone)
	if err != nil {
		return nil, err
	}
	m.Facility = o.facility
	return m, nil
}

func newEnergyCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "energy", Short: "Report the energy, cost and carbon of a cluster's jobs"}
	cmd.AddCommand(newEnergyReportCmd())
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
	plot     cli.PlotFlag
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
		RunE: cli.Report(&o.replay.JSON, "energy-report/v1", o.check, o.run,
			func(r *energyReport, w io.Writer) error { return r.print(w, o.top) }),
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
	o.plot.Add(cmd)
	fl.StringVar(&o.jobs, "jobs-out", "", "")
	fl.IntVar(&o.top, "top", 15, "")
	return cmd
}

// check checks all that needs no trace.
func (o *energyReportOptions) check() error {
	o.simulated = o.replay.Given("scheduler") || o.config.Given()
	if err := cmp.Or(o.plot.Check(),
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
		if measured, err = o.readMeasured(); err != nil {
			return nil, fmt.Errorf("--measured: %w", err)
		}
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
	if err := o.plot.Write(func() (*chart.Page, error) { return r.page(o.top) }); err != nil {
		return nil, err
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

func (r *energyReport) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s%s on %s, %s to %s\n", r.Trace, cli.SyntheticLabel(r.Synthetic), r.Size,
		r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	if r.Scheduler != "" {
		fmt.Fprintf(w, "simulated under %s, %s\n", r.Scheduler, r.Configuration)
	} else {
		fmt.Fprintln(w, "as recorded")
	}
	fmt.Fprintln(w)
	if err := printAmounts(w, r.Report); err != nil {
		return err
	}
	if r.MeasuredGPUHours > 0 {
		fmt.Fprintf(w, "GPUs were measured in %.1f %% of the GPU-hours that jobs held; the rest is the model's\n",
			100*r.MeasuredGPUHours/r.GPUHours)
	}
	if r.Sleep != nil && r.Slept != nil {
		fmt.Fprintf(w, "nodes sleep %.1f %% of the time: %s\n", 100*r.Slept.Share, cli.SleepText(r.Sleep))
	}
	if r.Deferred != nil {
		fmt.Fprintf(w, "deferred: %s\n", cli.DeferredText(r.Deferred))
	}
	if len(r.Tenants) > 1 {
		fmt.Fprintln(w)
		if err := r.printTenants(w, top); err != nil {
			return err
		}
	}
	if r.Prices != "" || r.Intensities != "" {
		fmt.Fprintf(w, "\nprices: %s; carbon intensities: %s\n", cmp.Or(r.Prices, "a constant"),
			cmp.Or(r.Intensities, "a constant"))
	}
	fmt.Fprintf(w, "\nConstants, version %d (low, middle, high, unit: source)\n", r.Version)
	t := table.New(w, "")
	for _, x := range r.Assumptions {
		fmt.Fprintf(t, "  %s\t%g\t%g\t%g\t%s\t%s\n", x.Name, x.Low, x.Middle, x.High, cmp.Or(x.Unit, "-"), x.Source)
	}
	return t.Flush()
}

// printAmounts prints a report's sums with their band.
func printAmounts(w io.Writer, r *energy.Report) error {
	t := table.Numbers(w, "\tlow\tmiddle\thigh\t")
	row := func(name, unit string, b energy.Band) {
		fmt.Fprintf(t, "%s, %s\t%s\t%s\t%s\t\n", name, unit, cli.ThreeDigits(b.Low), cli.ThreeDigits(b.Middle),
			cli.ThreeDigits(b.High))
	}
	for _, x := range []struct {
		of string
		*energy.Amount
	}{{"cluster", &r.Cluster}, {"jobs", &r.Jobs}, {"idle", &r.Idle}} {
		row("energy of "+x.of, "kWh", x.Energy)
	}
	if r.Slept != nil {
		row("saved by sleep", "kWh", r.Slept.Saved.Energy)
	}
	row("cost of the cluster", "$", r.Cluster.Cost)
	row("cost of jobs", "$", r.Jobs.Cost)
	row("CO2 of the cluster", "kg", r.Cluster.CO2)
	row("CO2 of jobs", "kg", r.Jobs.CO2)
	row("CO2 of making the hardware", "kg", r.Embodied)
	if r.CapitalCost.High > 0 {
		row("price of GPU-hours", "$", r.CapitalCost)
	}
	row("SCI of a GPU-hour", "kg", r.SCI.GPUHour)
	row("SCI of a job", "kg", r.SCI.Job)
	row("SCI of a cluster-day", "kg", r.SCI.ClusterDay)
	row("EDP", "kWh h", r.EDP)
	row("ED2P", "kWh h2", r.ED2P)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%.0f of %.0f GPU-hours held; %d jobs ended, mean JCT %.0f s; power measured in %.0f %% "+
		"of the time\n", r.GPUHours, r.Capacity, r.Ended, r.AvgJCT, 100*r.MeasuredShare)
	return err
}

// byEnergy are the tenants, most energy first.
func (r *energyReport) byEnergy() []energy.Tenant {
	tenants := slices.Clone(r.Tenants)
	slices.SortStableFunc(tenants, func(a, b energy.Tenant) int {
		return cmp.Compare(b.Energy.Middle, a.Energy.Middle)
	})
	return tenants
}

func (r *energyReport) printTenants(w io.Writer, top int) error {
	t := table.Numbers(w, "tenant\tjobs\tGPU-hours\tkWh\tlow\thigh\t$\tkg CO2\t")
	tenants := r.byEnergy()
	for i := range tenants {
		if i == top {
			fmt.Fprintf(t, "%d more\t\t\t\t\t\t\t\t\n", len(tenants)-top)
			break
		}
		x := &tenants[i]
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%s\t%s\t%s\t%s\t%s\t\n", cmp.Or(x.Name, "(none)"), x.Jobs, x.GPUHours,
			cli.ThreeDigits(x.Energy.Middle), cli.ThreeDigits(x.Energy.Low), cli.ThreeDigits(x.Energy.High),
			cli.ThreeDigits(x.Cost.Middle), cli.ThreeDigits(x.CO2.Middle))
	}
	return t.Flush()
}

// page draws the report.
func (r *energyReport) page(top int) (*chart.Page, error) {
	e := r.Cluster.Energy
	p, err := cli.NewPage("energy: "+r.Trace, r.Synthetic,
		fmt.Sprintf("%s, of which idle nodes take %.0f %%. It costs $ %s, and emits %s kg of CO2.",
			cli.BandText("%s kWh", e), 100*r.Idle.Energy.Middle/max(e.Middle, 1e-9),
			cli.ThreeDigits(r.Cluster.Cost.Middle), cli.ThreeDigits(r.Cluster.CO2.Middle)),
		func(w io.Writer) error { return r.print(w, top) })
	if err != nil {
		return nil, err
	}
	p.Facts = []chart.Fact{{Name: "Cluster", Value: r.Size}, {Name: "From", Value: r.From.Format(time.RFC3339)},
		{Name: "To", Value: r.To.Format(time.RFC3339)}}
	rows := func(charts ...*chart.Chart) chart.Section {
		s := chart.Section{Title: "Over time", Hint: "Means of hours. The band takes every constant at its end."}
		for _, c := range charts {
			s.Rows = append(s.Rows, chart.Row{Height: 260, Charts: []*chart.Chart{c}})
		}
		return s
	}
	p.First = r.powerChart()
	p.Sections = []chart.Section{rows(
		r.stepChart("Electricity price", "$/MWh", chart.Orange, func(h *energy.Hour) float64 { return h.Price }),
		r.stepChart("Carbon intensity", "g/kWh", chart.Gray, func(h *energy.Hour) float64 { return h.Intensity })),
		{Title: "Tenants", Hint: "Energy of their jobs, most first.",
			Rows: []chart.Row{{Height: 300, Charts: []*chart.Chart{r.tenantChart()}}}}}
	return p, nil
}

// curve is a value of hours over days since the begin.
func (r *energyReport) curve(of func(*energy.Hour) float64) (points []chart.Point, end float64) {
	for i := range r.Hourly {
		points = append(points, chart.Point{X: r.Hourly[i].At.Sub(r.From).Hours() / 24, Y: of(&r.Hourly[i])})
	}
	return points, r.To.Sub(r.From).Hours() / 24
}

func (r *energyReport) stepChart(title, unit string, color chart.Color, of func(*energy.Hour) float64) *chart.Chart {
	values, end := r.curve(of)
	c := &chart.Chart{Title: title, X: chart.Axis{Name: "days since " + r.From.Format(time.RFC3339), Max: end},
		Y:      chart.Axis{Name: unit, Include: []float64{0}},
		Layers: []chart.Layer{&chart.Line{Mark: chart.Mark{Color: color}, Points: chart.Steps(values, end)}}}
	c.Layers = append(c.Layers, chart.Bands(values, false, func(i int) string {
		return fmt.Sprintf("%s: %s %s", r.Hourly[i].At.Format(time.RFC3339), cli.ThreeDigits(values[i].Y), unit)
	})...)
	return c
}

func (r *energyReport) powerChart() *chart.Chart {
	c := r.stepChart("Power at the facility's meter", "kW", chart.Blue,
		func(h *energy.Hour) float64 { return h.Power.Middle })
	low, end := r.curve(func(h *energy.Hour) float64 { return h.Power.Low })
	high, _ := r.curve(func(h *energy.Hour) float64 { return h.Power.High })
	band, back := chart.Steps(high, end), chart.Steps(low, end)
	slices.Reverse(back)
	c.Layers = append([]chart.Layer{&chart.Area{Mark: chart.Mark{Name: "low to high", Color: chart.Blue.Fade(.12)},
		Points: append(band, back...)}}, c.Layers...)
	return c
}

// tenantChart has a bar for each of the tenants with most energy.
func (r *energyReport) tenantChart() *chart.Chart {
	const most = 12
	tenants := r.byEnergy()
	b := chart.Bars{Title: "Energy by tenant", Axis: "kWh", Series: []string{"energy"}}
	for i := range min(most, len(tenants)) {
		b.Groups = append(b.Groups, cmp.Or(tenants[i].Name, "(none)"))
	}
	b.Value = func(i, _ int) (float64, string) {
		e := tenants[i].Energy
		return e.Middle, b.Groups[i] + ": " + cli.BandText("%s kWh", e)
	}
	return b.Chart()
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newPatternsCmd(), newRecommendCmd(), newEnergyCmd()}
}

// OfScheduler returns the commands below scheduler.
func OfScheduler() []*cobra.Command { return []*cobra.Command{newFindingsCmd()} }
