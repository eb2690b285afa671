package decide

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// recordFlags name the files that simulate writes about a run.
type recordFlags struct {
	series, tenants, timeline, jobs, events string
	plot                                    cli.PlotFlag
	interval                                time.Duration
}

func (f *recordFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.series, "series", "",
		"write running and waiting jobs (those also by GPUs), GPUs in use and queued, fragmentation, utilisation "+
			"(means over each interval), preemptions so far, and the objectives of the jobs that ended in it to this "+
			"CSV file (.gz: compressed)")
	fl.StringVar(&f.tenants, "series-by-tenant", "",
		"write each tenant's running and waiting jobs, GPUs held and queued (means over each interval in which it "+
			"has jobs), preemptions so far, and the objectives of its jobs that ended to this CSV file (.gz: "+
			"compressed)")
	fl.DurationVar(&f.interval, "series-interval", 10*time.Minute,
		"interval of --series, --series-by-tenant and --plot")
	fl.StringVar(&f.timeline, "timeline", "",
		"write which job ran where and when to this JSON file in Chrome trace format, which opens in Perfetto (.gz: "+
			"compressed)")
	fl.StringVar(&f.jobs, "jobs-out", "", "")
	fl.StringVar(&f.events, "events-out", "", "write what the scheduler would report to the service to this file, an event "+
		"in JSON to a line: a trace of what was simulated (.gz: compressed)")
	f.plot.Add(cmd)
}

// recorder writes the files of one run.
type recorder struct {
	flags  *recordFlags
	sim    *simulator.Sim
	opened []*atomicfile.File
	// nil if the flag is not given
	series, tenants, timeline, jobs, plot, reports *atomicfile.File

	events    *simulator.Timeline
	reported  *trace.EventWriter
	sent      int
	reportErr error
	samples   []simulator.Sample
	row       []byte
	seriesErr error
	tenantErr error
}

func (f *recordFlags) check() error {
	if f.interval < time.Second {
		return cli.Usage(fmt.Errorf("--series-interval: %v is less than a second", f.interval))
	}
	return f.plot.Check()
}

// begin opens the files and sets the options of a run that fill them.
func (f *recordFlags) begin(sim *simulator.Sim, w *workload.Workload, c workload.Cluster, o *simulator.Options) (
	_ *recorder, err error) {
	r := &recorder{flags: f, sim: sim}
	open := func(flag, path string) *atomicfile.File {
		if path == "" || err != nil {
			return nil
		}
		var file *atomicfile.File
		if file, err = atomicfile.Create(path); err != nil {
			err = fmt.Errorf("%s: %w", flag, err)
			return nil
		}
		r.opened = append(r.opened, file)
		return file
	}
	r.series, r.tenants = open("--series", f.series), open("--series-by-tenant", f.tenants)
	r.jobs, r.plot, r.timeline = open("--jobs-out", f.jobs), open("--plot", f.plot.Path), open("--timeline", f.timeline)
	r.reports = open("--events-out", f.events)
	if err != nil {
		r.abort()
		return nil, err
	}
	if r.series != nil || r.tenants != nil || r.plot != nil {
		o.Series = &simulator.Series{Interval: f.interval, Emit: r.sample}
	}
	if r.series != nil {
		_, r.seriesErr = io.WriteString(r.series, "start_s,seconds,running_jobs,waiting_jobs,gpus_in_use,gpus_queued,"+
			"fragmentation,utilization,preemptions,"+sizeColumns()+","+endedColumns+"\n")
	}
	if r.tenants != nil {
		o.Series.EmitTenant = r.tenant
		_, r.tenantErr = io.WriteString(r.tenants,
			"start_s,seconds,tenant,running_jobs,waiting_jobs,gpus_held,gpus_queued,preemptions,"+endedColumns+"\n")
	}
	if r.timeline != nil {
		r.events = simulator.NewTimeline(r.timeline, sim, w.Zero())
	}
	if r.reports != nil {
		groups := c.Groups
		if len(o.Nodes) > 0 { // which the events do not have
			groups = nil
		}
		r.reported, r.reportErr = trace.NewEventWriter(r.reports, w.Zero(), w.Synthetic(), groups...)
	}
	if r.timeline != nil || r.reports != nil {
		o.Observer = r.observe
	}
	return r, nil
}

