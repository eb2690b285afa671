package waste

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
)

// energySleepOptions are the flags of energy sleep.
type energySleepOptions struct {
	tariff cli.TariffFlags
	log    string
	after  []time.Duration
	spare  int
	gpus   int
	json   bool
}

func newEnergySleepCmd() *cobra.Command {
	o := energySleepOptions{after: []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour}}
	cmd := &cobra.Command{
		Use:   "sleep",
		Short: "Say what sleeping nodes would save on a log of how many nodes had jobs",
		Long: `Replays a log of how many nodes of a cluster had jobs: a node that had none for --sleep-after
sleeps, unless it is one of --spare-nodes beyond those with jobs, and wakes when more nodes
have jobs than are awake. Of the idle nodes, the one that was busy last gets the next job.

Saved is what the sleeping nodes would have drawn, less what waking costs; late are
the wake-ups that found no spare node awake, so that a job waits. How many jobs wait, and how
long, depends on the jobs: simulate and energy report with --scheduler NAME+sleep say that.
Rows without an active node are taken for an outage of the log.`,
		Example: `  autosched energy sleep --node-log active_nodes.csv.gz --gpus-per-node 8
  autosched energy sleep --node-log active_nodes.csv.gz --sleep-after 1h --spare-nodes 20 --prices prices.csv --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.json, "energy-sleep/v1", r, r.print)
		},
	}
	o.tariff.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.log, "node-log", "",
		"CSV file of time,active,total: nodes with jobs and all nodes, each from an instant on (required)")
	fl.DurationSliceVar(&o.after, "sleep-after", o.after, "how long nodes are idle before they sleep, one or several")
	fl.IntVar(&o.spare, "spare-nodes", 0, "idle nodes that stay awake")
	fl.IntVar(&o.gpus, "gpus-per-node", 8, "")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

// check checks all that needs no file.
func (o *energySleepOptions) check() error {
	switch {
	case o.log == "":
		return cli.Usage(errors.New("--node-log is missing: name a CSV file of time,active,total"))
	case o.spare < 0:
		return cli.Usage(fmt.Errorf("--spare-nodes: %d is negative", o.spare))
	case o.gpus < 1 || o.gpus > workload.MaxGPUs:
		return cli.Usage(fmt.Errorf("--gpus-per-node: %d is not from 1 to %d", o.gpus, workload.MaxGPUs))
	case len(o.after) == 0:
		return cli.Usage(errors.New("--sleep-after: none given"))
	}
	for _, d := range o.after {
		if d <= 0 {
			return cli.Usage(fmt.Errorf("--sleep-after: %v is not positive", d))
		}
	}
	return nil
}

// energySleepReport is the result of energy sleep.
type energySleepReport struct {
	Log     string             `json:"node_log"`
	Unknown int                `json:"unknown_rows"`
	Plans   []*energy.LogSleep `json:"plans"`
}

func (o *energySleepOptions) run(notes io.Writer) (*energySleepReport, error) {
	t, err := o.tariff.Read()
	if err != nil {
		return nil, err
	}
	log, err := readZoned(&o.tariff, o.log, energy.ReadNodeLog)
	if err != nil {
		return nil, fmt.Errorf("--node-log: %w", err)
	}
	if log.Unknown > 0 {
		fmt.Fprintf(notes, "note: %s: %d rows without an active node are left out\n", o.log, log.Unknown)
	}
	r := &energySleepReport{Log: o.log, Unknown: log.Unknown}
	for _, after := range o.after {
		x, err := log.Sleep(t.Assumptions, energy.SleepPlan{After: after, Spare: o.spare, GPUsPerNode: o.gpus},
			t.Prices, t.Intensities)
		if err != nil {
			return nil, err
		}
		r.Plans = append(r.Plans, x)
	}
	return r, nil
}

func (r *energySleepReport) print(w io.Writer) error {
	x := r.Plans[0]
	fmt.Fprintf(w, "%s: %.1f days, %.0f of %.0f nodes with jobs on average\nidle nodes draw %s kWh (%s to %s) if they are "+
		"always on\n\n", r.Log, x.Days, x.Active, x.Total, cli.ThreeDigits(x.Idle.Energy.Middle),
		cli.ThreeDigits(x.Idle.Energy.Low),
		cli.ThreeDigits(x.Idle.Energy.High))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "sleep after\tspare\tnodes asleep\tsaved kWh\tlow\thigh\tof idle\tsaved $\tkg CO2\twake-ups/day\tlate/day\t")
	for _, x := range r.Plans {
		s := x.Saved
		fmt.Fprintf(t, "%v\t%d\t%.1f\t%s\t%s\t%s\t%.1f %%\t%s\t%s\t%.1f\t%.1f\t\n",
			time.Duration(x.AfterS*float64(time.Second)), x.Spare, x.Asleep, cli.ThreeDigits(s.Energy.Middle),
			cli.ThreeDigits(s.Energy.Low), cli.ThreeDigits(s.Energy.High),
			100*s.Energy.Middle/max(x.Idle.Energy.Middle, 1e-9),
			cli.ThreeDigits(s.Cost.Middle), cli.ThreeDigits(s.CO2.Middle), float64(x.WakeUps)/x.Days,
			float64(x.Late)/x.Days)
	}
	return t.Flush()
}
