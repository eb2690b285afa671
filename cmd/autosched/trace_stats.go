package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/workload"
)

func newTraceStatsCmd() *cobra.Command {
	var o struct {
		traceInput
		cluster workload.Cluster
	}
	cmd := &cobra.Command{
		Use:   "stats TRACE",
		Short: "Describe a trace: sizes, durations, arrivals, batches, load, tenants",
		Long: `Stats tells what a trace is like. With a cluster's size it also tells the offered
load: the GPU-time all jobs ask for over what the cluster has between the first
and the last submission. Above 1 jobs must queue; far below 1 no scheduler
setting makes a difference.

A batch is jobs of one tenant that follow each other by at most 60 s: a sweep.
A key is what recurs: jobs of one key are expected to run about as long. The
smaller the spread of ln(duration) within a key is against that of all jobs, the
better durations can be predicted.`,
		Example: `  autosched trace stats sample --nodes 20 --gpus-per-node 8
  autosched trace stats jobs.csv.gz --json | jq .arrivals_per_hour`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var cluster *workload.Cluster
			if cmd.Flags().Changed("nodes") || cmd.Flags().Changed("gpus-per-node") {
				if err := o.cluster.Validate(); err != nil {
					return usageError{err}
				}
				cluster = &o.cluster
			}
			w, _, err := o.open(cmd)
			if err != nil {
				return err
			}
			s := workload.Describe(w, cluster)
			if o.json {
				return printJSON(cmd.OutOrStdout(), s)
			}
			return printStats(cmd.OutOrStdout(), &s)
		},
	}
	o.flags(cmd)
	clusterFlags(cmd, &o.cluster)
	return cmd
}

func clusterFlags(cmd *cobra.Command, c *workload.Cluster) {
	cmd.Flags().IntVar(&c.Nodes, "nodes", 0, "nodes of the cluster")
	cmd.Flags().IntVar(&c.GPUsPerNode, "gpus-per-node", 8, "GPUs of each node")
}

func printStats(out io.Writer, s *workload.Stats) error {
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
	if l := s.Load; l != nil {
		line("offered load\t%.2f on %d nodes x %d GPUs", l.Offered, l.Nodes, l.GPUsPerNode)
		if l.Wider > 0 {
			line("\t%d jobs are wider than the cluster and can never run", l.Wider)
		}
		if n := l.Nodes * l.GPUsPerNode; n <= workload.SmallCluster {
			line("\t%d GPUs: on a cluster this small tuning has little to gain", n)
		}
	}
	d := s.Durations
	line("duration\tp10 %s  p25 %s  p50 %s  p75 %s  p90 %s", span(d.P10), span(d.P25), span(d.P50), span(d.P75), span(d.P90))
	line("\tp95 %s  p99 %s  longest %s  mean %s", span(d.P95), span(d.P99), span(d.Max), span(d.Mean))
	line("jobs per hour\tmean %.1f, CV %.2f, max %d", s.Arrivals.Mean, s.Arrivals.CV, s.Arrivals.Max)
	b := s.Batches
	line("batches\t%d, %.1f per hour (CV %.2f), mean size %.1f, largest %d", b.Batches, b.PerHour.Mean, b.PerHour.CV, b.MeanSize, b.MaxSize)
	line("\tshare of jobs in batches of 2+ %s, 10+ %s, 100+ %s", percent(b.JobsIn2), percent(b.JobsIn10), percent(b.JobsIn100))
	r := s.Recurrence
	line("recurrence\t%d keys; %s of the jobs had a key seen before, %s a key of more than 10 jobs", r.Keys, percent(r.Seen), percent(r.Over10))
	line("\tspread of ln(duration) %.2f within a key, %.2f over all", r.KeyLnSD, r.LnSD)
	line("digest\t%s", s.Digest)
	if err := w.Flush(); err != nil {
		return err
	}

	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line("\nGPUs\tjobs\tshare\tof GPU-time\t")
	for _, z := range s.Sizes {
		line("%g\t%d\t%s\t%s\t", z.GPUs, z.Jobs, percent(z.JobShare), percent(z.GPUTimeShare))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line("\ntenant\tjobs\tshare\tGPU-hours\tshare\tGPUs/job\tp50 duration\t")
	for _, t := range s.Tenants {
		name := t.Tenant
		if name == "" {
			name = "(none)"
		}
		line("%s\t%d\t%s\t%.0f\t%s\t%.1f\t%s\t", name, t.Jobs, percent(t.JobShare), t.GPUHours, percent(t.GPUTimeShare), t.MeanGPUs, span(t.P50S))
	}
	return w.Flush()
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
