package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// recordFlags are what simulate may write of a run over time.
type recordFlags struct {
	series, tenants, timeline, plot, jobs string
	interval                              time.Duration
}

func (f *recordFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.series, "series", "", "write running and waiting jobs (those also by GPUs), GPUs in use and queued, fragmentation, utilisation (means over each interval), preemptions so far, and the objectives of the jobs that ended in it to this CSV file (.gz: compressed)")
	fl.StringVar(&f.tenants, "series-by-tenant", "", "write each tenant's running and waiting jobs, GPUs held and queued (means over each interval in which it has jobs), preemptions so far, and the objectives of its jobs that ended to this CSV file (.gz: compressed)")
	fl.DurationVar(&f.interval, "series-interval", 10*time.Minute, "interval of --series, --series-by-tenant and --plot")
	fl.StringVar(&f.timeline, "timeline", "", "write who ran where and when in Chrome trace format, which opens in Perfetto, to this JSON file (.gz: compressed)")
	fl.StringVar(&f.jobs, "jobs-out", "", "write what became of every job to this CSV file (.gz: compressed)")
	fl.StringVar(&f.plot, "plot", "", "draw GPUs in use and queued over time and the JCTs to this .png or .svg file")
}

// recorder follows one run. Its zero value follows nothing.
type recorder struct {
	flags   *recordFlags
	sim     *simulator.Sim
	series  *atomicfile.File
	tenants *atomicfile.File
	line    *atomicfile.File
	jobs    *atomicfile.File
	plot    *atomicfile.File
	drawn   *simulator.Timeline
	samples []simulator.Sample
	row     []byte
	err     error // of series
	failed  error // of tenants
}

func (f *recordFlags) check() error {
	if f.interval < time.Second {
		return usageError{fmt.Errorf("--series-interval: %v is less than a second", f.interval)}
	}
	return checkPlot(f.plot, ".png", ".svg")
}

// begin opens the files and hooks into the options of a run.
func (f *recordFlags) begin(sim *simulator.Sim, zero time.Time, o *simulator.Options) (_ *recorder, err error) {
	r := &recorder{flags: f, sim: sim}
	defer func() {
		if err != nil {
			r.abort()
		}
	}()
	if f.series != "" {
		if r.series, err = atomicfile.Create(f.series); err != nil {
			return nil, fmt.Errorf("--series: %w", err)
		}
		_, r.err = io.WriteString(r.series, "start_s,seconds,running_jobs,waiting_jobs,gpus_in_use,gpus_queued,fragmentation,utilization,preemptions,"+sizeColumns()+","+endedColumns+"\n")
	}
	if f.tenants != "" {
		if r.tenants, err = atomicfile.Create(f.tenants); err != nil {
			return nil, fmt.Errorf("--series-by-tenant: %w", err)
		}
		_, r.failed = io.WriteString(r.tenants, "start_s,seconds,tenant,running_jobs,waiting_jobs,gpus_held,gpus_queued,preemptions,"+endedColumns+"\n")
	}
	for _, x := range []struct {
		flag, path string
		file       **atomicfile.File
	}{{"--jobs-out", f.jobs, &r.jobs}, {"--plot", f.plot, &r.plot}} {
		if x.path == "" {
			continue
		}
		if *x.file, err = atomicfile.Create(x.path); err != nil {
			return nil, fmt.Errorf("%s: %w", x.flag, err)
		}
	}
	if f.series != "" || f.tenants != "" || f.plot != "" {
		o.Series = &simulator.Series{Interval: f.interval, Emit: r.sample}
	}
	if f.tenants != "" {
		o.Series.EmitTenant = r.tenant
	}
	if f.timeline != "" {
		if r.line, err = atomicfile.Create(f.timeline); err != nil {
			return nil, fmt.Errorf("--timeline: %w", err)
		}
		r.drawn = simulator.NewTimeline(r.line, sim, zero)
		o.Observer = r.drawn.Observe
	}
	return r, nil
}

