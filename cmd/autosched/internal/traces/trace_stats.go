package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
	"github.com/autosched/autosched/workload/stats"
)

// traceStatsOptions are the flags of trace stats.
type traceStatsOptions struct {
	input   traceInput
	window  traceWindow
	cluster workload.Cluster
	plot    cli.PlotFlag

	given func(flag string) bool
}

func newTraceStatsCmd() *cobra.Command {
	var o traceStatsOptions
	cmd := &cobra.Command{
		Use:   "stats TRACE",
		Short: "Characterise a trace in numbers and plots",
		Long: `Stats describes a trace: arrivals and their periods, durations, sizes, the
distribution of GPU-time over jobs and users, batches, recurrence, status and
queueing delay, by tenant, and the load on a cluster.

Where the cluster is given (--nodes, --gpus-per-node) or the trace shows it, stats
prints the offered load: the requested GPU-time of all jobs over
the cluster's capacity between the first and the last submission. Above 1 jobs
must queue; far below 1 no scheduler setting makes a difference. The next line has
the GPUs in use if no job ever waited.

Variance over mean is 1 for arrivals at random (Poisson) and more for bursts.
Periods are those of a Fourier transform of the number of submissions: the shares
of its variance within a day, at a day, at a week.

A batch is a sequence of jobs of one tenant at most 60 s apart: a sweep. Jobs with
the same key recur and are expected to run about as long. The smaller the spread
of ln(duration) within a key is against that of all jobs, the better durations can
be predicted.

--plot draws arrivals, profile, periods, durations, sizes and demand into a PNG or
SVG file, or with the numbers into an HTML page of one file.`,
		Example: `  autosched trace stats sample --nodes 20 --gpus-per-node 8
  autosched trace stats jobs.csv.gz --from 2017-10-02 --to 2017-10-30 --plot jobs.svg
  autosched trace stats pods.csv.gz,nodes.csv --plot pods.html
  autosched trace stats jobs.csv.gz --json | jq .arrivals_per_hour`,
		RunE: cli.Report(&o.input.json, "trace-statistics/v1", o.check, o.run,
			func(r *stats.Description, w io.Writer) error { return printStats(w, r) }),
	}
	o.given = cmd.Flags().Changed
	o.input.add(cmd)
	o.window.add(cmd)
	cli.ClusterFlags(cmd, &o.cluster)
	o.plot.Add(cmd)
	return cmd
}

// sized reports whether flags give the cluster.
func (o *traceStatsOptions) sized() bool { return o.given("nodes") || o.given("gpus-per-node") }

// check checks all that needs no trace.
func (o *traceStatsOptions) check() error {
	if o.sized() {
		if err := o.cluster.Validate(); err != nil {
			return cli.Usage(err)
		}
	}
	return cmp.Or(o.plot.Check(), o.input.check(), o.window.check())
}

// run describes the trace, and draws the plot. Notes go to notes.
func (o *traceStatsOptions) run(ctx context.Context, notes io.Writer) (*stats.Description, error) {
	w, report, err := o.input.open(ctx, notes)
	if err != nil {
		return nil, err
	}
	if w, err = o.window.cut(w); err != nil {
		return nil, err
	}
	cluster := &o.cluster
	if !o.sized() {
		e := capacity.Evidence{Machines: report.Machines, Declared: report.Declared}
		switch found, err := capacity.Infer(w, e); {
		case errors.Is(err, capacity.ErrUnknown):
			cluster = nil
		case err != nil:
			return nil, err
		default:
			cluster = &found.Cluster
			fmt.Fprintf(notes, "note: cluster: %s; --nodes and --gpus-per-node set it\n", found)
		}
	}
	s := stats.Describe(w, cluster)
	return &s, o.plot.Write(func() (*chart.Page, error) { return statsPage(w, &s) })
}

// manyRows is the length of a table: of longer ones the first rows are shown, or
// bands instead of sizes.
const manyRows = 20

// span and percent are how the tables show seconds and shares.
var span, percent = units.Duration, units.Percent

// statsText prints the description of a trace, section by section.
type statsText struct {
	*stats.Description
	w io.Writer
	t *table.Writer // of the current section
}

