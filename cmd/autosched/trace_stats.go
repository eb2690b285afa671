package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
)

func newTraceStatsCmd() *cobra.Command {
	var o struct {
		traceInput
		traceWindow
		cluster workload.Cluster
		plot    string
	}
	cmd := &cobra.Command{
		Use:   "stats TRACE",
		Short: "Describe a trace as a characterisation paper does, in numbers and plots",
		Long: `Stats tells what a trace is like: arrivals and their periods, durations, sizes and
who gets the GPU-time, batches, recurrence, how jobs ended and how long they
waited, by tenant, and the load on a cluster.

With a cluster's size (--nodes, --gpus-per-node), or a list of machines among the
trace's files, it tells the offered load: the GPU-time all jobs ask for over what
the cluster has between the first and the last submission. Above 1 jobs must
queue; far below 1 no scheduler setting makes a difference. Below it stands how
many GPUs would be in use if no job ever waited.

Variance over mean is 1 for arrivals at random (Poisson) and more for bursts.
Periods are those of a Fourier transform of the number of submissions: how much of
its variance swings within a day, in a day, in a week.

A batch is jobs of one tenant that follow each other by at most 60 s: a sweep.
A key is what recurs: jobs of one key are expected to run about as long. The
smaller the spread of ln(duration) within a key is against that of all jobs, the
better durations can be predicted.

--plot draws arrivals, profile, periods, durations, sizes and demand into a PNG or
SVG file, or with the numbers into an HTML page of one file.`,
		Example: `  autosched trace stats sample --nodes 20 --gpus-per-node 8
  autosched trace stats jobs.csv.gz --from 2017-10-02 --to 2017-10-30 --plot jobs.svg
  autosched trace stats pods.csv.gz,nodes.csv --plot pods.html
  autosched trace stats jobs.csv.gz --json | jq .arrivals_per_hour`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var cluster *workload.Cluster
			if cmd.Flags().Changed("nodes") || cmd.Flags().Changed("gpus-per-node") {
				if err := o.cluster.Validate(); err != nil {
					return usageError{err}
				}
				cluster = &o.cluster
			}
			if err := checkPlot(o.plot, ".png", ".svg", ".html"); err != nil {
				return err
			}
			w, report, err := o.open(cmd)
			if err != nil {
				return err
			}
			if w, err = o.cut(w); err != nil {
				return err
			}
			if cluster == nil && len(report.Machines) > 0 {
				cluster = &workload.Cluster{Groups: report.Machines}
			}
			s := stats.Describe(w, cluster)
			if o.plot != "" {
				if err := plotStats(o.plot, w, &s); err != nil {
					return err
				}
			}
			if o.json {
				return printJSON(cmd.OutOrStdout(), s)
			}
			return printStats(cmd.OutOrStdout(), &s)
		},
	}
	o.traceInput.flags(cmd)
	o.traceWindow.flags(cmd)
	clusterFlags(cmd, &o.cluster)
	cmd.Flags().StringVar(&o.plot, "plot", "", "file to draw into: .png, .svg or .html")
	return cmd
}

func clusterFlags(cmd *cobra.Command, c *workload.Cluster) {
	*c = workload.Uniform(0, 0)
	cmd.Flags().IntVar(&c.Groups[0].Nodes, "nodes", 0, "nodes of the cluster")
	cmd.Flags().IntVar(&c.Groups[0].GPUsPerNode, "gpus-per-node", 8, "GPUs of each node")
}

// manyRows is from where on a table shows the first of its rows only, or bands
// instead of sizes.
const manyRows = 20

