package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

func newSimulateCmd() *cobra.Command {
	var f replayFlags
	var c configFlag
	var later changesFlag
	var record recordFlags
	var told toldFlag
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Replay a trace under a scheduler and report what became of its jobs",
		Long: `Replays the jobs of a trace on a cluster that starts empty, under one
configuration of a scheduler, until the last one ends.

Times are in seconds. rho is the finish-time fairness: JCT over the run time
times max(1, the job's GPUs x mean active jobs over its life / GPUs of the
cluster). Utilisation is the GPU-time in use over capacity between the first
and the last submission.

Queueing delay is attributed to its cause at every instant: quota (the tenant
may not hold more), priority (too few GPUs are free), fragmentation (enough are
free, but no place), head_of_line (there is a place, and the scheduler did not
start the job: behind a blocking one, or before the next round). Fair-share
compliance is the share of all (tenant, hour) with demand in which the tenant
held GPU-time within 5 % of its weighted max-min fair share. --json has all
metrics of each tenant too; docs/simulator.md says what each means.

Schedulers are told nothing of run times unless --told says so: with exact, what
a perfect predictor would tell. Of them chronus, lucid, optimus, themis and, with
policy=finish_time_fairness, gavel ask; a note tells if none did.`,
		Example: `  autosched simulate --trace sample --nodes 20 --gpus-per-node 8 --scheduler fifo --set backfill=true
  autosched simulate --trace jobs.csv.gz --nodes 100 --gpus-per-node 8 --scheduler tiresias \
      --set queues=4 --set queue_thresholds=3600,36000,360000 --jobs-out jobs-done.csv
  autosched simulate --trace sample --scheduler tiresias --preset ladder-7200x6 --json
  autosched simulate --trace sample --nodes 12 --scheduler chronus --told 0.7 --set slo_share=0.3
  autosched simulate --trace sample --nodes 12 --scheduler themis --set-at 2017-10-10T06:00:00Z:lease_term=300 \
      --timeline run.json.gz`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := record.check(); err != nil {
				return err
			}
			if err := told.check(); err != nil {
				return err
			}
			scheduler, config, err := f.configured(&c) // before a long trace is read
			if err != nil {
				return err
			}
			if err := later.check(scheduler, config); err != nil {
				return err
			}
			in, err := f.load(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			changes, err := later.changes(in.trace, in.scheduler, config)
			if err != nil {
				return err
			}
			w := in.trace.Window(in.from, in.to)
			if w.Len() == 0 {
				return fmt.Errorf("no job of %s is submitted between --from and --to", in.trace.Name())
			}
			var sim simulator.Sim
			in.options.PerTenant, in.options.Attribute = true, true
			in.options.Estimate = told.estimate(w.Jobs(), f.seed)
			asked := noteAsking(&in.options)
			recorder, err := record.begin(&sim, in.trace.Zero(), &in.options)
			if err != nil {
				return err
			}
			defer recorder.abort() // unless it ends
			began := time.Now()
			if err := sim.Start(f.cluster, w, in.scheduler.New(config), in.options); err != nil {
				return err
			}
			made, err := play(cmd.Context(), &sim, in.scheduler, changes, recorder, newProgressLine(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			wall := time.Since(began)
			if in.options.Estimate != nil && !*asked {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s asked for no run time: --told made no difference\n", in.scheduler.Name)
			}
			if err := recorder.end(&in.options, f.cluster); err != nil {
				return err
			}
			r := simulateReport{
				Trace: in.trace.Name(), Synthetic: in.trace.Synthetic(), Scheduler: in.scheduler.Name, Configuration: config, Nodes: f.cluster.Nodes(),
				GPUsPerNode: f.cluster.GPUsPerNode(), Seed: f.seed, Summary: sim.Summarize(), Wall: wall.Seconds(), Delays: sim.Delays(), Changes: made,
			}
			r.Tenants, r.Compliance = sim.TenantReports()
			if f.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	f.add(cmd)
	f.addTo(cmd)
	c.add(cmd)
	later.add(cmd)
	record.add(cmd)
	cmd.Flags().StringVar(&told.text, "told", "none", "what the scheduler is told of run times: none, exact, or exact times a lognormal error of this sigma (0.7: two of three within a factor of 2)")
	return cmd
}

type simulateReport struct {
	Trace         string       `json:"trace"`
	Synthetic     bool         `json:"synthetic"`
	Scheduler     string       `json:"scheduler"`
	Configuration space.Config `json:"configuration"`
	Nodes         int          `json:"nodes"`
	GPUsPerNode   int          `json:"gpus_per_node"`
	// Changes are the configurations that took its place during the run.
	Changes []changeReport `json:"changes,omitempty"`
	Seed    uint64         `json:"seed"`
	simulator.Summary
	Wall       float64                  `json:"wall_s"`
	Delays     []simulator.Delay        `json:"queue_causes"`
	Tenants    []simulator.TenantReport `json:"tenants"`
	Compliance float64                  `json:"fair_share_compliance"`
}

func (r *simulateReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, v ...any) { fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, v...)...) }
	row("trace", "%s%s", r.Trace, label(r.Synthetic))
	row("cluster", "%d nodes x %d GPUs", r.Nodes, r.GPUsPerNode)
	row("scheduler", "%s", r.Scheduler)
	row("configuration", "%s", r.Configuration)
	for _, c := range r.Changes {
		row(fmt.Sprintf("  from %.0f s on", c.At), "%s", c.Configuration)
	}
	row("jobs", "%d", r.Jobs)
	row("JCT mean", "%.0f s", r.AvgJCT)
	row("JCT p50, p95, p99", "%.0f, %.0f, %.0f s", r.P50JCT, r.P95JCT, r.P99JCT)
	row("queueing delay mean, p95", "%.0f, %.0f s", r.AvgQueue, r.P95Queue)
	for _, d := range r.Delays {
		row("  of it "+strings.ReplaceAll(d.Cause, "_", " "), "%.0f s (%.1f %%)", d.Seconds, 100*d.Share)
	}
	var sizes []string
	for k, n := range r.WaitingBySize {
		sizes = append(sizes, fmt.Sprintf("%s: %.3g", simulator.SizeNames[k], n))
	}
	row("jobs waiting, mean", "%.3g (by GPUs %s)", r.AvgWaiting, strings.Join(sizes, ", "))
	row("makespan", "%.0f s", r.Makespan)
	row("utilisation", "%.1f %%", 100*r.Utilization)
	row("fragmentation", "%.1f %% of GPUs free on partly used nodes while jobs wait", 100*r.Fragmentation)
	row("rho <= 1", "%.1f %% of jobs (p95 %.2f, max %.2f)", 100*r.FTFLe1, r.P95Rho, r.MaxRho)
	row("preemptions", "%d (%.0f GPU-hours of restarts)", r.Preemptions, r.RestartGPUHours)
	row("slowdown on GPUs", "%.3f times the run time at full speed, %.1f %% of jobs spread", r.Slowdown, 100*r.SpreadShare)
	if r.DeadlineJobs > 0 {
		row("deadlines", "%.1f %% of %d missed", 100*r.DeadlineMisses, r.DeadlineJobs)
	}
	row("fair-share compliance", "%.1f %% of tenants and hours", 100*r.Compliance)
	row("simulated in", "%.1f ms, %d events", 1000*r.Wall, r.Events)
	if err := t.Flush(); err != nil || len(r.Tenants) < 2 {
		return err
	}
	return r.printTenants(w)
}