// abort discards the files of a run that did not end.
func (r *recorder) abort() {
	for _, f := range r.opened {
		f.Abort()
	}
}

// observe passes an event of the run on to the files that have it.
func (r *recorder) observe(e simulator.Event) {
	if r.events != nil {
		r.events.Observe(e)
	}
	if r.reported != nil && r.reportErr == nil {
		x := live.Report(r.sim, e, "")
		r.sent++
		x.ID = strconv.Itoa(r.sent)
		r.reportErr = r.reported.Write(&x)
	}
}

// mark adds a change of configuration to the timeline, at the run's present time.
func (r *recorder) mark(name, text string) {
	if r.events != nil {
		r.events.Mark(name, text)
	}
}

func (r *recorder) sample(x simulator.Sample) {
	if r.plot != nil {
		r.samples = append(r.samples, x)
	}
	if r.series == nil || r.seriesErr != nil {
		return
	}
	r.row = fmt.Appendf(r.row[:0], "%s,%s,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%d", secs(x.At), secs(x.Span), x.Running,
		x.Waiting, x.GPUs, x.Queued, x.Fragmentation, x.Utilization, x.Preemptions)
	for _, n := range x.WaitingBySize {
		r.row = fmt.Appendf(r.row, ",%.6g", n)
	}
	r.row = appendEnded(r.row, &x.Ended)
	_, r.seriesErr = r.series.Write(r.row)
}

func (r *recorder) tenant(x simulator.TenantSample) {
	if r.tenantErr != nil {
		return
	}
	r.row = fmt.Appendf(r.row[:0], "%s,%s,%s,%.6g,%.6g,%.6g,%.6g,%d", secs(x.At), secs(x.Span), csvField(x.Tenant),
		x.Running, x.Waiting, x.GPUs, x.Queued, x.Preemptions)
	r.row = appendEnded(r.row, &x.Ended)
	_, r.tenantErr = r.tenants.Write(r.row)
}

// endedColumns describe the jobs that ended in an interval; all but the first are
// empty if none did.
const endedColumns = "ended_jobs,avg_jct_s,p50_jct_s,p95_jct_s,p99_jct_s,avg_queue_s,p95_queue_s,ftf_le_1," +
	"p95_rho,max_rho,slowdown,spread_share,restart_gpu_hours,deadline_jobs,deadline_misses,timed_out,cancelled"

