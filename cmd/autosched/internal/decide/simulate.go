package decide

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
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
	if err := recorder.end(&in.Options, cluster.TotalGPUs()); err != nil {
		return nil, err
	}
	r := &simulateReport{
		Trace: in.Trace.Name(), Synthetic: in.Trace.Synthetic(), Scheduler: in.Scheduler.Name, Configuration: o.start,
		Cluster: cluster.String(), Nodes: cluster.Nodes(), GPUsPerNode: cluster.GPUsPerNode(), Seed: o.history.Seed,
		WarmUp: w.Len() - counted.Len(), Summary: sim.Summarize(), NodeEvents: in.NodeEvents, Wall: wall.Seconds(),
		Delays: sim.Delays(), Changes: made,
	}
	r.Tenants, r.Compliance = sim.TenantReports()
	r.Sleep, r.Deferred = sim.Sleep(), sim.Deferred()
	if spells == nil {
		return r, nil
	}
	timeline := &energy.Input{Cluster: cluster, Nodes: in.Options.Nodes, Zero: in.Trace.Zero(), From: in.From,
		To: sim.Now()}
	timeline.Fill(&sim, spells)
	if r.Energy, err = tariff.Account(timeline); err != nil {
		return nil, err
	}
	for _, note := range r.Energy.Notes {
		fmt.Fprintf(notes, "note: %s\n", note)
	}
	return r, nil
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
