package decide

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	history   cli.HistoryFlags
	changes   changesFlag
	record    recordFlags
	estimates estimatesFlag
	tariff    cli.TariffFlags
	energy    bool

	start space.Config // after check
}

func newSimulateCmd() *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate a trace under one configuration of a scheduler, and report delays and JCTs",
		Long: `Replays the jobs of a trace on a cluster, under one configuration of a scheduler,
until the last one ends. The cluster starts empty; jobs of the --warmup before
--from fill it and do not count.

Schedulers that learn from jobs that have ended (lucid; tiresias with
priority=gittins) know those of the trace that ended in the week before the warm-up.

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

Schedulers know no run times unless --estimates gives them: with exact, those of a
perfect predictor. Of them chronus, lucid, optimus, slurm, themis and, with
policy=finish_time_fairness, gavel use run times; a note says if none did.`,
		Example: `  autosched simulate --trace sample --nodes 20 --gpus-per-node 8 --scheduler fifo --set backfill=true
  autosched simulate --trace jobs.csv.gz --nodes 100 --gpus-per-node 8 --scheduler tiresias \
      --set queues=4 --set queue_thresholds=3600,36000,360000 --jobs-out jobs-done.csv
  autosched simulate --trace sample --scheduler tiresias --preset ladder-7200x6 --json
  autosched simulate --trace sample --nodes 12 --scheduler chronus --estimates 0.7 --set slo_share=0.3
  autosched simulate --trace sample --nodes 12 --scheduler themis --set-at 2017-10-10T06:00:00Z:lease_term=300 \
      --timeline run.json.gz`,
		Args: cli.NoArgs,
		RunE: cli.Report(&o.history.JSON, "simulation/v1", o.check, o.run, (*simulateReport).print),
	}
	o.history.Add(cmd)
	o.history.AddNodeEvents(cmd)
	o.changes.add(cmd)
	o.record.add(cmd)
	o.estimates.add(cmd)
	o.tariff.Add(cmd)
	o.tariff.AddDeferrable(cmd)
	cmd.Flags().BoolVar(&o.energy, "energy", false,
		"report energy, cost and CO2, too, as energy report does; --power, --prices and --carbon imply it")
	return cmd
}

// check checks all that needs no trace.
func (o *simulateOptions) check() error {
	if err := o.record.check(); err != nil {
		return err
	}
	if err := o.estimates.check(); err != nil {
		return err
	}
	scheduler, config, err := o.history.Check()
	if err != nil {
		return err
	}
	if err := o.tariff.Check(o.history.Scheduler); err != nil {
		return err
	}
	o.start = config
	return o.changes.check(scheduler, config)
}

// run simulates and writes the files that flags name. Notes and progress go to
// notes.
func (o *simulateOptions) run(ctx context.Context, notes io.Writer) (*simulateReport, error) {
	tariff, err := o.tariff.Read()
	if err != nil {
		return nil, err
	}
	in, err := o.history.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	changes, err := o.changes.changes(in.Trace, in.Scheduler, o.start)
	if err != nil {
		return nil, err
	}
	counted := in.Trace.Window(in.From, in.To)
	if counted.Len() == 0 {
		return nil, fmt.Errorf("no job of %s is submitted between --from and --to", in.Trace.Name())
	}
	if counted.Ended() == 0 {
		fmt.Fprintf(notes, "note: %s: no job between --from and --to had ended when the trace was written: there is no JCT or "+
			"delay to report, and zeros stand for none\n", in.Trace.Name())
	}
	var sim simulator.Sim
	w := in.Jobs()
	in.Options = in.Simulation(o.history.Cluster)
	in.Options.PerTenant, in.Options.Attribute = true, true
	in.Options.Estimate = o.estimates.estimate(w.Jobs(), o.history.Seed)
	asked := noteAsking(&in.Options)
	recorder, err := o.record.begin(&sim, in.Trace, o.history.Cluster, &in.Options)
	if err != nil {
		return nil, err
	}
	defer recorder.abort() // unless it ends
	cluster := o.history.Cluster
	if err := o.tariff.Operate(tariff, in, notes); err != nil {
		return nil, err
	}
	var spells *energy.Recorder
	if o.energy || o.tariff.Given() {
		meter, err := tariff.Meter(cluster, in.Trace.Zero())
		if err != nil {
			return nil, err
		}
		spells = &energy.Recorder{Meter: meter}
		in.Options.Meter = spells
	}
	began := time.Now()
	if err := sim.Start(cluster, w, in.Scheduler.New(o.start), in.Options); err != nil {
		return nil, err
	}
	made, err := play(ctx, &sim, in.Scheduler, changes, recorder, cli.NewProgressLine(notes))
	if err != nil {
		return nil, err
	}
	wall := time.Since(began)
	if in.Options.Estimate != nil && !*asked {
		fmt.Fprintf(notes, "note: %s asked for no run time: --estimates made no difference\n", in.Scheduler.Name)
	}
	r := &simulateReport{
		Trace: in.Trace.Name(), Synthetic: in.Trace.Synthetic(), Scheduler: in.Scheduler.Name, Configuration: o.start,
		Cluster: cluster.String(), Nodes: cluster.Nodes(), GPUsPerNode: cluster.GPUsPerNode(), Seed: o.history.Seed,
		WarmUp: w.Len() - counted.Len(), Summary: sim.Summarize(), NodeEvents: in.NodeEvents, Wall: wall.Seconds(),
		Delays: sim.Delays(), Changes: made,
	}
	r.Tenants, r.Compliance = sim.TenantReports()
	r.Sleep, r.Deferred = sim.Sleep(), sim.Deferred()
	if spells != nil {
		timeline := &energy.Input{Cluster: cluster, Nodes: in.Options.Nodes, Zero: in.Trace.Zero(), From: in.From,
			To: sim.Now()}
		timeline.Fill(&sim, spells)
		if r.Energy, err = tariff.Account(timeline); err != nil {
			return nil, err
		}
		for _, note := range r.Energy.Notes {
			fmt.Fprintf(notes, "note: %s\n", note)
		}
	}
	return r, recorder.end(&in.Options, func() (*chart.Page, error) {
		return r.page(recorder.samples, sim.Outcomes(nil), cluster.TotalGPUs())
	})
}

