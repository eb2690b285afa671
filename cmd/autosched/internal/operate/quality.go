package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
)

const (
	weekBefore  = "a week before --to"
	latestEvent = "the latest event"
)

func newForecastQualityCmd(f *cli.ClientFlags) *cobra.Command {
	var past cli.WindowFlags
	var hours bool
	var plot cli.PlotFlag
	cmd := &cobra.Command{
		Use:   "forecast SCHEDULER",
		Short: "Grade the forecasts of a scheduler's past hours by what came",
		Long: `Forecasts of every past hour are made again of the events that were known when it began, as rounds
make them, and compared with the jobs that came; predictions of run times with the true ones. 'autosched
forecast eval' grades forecasts of a trace by the same rules.`,
		Example: `  autosched scheduler forecast tiresias
  autosched scheduler forecast tiresias --from 2026-01-05T00:00:00Z --to 2026-01-08T00:00:00Z --hours`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to, err := past.Read()
			if err := cmp.Or(err, plot.Check()); err != nil {
				return err
			}
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.ForecastQuality, error) {
					q, err := c.Jobs.GetForecastQuality(ctx, &pb.GetForecastQualityRequest{Name: name, StartTime: from,
						EndTime: to})
					if err != nil {
						return nil, err
					}
					return q, plot.Write(func() (*chart.Page, error) { return qualityPage(cli.ShortName(name), q) })
				}, func(w io.Writer, q *pb.ForecastQuality) error { return printQuality(w, q, hours) })
		},
	}
	past.Add(cmd, weekBefore+"; at most 14 days", latestEvent)
	plot.Add(cmd)
	cmd.Flags().BoolVar(&hours, "hours", false, "print the hours, too")
	return cmd
}

func percentText(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// shareText is a share that may not be known.
func shareText(v *float64) string {
	if v == nil {
		return "-"
	}
	return percentText(*v)
}

func printQuality(out io.Writer, q *pb.ForecastQuality, hours bool) error {
	if why := q.GetNoGradeReason(); why != "" {
		_, err := fmt.Fprintf(out, "nothing is graded: %s\n", why)
		return err
	}
	fmt.Fprintf(out, "%s to %s: %s, %d futures of each hour\n\n", cli.Instant(q.GetStartTime()),
		cli.Instant(q.GetEndTime()), q.GetMethod(), q.GetFutures())
	t := table.Numbers(out, "an hour ahead\thours\twape\tbias\tin the band of 80 %\tmean |error|\t")
	row := func(name string, s *pb.ForecastQuality_Score) {
		if s != nil {
			bias := "-"
			if s.Bias != nil {
				bias = fmt.Sprintf("%.3f", s.GetBias())
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", name, s.GetHourCount(), shareText(s.Wape), bias,
				percentText(s.GetCoverage()), cli.ThreeDigits(s.GetMeanAbsoluteError()))
		}
	}
	row("jobs", q.GetJobs())
	row("GPU-hours", q.GetGpuHours())
	if err := t.Flush(); err != nil {
		return err
	}
	if why := q.GetLimitedReason(); why != "" {
		fmt.Fprintf(out, "bounded: %s\n", why)
	}
	if q.GetGpuHours() == nil {
		fmt.Fprintln(out, "GPU-hours are not graded: jobs of more than a tenth of the hours have not ended")
	}
	d := q.GetDurations()
	fmt.Fprintf(out, "\nrun times at submission: %d of %d jobs, %d have not ended\n", d.GetPredictedCount(),
		d.GetSubmittedCount(), d.GetOpenCount())
	if d.GetClassCount() > 0 {
		fmt.Fprintf(out, "  class: %s right, with a probability of %s; calibration error %s\n",
			percentText(d.GetAccuracy()), percentText(d.GetConfidence()), percentText(d.GetCalibrationError()))
	}
	if d.GetEndedCount() > 0 {
		fmt.Fprintf(out, "  run time: %s in the band of 80 %%, wape %s, median relative error %s\n",
			percentText(d.GetCoverage()), percentText(d.GetWape()), percentText(d.GetMedianRelativeError()))
	}
	if !hours {
		return nil
	}
	fmt.Fprintln(out)
	t = table.Numbers(out, "hour\tjobs forecast\tcame\tGPU-hours forecast\tcame\topen jobs\t")
	band := func(b *pb.ForecastQuality_Band) string {
		return fmt.Sprintf("%s (%s to %s)", cli.ThreeDigits(b.GetMiddle()), cli.ThreeDigits(b.GetLow()),
			cli.ThreeDigits(b.GetHigh()))
	}
	for _, h := range q.GetHours() {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\t\n", cli.Instant(h.GetStartTime()), band(h.GetJobs()), h.GetCameJobs(),
			band(h.GetGpuHours()), cli.ThreeDigits(h.GetCameGpuHours()), h.GetOpenJobs())
	}
	return t.Flush()
}

