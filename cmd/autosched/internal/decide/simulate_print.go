package decide

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/simulator"
)

func (r *simulateReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, v ...any) { fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, v...)...) }
	row("trace", "%s%s", r.Trace, cli.SyntheticLabel(r.Synthetic))
	row("cluster", "%s", r.Cluster)
	if r.NodeEvents > 0 {
		row("node events", "%d", r.NodeEvents)
	}
	row("scheduler", "%s", r.Scheduler)
	row("configuration", "%s", r.Configuration)
	for _, c := range r.Changes {
		row(fmt.Sprintf("  from %.0f s on", c.At), "%s", c.Configuration)
	}
	row("jobs", "%d", r.Jobs)
	if r.WarmUp > 0 {
		row("warm-up", "%d jobs before --from, which do not count", r.WarmUp)
	}
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
	row("slowdown on GPUs", "%.3f times the run time at full speed, %.1f %% of jobs spread", r.Slowdown,
		100*r.SpreadShare)
	if r.DeadlineJobs > 0 {
		row("deadlines", "%.1f %% of %d missed", 100*r.DeadlineMisses, r.DeadlineJobs)
	}
	if r.TimedOut > 0 {
		row("time limits", "%d jobs ended at theirs", r.TimedOut)
	}
	row("fair-share compliance", "%.1f %% of tenants and hours", 100*r.Compliance)
	row("simulated in", "%.1f ms, %d events", 1000*r.Wall, r.Events)
	if r.Sleep != nil {
		row("sleep", "%.0f node-hours; %s", r.Sleep.NodeHours, cli.SleepText(r.Sleep))
	}
	if r.Deferred != nil {
		row("deferred", "%s", cli.DeferredText(r.Deferred))
	}
	if e := r.Energy; e != nil {
		row("energy", "%s kWh (%s to %s), of it idle %s", cli.ThreeDigits(e.Cluster.Energy.Middle),
			cli.ThreeDigits(e.Cluster.Energy.Low),
			cli.ThreeDigits(e.Cluster.Energy.High), cli.ThreeDigits(e.Idle.Energy.Middle))
		row("cost of energy", "$ %s (%s to %s)", cli.ThreeDigits(e.Cluster.Cost.Middle),
			cli.ThreeDigits(e.Cluster.Cost.Low),
			cli.ThreeDigits(e.Cluster.Cost.High))
		row("CO2", "%s kg (%s to %s)", cli.ThreeDigits(e.Cluster.CO2.Middle), cli.ThreeDigits(e.Cluster.CO2.Low),
			cli.ThreeDigits(e.Cluster.CO2.High))
		row("SCI of a GPU-hour, EDP", "%s kg, %s kWh h", cli.ThreeDigits(e.SCI.GPUHour.Middle),
			cli.ThreeDigits(e.EDP.Middle))
	}
	if err := t.Flush(); err != nil || len(r.Tenants) < 2 {
		return err
	}
	return r.printTenants(w)
}

func (r *simulateReport) printTenants(w io.Writer) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "tenant\tquota\tweight\tjobs\tavg JCT s\tp95\tavg queue "+
		"s\tp95\trho<=1\tpreemptions\tGPU-hours\tshare\tof quota\tfair hours\t")
	for i := range r.Tenants {
		x := &r.Tenants[i]
		name, used := x.Tenant, "-"
		if name == "" {
			name = "(none)"
		}
		if x.Quota > 0 {
			used = fmt.Sprintf("%.1f %%", 100*x.QuotaUtilization)
		}
		fmt.Fprintf(t, "%s\t%d\t%g\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f %%\t%d\t%.0f\t%.1f %%\t%s\t%d of %d\t\n", name,
			x.Quota, x.Weight, x.Jobs, x.AvgJCT, x.P95JCT, x.AvgQueue,
			x.P95Queue, 100*x.FTFLe1, x.Preemptions, x.GPUHours, 100*x.Share, used, x.FairHours, x.Hours)
	}
	return t.Flush()
}

// writeOutcomes writes a row per job, in order of submission. Instants are
// seconds since the trace's zero.
func writeOutcomes(out io.Writer, sim *simulator.Sim) error {
	w := csv.NewWriter(out)
	w.Write([]string{"job_id", "tenant", "submit_s", "gpus", "start_s", "end_s", "jct_s", "queue_s", "preemptions",
		"restart_s", "rho", "key", "model", "strayed", "held_s"})
	for _, o := range sim.Outcomes(nil) {
		spec := sim.Spec(o.ID)
		w.Write([]string{spec.ID, spec.Tenant, secs(o.Submit), strconv.Itoa(o.GPUs), secs(o.Start), secs(o.End),
			secs(o.JCT()), secs(o.Wait),
			strconv.Itoa(o.Preemptions), secs(o.Restart), strconv.FormatFloat(o.Rho, 'g', 6, 64), spec.Key, spec.Model,
			strconv.FormatBool(o.Strayed), secs(o.Attained / time.Duration(o.GPUs))})
	}
	w.Flush()
	return w.Error()
}

func secs(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