type simulateReport struct {
	Trace         string       `json:"trace"`
	Synthetic     bool         `json:"synthetic"`
	Scheduler     string       `json:"scheduler"`
	Configuration space.Config `json:"configuration"`
	Cluster       string       `json:"cluster"`
	Nodes         int          `json:"nodes"`
	GPUsPerNode   int          `json:"gpus_per_node"` // of the largest node
	// Changes are the configurations that took its place during the run.
	Changes []changeReport `json:"changes,omitempty"`
	// NodeEvents counts those of --node-events, or else those that the trace shows; Nodes
	// has the nodes that they add.
	NodeEvents int `json:"node_events,omitempty"`
	// WarmUp are the jobs before --from that ran and do not count.
	WarmUp int    `json:"warm_up_jobs,omitempty"`
	Seed   uint64 `json:"seed"`
	simulator.Summary
	Wall       float64                  `json:"wall_s"`
	Delays     []simulator.Delay        `json:"queue_causes"`
	Tenants    []simulator.TenantReport `json:"tenants"`
	Compliance float64                  `json:"fair_share_compliance"`
	// Sleep is absent where nodes do not sleep, Deferred where jobs are not deferred.
	Sleep    *simulator.Sleep    `json:"sleep,omitempty"`
	Deferred *simulator.Deferred `json:"deferred,omitempty"`
	Energy   *energy.Report      `json:"energy,omitempty"`
}

// estimatesFlag is --estimates: the run times that the scheduler knows.
type estimatesFlag struct {
	text  string
	sigma float64
}

// mostWrong bounds the error of run times: beyond it they say nothing.
const mostWrong = 10

func (f *estimatesFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "estimates", "none",
		"run-time estimates that the scheduler gets: none, exact, or exact times a lognormal error of this sigma "+
			"(0.7: two of three within a factor of 2)")
}

// check reads the flag.
func (f *estimatesFlag) check() error {
	switch f.text {
	case "none", "exact":
		return nil
	}
	var err error
	if f.sigma, err = strconv.ParseFloat(f.text, 64); err != nil || !(f.sigma > 0 && f.sigma <= mostWrong) {
		return cli.Usage(fmt.Errorf("--estimates: %q is not none, exact or a number above 0, at most %d", f.text,
			mostWrong))
	}
	return nil
}

// estimate is Options.Estimate for some jobs, nil if no run time is known.
func (f *estimatesFlag) estimate(jobs []workload.Job, seed uint64) func(*workload.Job) time.Duration {
	switch {
	case f.text == "none":
		return nil
	case f.sigma == 0:
		return func(j *workload.Job) time.Duration { return j.Duration }
	}
	estimates := make(map[string]time.Duration, len(jobs))
	r := rng.Stream("told", seed)
	for i := range jobs {
		d := float64(jobs[i].Duration) * math.Exp(f.sigma*r.NormFloat64())
		estimates[jobs[i].ID] = time.Duration(max(1, min(d, float64(workload.MaxDuration))))
	}
	return func(j *workload.Job) time.Duration { return estimates[j.ID] }
}

// noteAsking reports, after the run, whether the scheduler asked for a run time:
// some do so under some configurations only.
func noteAsking(o *simulator.Options) *bool {
	asked := new(bool)
	if estimate := o.Estimate; estimate != nil {
		o.Estimate = func(j *workload.Job) time.Duration {
			*asked = true
			return estimate(j)
		}
	}
	return asked
}