// abort leaves nothing of the files of a run that did not end.
func (r *recorder) abort() {
	for _, s := range []*atomicfile.File{r.series, r.tenants, r.line, r.jobs, r.plot} {
		s.Abort()
	}
}

// mark notes a change of configuration at the run's present instant.
func (r *recorder) mark(name, text string) {
	if r.drawn != nil {
		r.drawn.Mark(name, text)
	}
}

func (r *recorder) sample(x simulator.Sample) {
	if r.flags.plot != "" {
		r.samples = append(r.samples, x)
	}
	if r.series == nil || r.err != nil {
		return
	}
	r.row = fmt.Appendf(r.row[:0], "%s,%s,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%d", secs(x.At), secs(x.Span), x.Running, x.Waiting, x.GPUs, x.Queued, x.Fragmentation, x.Utilization, x.Preemptions)
	for _, n := range x.WaitingBySize {
		r.row = fmt.Appendf(r.row, ",%.6g", n)
	}
	r.row = appendEnded(r.row, &x.Ended)
	_, r.err = r.series.Write(r.row)
}

func (r *recorder) tenant(x simulator.TenantSample) {
	if r.failed != nil {
		return
	}
	r.row = fmt.Appendf(r.row[:0], "%s,%s,%s,%.6g,%.6g,%.6g,%.6g,%d", secs(x.At), secs(x.Span), csvField(x.Tenant), x.Running, x.Waiting, x.GPUs, x.Queued, x.Preemptions)
	r.row = appendEnded(r.row, &x.Ended)
	_, r.failed = r.tenants.Write(r.row)
}

// endedColumns are of the jobs that ended in an interval; all but the first are
// empty where none did.
const endedColumns = "ended_jobs,avg_jct_s,p50_jct_s,p95_jct_s,p99_jct_s,avg_queue_s,p95_queue_s,ftf_le_1,p95_rho,max_rho,slowdown,spread_share,restart_gpu_hours,deadline_jobs,deadline_misses"

func appendEnded(row []byte, o *simulator.Objectives) []byte {
	row = fmt.Appendf(row, ",%d", o.Jobs)
	if o.Jobs == 0 {
		return fmt.Append(row, strings.Repeat(",", strings.Count(endedColumns, ",")), "\n")
	}
	for _, v := range []float64{o.AvgJCT, o.P50JCT, o.P95JCT, o.P99JCT, o.AvgQueue, o.P95Queue, o.FTFLe1, o.P95Rho, o.MaxRho, o.Slowdown, o.SpreadShare, o.RestartGPUHours, float64(o.DeadlineJobs), o.DeadlineMisses} {
		row = fmt.Appendf(row, ",%.6g", v)
	}
	return append(row, '\n')
}

// sizeColumns are the waiting jobs by the GPUs they ask for.
func sizeColumns() string {
	var names []string
	for _, n := range simulator.SizeNames {
		names = append(names, "waiting_jobs_"+n+"_gpus")
	}
	return strings.Join(names, ",")
}

// csvField quotes a text where CSV needs it.
func csvField(s string) string {
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// end completes the files of a run that is over.
func (r *recorder) end(o *simulator.Options, cluster workload.Cluster) error {
	if o.Series != nil {
		o.Series.Flush(r.sim)
	}
	if r.series != nil {
		if err := r.series.Finish(r.err); err != nil {
			return fmt.Errorf("--series: %w", err)
		}
	}
	if r.tenants != nil {
		if err := r.tenants.Finish(r.failed); err != nil {
			return fmt.Errorf("--series-by-tenant: %w", err)
		}
	}
	if r.drawn != nil {
		if err := r.line.Finish(r.drawn.Close()); err != nil {
			return fmt.Errorf("--timeline: %w", err)
		}
	}
	if r.jobs != nil {
		if err := r.jobs.Finish(writeOutcomes(r.jobs, r.sim)); err != nil {
			return fmt.Errorf("--jobs-out: %w", err)
		}
	}
	if r.plot != nil {
		if err := r.plot.Finish(drawRun(r.samples, r.sim.Outcomes(nil), cluster.TotalGPUs()).Write(r.plot, r.flags.plot)); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	return nil
}