func newSchedulerEnergyCmd(f *cli.ClientFlags) *cobra.Command {
	var past cli.WindowFlags
	var top int32
	cmd := &cobra.Command{
		Use:   "energy SCHEDULER",
		Short: "Show the energy, cost and CO2 of a scheduler's jobs, tenants and idle nodes",
		Long: `Accounts for the energy of the cluster as its jobs ran, by the power model of the service ('serve
--energy-file') and the samples of GPUs that it has. 'autosched energy report' accounts for a trace by the
same rules.`,
		Example: `  autosched scheduler energy tiresias
  autosched scheduler energy tiresias --from 2026-01-05T00:00:00Z --to 2026-01-08T00:00:00Z --top 5 --json`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to, err := past.Read()
			if err != nil {
				return err
			}
			if top < 1 || top > 1000 {
				return cli.Usage(fmt.Errorf("--top: %d is not from 1 to 1000", top))
			}
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.EnergyAccount, error) {
					return c.Jobs.GetEnergy(ctx, &pb.GetEnergyRequest{Name: name, StartTime: from, EndTime: to,
						JobCount: top})
				}, func(w io.Writer, e *pb.EnergyAccount) error { return printAccount(w, e, int(top)) })
		},
	}
	past.Add(cmd, weekBefore+"; at most 31 days", latestEvent)
	cmd.Flags().Int32Var(&top, "top", 10, "")
	return cmd
}

func printAccount(out io.Writer, e *pb.EnergyAccount, top int) error {
	if why := e.GetUnknownReason(); why != "" {
		_, err := fmt.Fprintf(out, "the energy is not known: %s\n", why)
		return err
	}
	fmt.Fprintf(out, "%s to %s\n\n", cli.Instant(e.GetStartTime()), cli.Instant(e.GetEndTime()))
	band := func(b *pb.EnergyBand) string {
		return fmt.Sprintf("%s (%s to %s)", cli.ThreeDigits(b.GetMiddle()), cli.ThreeDigits(b.GetLow()),
			cli.ThreeDigits(b.GetHigh()))
	}
	t := table.Numbers(out, "\tkWh\t$\tkg of CO2\t")
	row := func(name string, a *pb.EnergyAccount_Amount) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", name, band(a.GetEnergyKwh()), band(a.GetCostUsd()), band(a.GetCo2Kg()))
	}
	row("cluster", e.GetCluster())
	row("jobs", e.GetJobs())
	row("idle", e.GetIdle())
	for _, x := range e.GetTenants()[:min(top, len(e.GetTenants()))] {
		row("tenant "+cmp.Or(x.GetTenant(), "(none)"), x.GetAmount())
	}
	for _, j := range e.GetTopJobs() {
		row("job "+j.GetJobId(), j.GetAmount())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\njobs held %s of %s GPU-hours; GPUs were measured in %s of these, the rest is modelled\n",
		cli.ThreeDigits(e.GetGpuHours()), cli.ThreeDigits(e.GetCapacityGpuHours()),
		cli.ThreeDigits(e.GetMeasuredGpuHours()))
	if v := e.GetActivityGpuHours(); v > 0 {
		fmt.Fprintf(out, "the power in %s of the measured GPU-hours follows from the activity of the GPU\n",
			cli.ThreeDigits(v))
	}
	if g := e.GetAssumedGpuModel(); g != "" {
		fmt.Fprintf(out, "the model of GPU is not registered: that of %s is assumed\n", strconv.Quote(g))
	}
	fmt.Fprintf(out, "prices: %s; carbon intensities: %s\n", cmp.Or(e.GetPrices(), "a constant"),
		cmp.Or(e.GetIntensities(), "a constant"))
	for _, n := range e.GetNotes() {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	return nil
}