func printStats(out io.Writer, s *stats.Description) error {
	p := &statsText{s, out, table.New(out, "")}
	p.head()
	p.load()
	p.service()
	p.arrivals()
	if err := p.t.Flush(); err != nil {
		return err
	}
	p.rhythm()
	if err := p.periods(); err != nil {
		return err
	}
	for _, rows := range []func(){p.sizes, p.statuses, p.models, p.tenants} {
		p.t = table.Numbers(out, "")
		rows()
		if err := p.t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// line adds a line to the section.
func (p *statsText) line(format string, args ...any) { fmt.Fprintf(p.t, format+"\n", args...) }

func (p *statsText) head() {
	p.line("trace\t%s%s", p.Name, cli.SyntheticLabel(p.Synthetic))
	p.line("zero\t%s", p.Zero.Format(time.RFC3339))
	p.line("jobs\t%d", p.Jobs)
	p.line("submitted\t%s to %s (%.1f days)", p.First.Format(time.RFC3339), p.Last.Format(time.RFC3339), p.SpanS/86400)
	p.line("GPU-hours\t%.0f, %.2f GPUs per job", p.GPUHours, p.MeanGPUs)
}

func (p *statsText) load() {
	l := p.Load
	if l == nil {
		return
	}
	on := workload.Uniform(l.Nodes, l.GPUsPerNode).String()
	if l.GPUsPerNode == 0 {
		on = fmt.Sprintf("%d nodes with %d GPUs", l.Nodes, l.GPUs)
	}
	p.line("offered load\t%.2f on %s", l.Offered, on)
	p.line("\twithout any queue %.0f GPUs in use on average, %.0f at most, above capacity %s of the time", l.MeanInUse,
		l.MaxInUse, percent(l.Over))
	if l.Wider > 0 {
		p.line("\t%d jobs are wider than the cluster and can never run", l.Wider)
	}
	if l.GPUs <= workload.SmallCluster {
		p.line("\t%d GPUs: on a cluster this small tuning has little to gain", l.GPUs)
	}
}

// service prints durations, GPU-time and queueing delay.
func (p *statsText) service() {
	d := p.Durations
	p.line("duration\tp10 %s  p25 %s  p50 %s  p75 %s  p90 %s", span(d.P10), span(d.P25), span(d.P50), span(d.P75),
		span(d.P90))
	p.line("\tp95 %s  p99 %s  longest %s  mean %s", span(d.P95), span(d.P99), span(d.Max), span(d.Mean))
	p.line("GPU-time\tof the top 1 %% of jobs %s, 5 %% %s, 10 %% %s", percent(p.Service.Top1), percent(p.Service.Top5),
		percent(p.Service.Top10))
	if u := p.Users; u != nil {
		p.line("users\t%d; the top 5 %% have %s of the jobs, %s of the GPU-time", u.Users, percent(u.Top5Jobs),
			percent(u.Top5GPUTime))
	}
	if q := p.Waits; q != nil {
		p.line("waited there\tp50 %s  p90 %s  p99 %s  longest %s  mean %s, known of %s of the jobs", span(q.P50),
			span(q.P90), span(q.P99), span(q.Max), span(q.Mean), percent(q.Known))
	}
}

// arrivals prints rates, batches and recurrence.
func (p *statsText) arrivals() {
	a, five := p.Arrivals, p.Arrivals5
	p.line("jobs per hour\tmean %.1f, CV %.2f, variance/mean %.3g, max %d, none in %s", a.Mean, a.CV, a.VarOverMean,
		a.Max, percent(a.Empty))
	p.line("jobs per 5 min\tmean %.2f, CV %.2f, variance/mean %.3g, max %d, none in %s", five.Mean, five.CV,
		five.VarOverMean, five.Max, percent(five.Empty))
	b := p.Batches
	p.line("batches\t%d, %.1f per hour (CV %.2f, variance/mean %.3g), mean size %.1f, largest %d", b.Batches,
		b.PerHour.Mean, b.PerHour.CV, b.PerHour.VarOverMean, b.MeanSize, b.MaxSize)
	p.line("\tof one job %s; jobs in batches of 2+ %s, 10+ %s, 100+ %s", percent(b.Single), percent(b.JobsIn2),
		percent(b.JobsIn10), percent(b.JobsIn100))
	r := p.Recurrence
	p.line("recurrence\t%d keys; %s of the jobs had a key seen before, %s a key of more than 10 jobs", r.Keys,
		percent(r.Seen), percent(r.Over10))
	p.line("\tspread of ln(duration) %.2f within a key, %.2f over all", r.KeyLnSD, r.LnSD)
	p.line("digest\t%s", p.Digest)
}

// rhythm prints arrivals by hour of day and by weekday.
func (p *statsText) rhythm() {
	fmt.Fprint(p.w, "\njobs per hour over the mean, by hour of day and by weekday\n")
	for from := 0; from < 24; from += 12 {
		var hours, rates strings.Builder
		for h := from; h < from+12; h++ {
			fmt.Fprintf(&hours, "%6d", h)
			fmt.Fprintf(&rates, "%6.2f", p.Profile.Hour[h])
		}
		fmt.Fprintf(p.w, "%s\n%s\n", hours.String(), rates.String())
	}
	var days, rates strings.Builder
	for d, name := range weekdays {
		fmt.Fprintf(&days, "%6s", name)
		fmt.Fprintf(&rates, "%6.2f", p.Profile.Weekday[d])
	}
	fmt.Fprintf(p.w, "%s\n%s\n", days.String(), rates.String())
}

// periods prints the periodogram of arrivals.
func (p *statsText) periods() error {
	if len(p.Periods) == 0 {
		fmt.Fprint(p.w, "\nperiods: less than two days, none can be seen\n")
		return nil
	}
	w := table.Numbers(p.w, "")
	fmt.Fprint(w, "\nshare of the variance at periods of\t")
	bands := p.Periods[len(p.Periods)-1].Bands
	for _, b := range bands {
		fmt.Fprintf(w, "%s\t", bandName(b))
	}
	for _, x := range p.Periods {
		fmt.Fprintf(w, "\ncounted per %s\t", hours(x.BinS/3600))
		for i := len(x.Bands); i < len(bands); i++ { // shorter than two bins
			fmt.Fprint(w, "-\t")
		}
		for _, b := range x.Bands {
			fmt.Fprintf(w, "%s\t", percent(b.Share))
		}
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, x := range p.Periods {
		var strong []string
		for _, s := range x.Strongest {
			strong = append(strong, fmt.Sprintf("%s %s", hours(s.Hours), percent(s.Share)))
		}
		fmt.Fprintf(p.w, "strongest, counted per %s: %s\n", hours(x.BinS/3600), strings.Join(strong, ", "))
	}
	return nil
}

func (p *statsText) sizes() {
	sizes, head, name := p.Sizes, "GPUs", func(gpus float64) string { return fmt.Sprintf("%g", gpus) }
	if len(sizes) > manyRows {
		sizes, head, name = p.SizeBands, "GPUs to", bandSize
	}
	p.line("\n%s\tjobs\tshare\tof GPU-time\tp50 duration\tp90\tp50 wait\t", head)
	for _, z := range sizes {
		p.line("%s\t%d\t%s\t%s\t%s\t%s\t%s\t", name(z.GPUs), z.Jobs, percent(z.JobShare), percent(z.GPUTimeShare),
			span(z.P50S), span(z.P90S), p.wait(z.WaitP50S))
	}
}

// bandSize names the band of sizes up to a number of GPUs.
func bandSize(gpus float64) string {
	switch gpus {
	case 0:
		return "more"
	case .999:
		return "<1"
	}
	return fmt.Sprintf("%g", gpus)
}

func (p *statsText) statuses() {
	if len(p.Statuses) == 1 && p.Statuses[0].Status == "unknown" {
		return
	}
	p.line("\nstatus\tjobs\tshare\tof GPU-time\t")
	for _, x := range p.Statuses {
		p.line("%s\t%d\t%s\t%s\t", x.Status, x.Jobs, percent(x.JobShare), percent(x.GPUTimeShare))
	}
}

func (p *statsText) models() {
	if len(p.Models) == 0 {
		return
	}
	p.line("\nmodel\tjobs\tshare\tof GPU-time\tp50 duration\t")
	for _, x := range p.Models[:min(manyRows, len(p.Models))] {
		p.line("%s\t%d\t%s\t%s\t%s\t", named(x.Model), x.Jobs, percent(x.JobShare), percent(x.GPUTimeShare),
			span(x.P50S))
	}
	p.more(len(p.Models))
}

func (p *statsText) tenants() {
	p.line("\ntenant\tjobs\tshare\tGPU-hours\tshare\tGPUs/job\tp50 duration\tp50 wait\t")
	for _, x := range p.Tenants[:min(manyRows, len(p.Tenants))] {
		p.line("%s\t%d\t%s\t%.0f\t%s\t%.1f\t%s\t%s\t", named(x.Tenant), x.Jobs, percent(x.JobShare), x.GPUHours,
			percent(x.GPUTimeShare), x.MeanGPUs, span(x.P50S), p.wait(x.WaitP50S))
	}
	p.more(len(p.Tenants))
}

// wait is a queueing delay, if the trace has them.
func (p *statsText) wait(seconds float64) string {
	if p.Waits == nil {
		return "-"
	}
	return span(seconds)
}

// more ends a table that shows its first rows only.
func (p *statsText) more(rows int) {
	if rows > manyRows {
		p.line("and %d more: --json lists all\t", rows-manyRows)
	}
}

var weekdays = [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

func bandName(b stats.Band) string {
	switch {
	case b.FromH == 0:
		return "<" + hours(b.ToH)
	case b.ToH == 0:
		return ">" + hours(b.FromH)
	}
	from, to := hours(b.FromH), hours(b.ToH)
	if from[len(from)-1] == to[len(to)-1] { // one unit is enough
		from = from[:len(from)-1]
	}
	return from + "-" + to
}

// hours shows a period as people read it.
func hours(h float64) string {
	switch {
	case h < 1:
		return fmt.Sprintf("%.3gmin", h*60)
	case h > 26:
		return fmt.Sprintf("%.3gd", h/24)
	}
	return fmt.Sprintf("%.3gh", h)
}

func named(name string) string {
	if name == "" {
		return "(none)"
	}
	return name
}