// page draws GPUs in use and queued over time, and the distribution of JCTs.
func (r *simulateReport) page(samples []simulator.Sample, jobs []simulator.Outcome, gpus int) (*chart.Page, error) {
	shown := *r
	shown.Wall = 0 // the page of a run is the same again
	lead := fmt.Sprintf("A job completes in %s on average, of which it waits %s. Under %s, %.1f %% of the GPU-time is "+
		"used, and p99 JCT is %s.", units.Duration(r.AvgJCT), units.Duration(r.AvgQueue), r.Scheduler,
		100*r.Utilization, units.Duration(r.P99JCT))
	if len(jobs) == 0 {
		lead = "No job ended, so there is no JCT to report."
	}
	p, err := cli.NewPage(fmt.Sprintf("simulate: %s on %s", r.Scheduler, r.Trace), r.Synthetic, lead, shown.print)
	if err != nil {
		return nil, err
	}
	p.First = usageChart(samples, gpus)
	p.Facts = []chart.Fact{{Name: "Jobs", Value: units.Count(r.Jobs)}, {Name: "Cluster", Value: r.Cluster},
		{Name: "Configuration", Value: r.Configuration.String(), Mono: true}}
	if len(jobs) > 0 {
		p.Sections = []chart.Section{{Title: "Job completion time", Hint: "The share of the jobs with at most this.",
			Rows: []chart.Row{{Height: 330, Charts: []*chart.Chart{jctChart(jobs)}}}}}
	}
	return p, nil
}

// usageChart is steps: a mean holds for its interval.
func usageChart(samples []simulator.Sample, gpus int) *chart.Chart {
	unit, name := 3600.0, "hours since the first submission"
	if n := len(samples); n > 0 && (samples[n-1].At-samples[0].At).Hours() > 96 {
		unit, name = 24*3600, "days since the first submission"
	}
	var used, queued []chart.Point
	end := 0.0
	for _, x := range samples {
		from := (x.At - samples[0].At).Seconds() / unit
		used, queued = append(used, chart.Point{X: from, Y: x.GPUs}), append(queued, chart.Point{X: from, Y: x.Queued})
		end = from + x.Span.Seconds()/unit
	}
	used = chart.Steps(used, end)
	return &chart.Chart{
		Title: "GPUs in use and asked for by waiting jobs",
		X:     chart.Axis{Name: name, Max: end},
		Y:     chart.Axis{Name: "GPUs", Include: []float64{0}},
		Layers: []chart.Layer{
			&chart.Area{Mark: chart.Mark{Color: chart.Blue.Fade(.12)}, Points: chart.Under(used)},
			&chart.Line{Mark: chart.Mark{Name: "queued", Color: chart.Orange}, Points: chart.Steps(queued, end)},
			&chart.Line{Mark: chart.Mark{Name: "in use", Color: chart.Blue}, Points: used},
			&chart.Line{Mark: chart.Mark{Name: "GPUs of the cluster", Color: chart.Gray},
				Points: cli.HorizontalLine(float64(gpus)),
				Dash:   cli.DashedLine},
		},
	}
}

// jctChart is the share of jobs with at most each JCT.
func jctChart(jobs []simulator.Outcome) *chart.Chart {
	var jcts []float64
	for i := range jobs {
		jcts = append(jcts, max(1, jobs[i].JCT().Seconds()))
	}
	slices.Sort(jcts)
	curve := []chart.Point{{X: jcts[0]}}
	step := len(jcts)/cli.MaxPoints + 1
	for i := step - 1; i < len(jcts); i += step {
		curve = append(curve, chart.Point{X: jcts[i], Y: float64(i+1) / float64(len(jcts))})
	}
	longest := jcts[len(jcts)-1]
	curve = append(curve, chart.Point{X: longest, Y: 1})
	return &chart.Chart{
		X:      chart.Axis{Name: "JCT, logarithmic", Log: true, Ticks: chart.DurationTicks()},
		Y:      chart.Axis{Name: "share of jobs", Max: 1},
		Layers: []chart.Layer{&chart.Line{Mark: chart.Mark{Color: chart.Blue}, Points: chart.Steps(curve, longest)}},
	}
}

func (r *simulateReport) print(w io.Writer) error {
	t := table.New(w, "")
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
	if r.Cancelled > 0 {
		row("cancelled", "%d jobs, preempted; their JCT ends there", r.Cancelled)
	}
	row("fair-share compliance", "%.1f %% of tenants and hours", 100*r.Compliance)
	if r.Wall > 0 {
		row("simulated in", "%.1f ms, %d events", 1000*r.Wall, r.Events)
	}
	if r.Sleep != nil {
		row("sleep", "%.0f node-hours; %s", r.Sleep.NodeHours, cli.SleepText(r.Sleep))
	}
	if r.Deferred != nil {
		row("deferred", "%s", cli.DeferredText(r.Deferred))
	}
	if e := r.Energy; e != nil {
		row("energy", "%s, of it idle %s", cli.BandText("%s kWh", e.Cluster.Energy),
			cli.ThreeDigits(e.Idle.Energy.Middle))
		row("cost of energy", "%s", cli.BandText("$ %s", e.Cluster.Cost))
		row("CO2", "%s", cli.BandText("%s kg", e.Cluster.CO2))
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
	t := table.Numbers(w, "tenant\tquota\tweight\tjobs\tavg JCT s\tp95\tavg queue s\tp95\trho<=1\tpreemptions\t"+
		"GPU-hours\tshare\tof quota\tfair hours\t")
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