func (r *simulateReport) printTenants(w io.Writer) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "tenant\tquota\tweight\tjobs\tavg JCT s\tp95\tavg queue s\tp95\trho<=1\tpreemptions\tGPU-hours\tshare\tof quota\tfair hours\t")
	for i := range r.Tenants {
		x := &r.Tenants[i]
		name, used := x.Tenant, "-"
		if name == "" {
			name = "(none)"
		}
		if x.Quota > 0 {
			used = fmt.Sprintf("%.1f %%", 100*x.QuotaUtilization)
		}
		fmt.Fprintf(t, "%s\t%d\t%g\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f %%\t%d\t%.0f\t%.1f %%\t%s\t%d of %d\t\n", name, x.Quota, x.Weight, x.Jobs, x.AvgJCT, x.P95JCT, x.AvgQueue,
			x.P95Queue, 100*x.FTFLe1, x.Preemptions, x.GPUHours, 100*x.Share, used, x.FairHours, x.Hours)
	}
	return t.Flush()
}

// label marks what is shown of synthetic traces.
func label(synthetic bool) string {
	if synthetic {
		return " (synthetic)"
	}
	return ""
}

// writeOutcomes writes a row per job, in order of submission. Instants are
// seconds since the trace's zero.
func writeOutcomes(out io.Writer, sim *simulator.Sim) error {
	w := csv.NewWriter(out)
	w.Write([]string{"job_id", "tenant", "submit_s", "gpus", "start_s", "end_s", "jct_s", "queue_s", "preemptions", "restart_s", "rho", "key", "model", "strayed", "held_s"})
	for _, o := range sim.Outcomes(nil) {
		spec := sim.Spec(o.ID)
		w.Write([]string{spec.ID, spec.Tenant, secs(o.Submit), strconv.Itoa(o.GPUs), secs(o.Start), secs(o.End), secs(o.JCT()), secs(o.Wait),
			strconv.Itoa(o.Preemptions), secs(o.Restart), strconv.FormatFloat(o.Rho, 'g', 6, 64), spec.Key, spec.Model,
			strconv.FormatBool(o.Strayed), secs(o.Attained / time.Duration(o.GPUs))})
	}
	w.Flush()
	return w.Error()
}

func secs(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && cmd.Flags().Lookup("trace") != nil {
		return usageError{fmt.Errorf("%s takes no arguments; for a trace say --trace %s", called(cmd), args[0])}
	}
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, only flags; what is %q?", called(cmd), args[0])}
	}
	return nil
}
