package waste

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
)

func (r *energyReport) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s%s on %s, %s to %s\n", r.Trace, cli.SyntheticLabel(r.Synthetic), r.Size,
		r.From.Format(time.RFC3339),
		r.To.Format(time.RFC3339))
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
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, x := range r.Assumptions {
		fmt.Fprintf(t, "  %s\t%g\t%g\t%g\t%s\t%s\n", x.Name, x.Low, x.Middle, x.High, cmp.Or(x.Unit, "-"), x.Source)
	}
	return t.Flush()
}

// printAmounts prints a report's sums with their band.
func printAmounts(w io.Writer, r *energy.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tlow\tmiddle\thigh\t")
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
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "tenant\tjobs\tGPU-hours\tkWh\tlow\thigh\t$\tkg CO2\t")
	tenants := r.byEnergy()
	for i := range tenants {
		if i == top {
			fmt.Fprintf(t, "%d more\t\t\t\t\t\t\t\t\n", len(tenants)-top)
			break
		}
		x := &tenants[i]
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%s\t%s\t%s\t%s\t%s\t\n", cmp.Or(x.Name, "(none)"), x.Jobs, x.GPUHours,
			cli.ThreeDigits(x.Energy.Middle), cli.ThreeDigits(x.Energy.Low), cli.ThreeDigits(x.Energy.High),
			cli.ThreeDigits(x.Cost.Middle),
			cli.ThreeDigits(x.CO2.Middle))
	}
	return t.Flush()
}

// page draws the report.
func (r *energyReport) page() *chart.Page {
	e := r.Cluster.Energy
	p := &chart.Page{Name: "Energy of " + r.Trace, Synthetic: r.Synthetic, Class: "open",
		Lead: fmt.Sprintf("%s kWh (%s to %s), of which idle nodes have %.0f %%; $ %s and %s kg of CO2",
			cli.ThreeDigits(e.Middle), cli.ThreeDigits(e.Low), cli.ThreeDigits(e.High),
			100*r.Idle.Energy.Middle/max(e.Middle, 1e-9),
			cli.ThreeDigits(r.Cluster.Cost.Middle), cli.ThreeDigits(r.Cluster.CO2.Middle)),
		Facts: []chart.Fact{{Name: "cluster", Value: r.Size}, {Name: "from", Value: r.From.Format(time.RFC3339)},
			{Name: "to", Value: r.To.Format(time.RFC3339)}}}
	rows := func(charts ...*chart.Chart) chart.Section {
		s := chart.Section{Title: "Over time", Hint: "Means of hours. The band takes every constant at its end."}
		for _, c := range charts {
			s.Rows = append(s.Rows, chart.Row{Height: 260, Charts: []*chart.Chart{c}})
		}
		return s
	}
	p.Sections = []chart.Section{rows(r.powerChart(),
		r.stepChart("Electricity price", "$/MWh", chart.Orange, func(h *energy.Hour) float64 { return h.Price }),
		r.stepChart("Carbon intensity", "g/kWh", chart.Gray, func(h *energy.Hour) float64 { return h.Intensity })),
		{Title: "Tenants", Hint: "Energy of their jobs, most first.",
			Rows: []chart.Row{{Height: 300, Charts: []*chart.Chart{r.tenantChart()}}}}}
	return p
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
	c := &chart.Chart{Title: "Energy by tenant", X: chart.Axis{Labels: true},
		Y: chart.Axis{Name: "kWh", Include: []float64{0}}}
	for i, t := range r.byEnergy() {
		if i == most {
			break
		}
		x, name := float64(i), cmp.Or(t.Name, "(none)")
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: x, Label: name[:min(len(name), 8)]})
		c.Layers = append(c.Layers, &chart.Area{Mark: chart.Mark{Color: chart.Blue.Fade(.6),
			Tip: fmt.Sprintf("%s: %s kWh (%s to %s)", name, cli.ThreeDigits(t.Energy.Middle),
				cli.ThreeDigits(t.Energy.Low),
				cli.ThreeDigits(t.Energy.High))}, Points: chart.Box(x-.35, 0, x+.35, t.Energy.Middle)})
	}
	return c
}