func appendEnded(row []byte, o *simulator.Objectives) []byte {
	row = fmt.Appendf(row, ",%d", o.Jobs)
	if o.Jobs == 0 {
		return fmt.Append(row, strings.Repeat(",", strings.Count(endedColumns, ",")), "\n")
	}
	for _, v := range []float64{o.AvgJCT, o.P50JCT, o.P95JCT, o.P99JCT, o.AvgQueue, o.P95Queue, o.FTFLe1, o.P95Rho,
		o.MaxRho, o.Slowdown, o.SpreadShare, o.RestartGPUHours, float64(o.DeadlineJobs), o.DeadlineMisses,
		float64(o.TimedOut), float64(o.Cancelled)} {
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

// end completes the files of a run that ended.
func (r *recorder) end(o *simulator.Options, page func() (*chart.Page, error)) error {
	if o.Series != nil {
		o.Series.Flush(r.sim)
	}
	for _, x := range []struct {
		flag string
		file *atomicfile.File
		fill func() error
	}{
		{"--series", r.series, func() error { return r.seriesErr }},
		{"--series-by-tenant", r.tenants, func() error { return r.tenantErr }},
		{"--timeline", r.timeline, func() error { return r.events.Close() }},
		{"--events-out", r.reports, func() error { return r.reportErr }},
		{"--jobs-out", r.jobs, func() error { return writeOutcomes(r.jobs, r.sim) }},
		{"--plot", r.plot, func() error {
			p, err := page()
			if err != nil {
				return err
			}
			return r.flags.plot.WriteTo(r.plot, p)
		}},
	} {
		if x.file == nil {
			continue
		}
		if err := x.file.Finish(x.fill()); err != nil {
			return fmt.Errorf("%s: %w", x.flag, err)
		}
	}
	return nil
}

// changesFlag is the repeatable --set-at.
type changesFlag struct{ texts []string }

func (f *changesFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.texts, "set-at", nil,
		"INSTANT:key=value, a parameter that is changed during the run, repeatable; INSTANT as in --from")
}

// change is a configuration that holds from an instant on.
type change struct {
	at     time.Duration
	set    []string
	config space.Config
}

// split is one of the texts: an instant and an assignment.
func (f *changesFlag) split(text string) (instant, set string, err error) {
	name, _, assigns := strings.Cut(text, "=")
	at := strings.LastIndex(name, ":") // instants may have colons, names of parameters have none
	if !assigns || at < 0 {
		return "", "", cli.Usage(fmt.Errorf("--set-at: %q is not INSTANT:key=value", text))
	}
	return text[:at], text[at+1:], nil
}

// check checks all that needs no trace. changes checks values that rules tie to
// others.
func (f *changesFlag) check(s *schedulers.Scheduler, config space.Config) error {
	for _, text := range f.texts {
		instant, set, err := f.split(text)
		if err != nil {
			return err
		}
		if err := trace.CheckInstant(instant); err != nil {
			return cli.Usage(fmt.Errorf("--set-at: %w", err))
		}
		key, _, _ := strings.Cut(set, "=")
		if _, ok := s.Space.Param(strings.TrimSpace(key)); !ok {
			if _, err := s.Space.Parse(config, []string{set}); err != nil {
				return cli.Usage(fmt.Errorf("--set-at: %w", err))
			}
		}
	}
	return nil
}

// changes are those of the flag in order of time. Each starts from the configuration
// before it.
func (f *changesFlag) changes(w *workload.Workload, s *schedulers.Scheduler, config space.Config) ([]change, error) {
	var out []change
	for _, text := range f.texts {
		from, set, err := f.split(text)
		if err != nil {
			return nil, err
		}
		instant, err := trace.ParseInstant(w, from)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--set-at: %w", err))
		}
		i := slices.IndexFunc(out, func(c change) bool { return c.at == instant })
		if i < 0 {
			i = len(out)
			out = append(out, change{at: instant})
		}
		out[i].set = append(out[i].set, set)
	}
	slices.SortStableFunc(out, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for i := range out {
		var err error
		if config, err = s.Space.Parse(config, out[i].set); err != nil {
			return nil, cli.Usage(fmt.Errorf("--set-at: %w", err))
		}
		out[i].config = config
	}
	return out, nil
}

// changeReport is a change as simulate reports it.
type changeReport struct {
	At            float64      `json:"at_s"`
	Configuration space.Config `json:"configuration"`
}

// play runs to the end and reconfigures on the way. It returns the changes that were
// made; those after the end of the last job are noted.
func play(ctx context.Context, sim *simulator.Sim, s *schedulers.Scheduler, changes []change, r *recorder,
	line *cli.ProgressLine) ([]changeReport, error) {
	defer line.Clear()
	ctx = followed{ctx, sim, line}
	var made []changeReport
	for _, c := range changes {
		if err := sim.RunUntil(ctx, c.at); err != nil {
			return nil, err
		}
		if sim.Done() {
			line.Clear()
			fmt.Fprintf(line.Out, "note: --set-at: all jobs have ended before %s is set\n", strings.Join(c.set, ", "))
			continue
		}
		sim.Reconfigure(s.New(c.config))
		r.mark("configuration", strings.Join(c.set, ", "))
		made = append(made, changeReport{c.at.Seconds(), c.config})
	}
	return made, sim.Run(ctx)
}

// followed shows the progress of a run whenever the run checks its context, which
// it does every few thousand events. Stopping the run to look would round its sums
// differently. Err reads the run and writes a line, so only the goroutine of the run
// may call it: pass it to a Sim alone and derive no context from it, which would call
// Err from another goroutine.
type followed struct {
	context.Context
	sim  *simulator.Sim
	line *cli.ProgressLine
}

func (f followed) Err() error {
	f.line.Show("%d of %d jobs submitted, %d active, %d of them waiting", f.sim.Submitted(), f.sim.Len(),
		f.sim.Active(), f.sim.Waiting())
	return f.Context.Err()
}