func printStats(out io.Writer, s *stats.Description) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	label := ""
	if s.Synthetic {
		label = " (synthetic)"
	}
	line("trace\t%s%s", s.Name, label)
	line("zero\t%s", s.Zero.Format(time.RFC3339))
	line("jobs\t%d", s.Jobs)
	line("submitted\t%s to %s (%.1f days)", s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339), s.SpanS/86400)
	line("GPU-hours\t%.0f, %.2f GPUs per job", s.GPUHours, s.MeanGPUs)
	printLoad(line, s.Load)
	d := s.Durations
	line("duration\tp10 %s  p25 %s  p50 %s  p75 %s  p90 %s", span(d.P10), span(d.P25), span(d.P50), span(d.P75), span(d.P90))
	line("\tp95 %s  p99 %s  longest %s  mean %s", span(d.P95), span(d.P99), span(d.Max), span(d.Mean))
	line("GPU-time\tof the top 1%% of jobs %s, 5%% %s, 10%% %s", percent(s.Service.Top1), percent(s.Service.Top5), percent(s.Service.Top10))
	if u := s.Users; u != nil {
		line("users\t%d; the top 5%% have %s of the jobs, %s of the GPU-time", u.Users, percent(u.Top5Jobs), percent(u.Top5GPUTime))
	}
	if q := s.Waits; q != nil {
		line("waited there\tp50 %s  p90 %s  p99 %s  longest %s  mean %s, known of %s of the jobs", span(q.P50), span(q.P90), span(q.P99), span(q.Max), span(q.Mean), percent(q.Known))
	}
	a, five := s.Arrivals, s.Arrivals5
	line("jobs per hour\tmean %.1f, CV %.2f, variance/mean %.3g, max %d, none in %s", a.Mean, a.CV, a.VarOverMean, a.Max, percent(a.Empty))
	line("jobs per 5 min\tmean %.2f, CV %.2f, variance/mean %.3g, max %d, none in %s", five.Mean, five.CV, five.VarOverMean, five.Max, percent(five.Empty))
	b := s.Batches
	line("batches\t%d, %.1f per hour (CV %.2f, variance/mean %.3g), mean size %.1f, largest %d", b.Batches, b.PerHour.Mean, b.PerHour.CV, b.PerHour.VarOverMean, b.MeanSize, b.MaxSize)
	line("\tof one job %s; jobs in batches of 2+ %s, 10+ %s, 100+ %s", percent(b.Single), percent(b.JobsIn2), percent(b.JobsIn10), percent(b.JobsIn100))
	r := s.Recurrence
	line("recurrence\t%d keys; %s of the jobs had a key seen before, %s a key of more than 10 jobs", r.Keys, percent(r.Seen), percent(r.Over10))
	line("\tspread of ln(duration) %.2f within a key, %.2f over all", r.KeyLnSD, r.LnSD)
	line("digest\t%s", s.Digest)
	if err := w.Flush(); err != nil {
		return err
	}
	printRhythm(out, s)

	table := func(head string) {
		w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		line("\n%s", head)
	}
	sizes := s.Sizes
	head, name := "GPUs", func(z stats.Size) string { return fmt.Sprintf("%g", z.GPUs) }
	if len(sizes) > manyRows {
		sizes = s.SizeBands
		head, name = "GPUs to", func(z stats.Size) string {
			switch z.GPUs {
			case 0:
				return "more"
			case .999:
				return "<1"
			}
			return fmt.Sprintf("%g", z.GPUs)
		}
	}
	table(head + "\tjobs\tshare\tof GPU-time\tp50 duration\tp90\tp50 wait\t")
	wait := func(seconds float64) string {
		if s.Waits == nil {
			return "-"
		}
		return span(seconds)
	}
	for _, z := range sizes {
		line("%s\t%d\t%s\t%s\t%s\t%s\t%s\t", name(z), z.Jobs, percent(z.JobShare), percent(z.GPUTimeShare), span(z.P50S), span(z.P90S), wait(z.WaitP50S))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(s.Statuses) > 1 || s.Statuses[0].Status != "unknown" {
		table("status\tjobs\tshare\tof GPU-time\t")
		for _, x := range s.Statuses {
			line("%s\t%d\t%s\t%s\t", x.Status, x.Jobs, percent(x.JobShare), percent(x.GPUTimeShare))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(s.Models) > 0 {
		table("model\tjobs\tshare\tof GPU-time\tp50 duration\t")
		for _, x := range s.Models[:min(manyRows, len(s.Models))] {
			line("%s\t%d\t%s\t%s\t%s\t", named(x.Model), x.Jobs, percent(x.JobShare), percent(x.GPUTimeShare), span(x.P50S))
		}
		more(line, len(s.Models))
		if err := w.Flush(); err != nil {
			return err
		}
	}
	table("tenant\tjobs\tshare\tGPU-hours\tshare\tGPUs/job\tp50 duration\tp50 wait\t")
	for _, t := range s.Tenants[:min(manyRows, len(s.Tenants))] {
		line("%s\t%d\t%s\t%.0f\t%s\t%.1f\t%s\t%s\t", named(t.Tenant), t.Jobs, percent(t.JobShare), t.GPUHours, percent(t.GPUTimeShare), t.MeanGPUs, span(t.P50S), wait(t.WaitP50S))
	}
	more(line, len(s.Tenants))
	return w.Flush()
}

func printLoad(line func(string, ...any), l *stats.Load) {
	if l == nil {
		return
	}
	on := fmt.Sprintf("%d nodes x %d GPUs", l.Nodes, l.GPUsPerNode)
	if l.GPUsPerNode == 0 {
		on = fmt.Sprintf("%d nodes with %d GPUs", l.Nodes, l.GPUs)
	}
	line("offered load\t%.2f on %s", l.Offered, on)
	line("\twithout any queue %.0f GPUs in use on average, %.0f at most, too many %s of the time", l.MeanInUse, l.MaxInUse, percent(l.Over))
	if l.Wider > 0 {
		line("\t%d jobs are wider than the cluster and can never run", l.Wider)
	}
	if l.GPUs <= workload.SmallCluster {
		line("\t%d GPUs: on a cluster this small tuning has little to gain", l.GPUs)
	}
}

// printRhythm shows when jobs come: by hour and weekday, and at what periods.
func printRhythm(out io.Writer, s *stats.Description) {
	fmt.Fprint(out, "\njobs per hour over the mean, by hour of day and by weekday\n")
	for from := 0; from < 24; from += 12 {
		var hours, rates strings.Builder
		for h := from; h < from+12; h++ {
			fmt.Fprintf(&hours, "%6d", h)
			fmt.Fprintf(&rates, "%6.2f", s.Profile.Hour[h])
		}
		fmt.Fprintf(out, "%s\n%s\n", hours.String(), rates.String())
	}
	var days, rates strings.Builder
	for d, name := range weekdays {
		fmt.Fprintf(&days, "%6s", name)
		fmt.Fprintf(&rates, "%6.2f", s.Profile.Weekday[d])
	}
	fmt.Fprintf(out, "%s\n%s\n", days.String(), rates.String())
	if len(s.Periods) == 0 {
		fmt.Fprint(out, "\nperiods: less than two days, none can be seen\n")
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nshare of the variance at periods of\t")
	bands := s.Periods[len(s.Periods)-1].Bands
	for _, b := range bands {
		fmt.Fprintf(w, "%s\t", bandName(b))
	}
	for _, p := range s.Periods {
		fmt.Fprintf(w, "\ncounted per %s\t", hours(p.BinS/3600))
		for i := len(p.Bands); i < len(bands); i++ { // shorter than two bins
			fmt.Fprint(w, "-\t")
		}
		for _, b := range p.Bands {
			fmt.Fprintf(w, "%s\t", percent(b.Share))
		}
	}
	fmt.Fprintln(w)
	w.Flush()
	for _, p := range s.Periods {
		var strong []string
		for _, x := range p.Strongest {
			strong = append(strong, fmt.Sprintf("%s %s", hours(x.Hours), percent(x.Share)))
		}
		fmt.Fprintf(out, "strongest, counted per %s: %s\n", hours(p.BinS/3600), strings.Join(strong, ", "))
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

func more(line func(string, ...any), rows int) {
	if rows > manyRows {
		line("and %d more: --json lists all\t", rows-manyRows)
	}
}

// span shows seconds as people read them.
func span(seconds float64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.3gs", seconds)
	case seconds < 86400:
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("%.1fd", seconds/86400)
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }
