package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/simulator/calibrate"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// fidelityOptions are the flags of fidelity.
type fidelityOptions struct {
	plot    cli.PlotFlag
	history cli.HistoryFlags
	runs    string
	models  string // to write
	events  string // to write

	start space.Config // after check
}

func newFidelityCmd() *cobra.Command {
	var o fidelityOptions
	cmd := &cobra.Command{
		Use:   "fidelity",
		Short: "Compare a simulation of a history with what was recorded",
		Long: `Simulates the jobs of a history under the settings in force, and compares the
queueing delays and JCTs with the recorded ones: over all jobs, by GPUs, tenant and
hour of submission. An error is the simulated value minus the recorded one. factor is by
how much a job's delay is off typically (1 is exact), KS the distance of the two
distributions, rank the rank correlation over the jobs. The simulated cluster starts
empty: jobs of the --warmup before --from fill it, and where the trace has none, those of
the first tenth of the window, a day at most. They are not compared.

Then it says what in the data explains the difference: more or less capacity than
assumed, a limit of a tenant or partition, another order or scheduler, time limits; and
which simulated scheduler describes the recorded delays best. The number of nodes is
calibrated on the first half of the window, and the grade of the calibration is that of
the second half. Where nodes were out it estimates which hours, and --node-events-out writes
them for --node-events. With --runs, restart costs and spread slowdowns are learnt from the
first half of the recorded runs, and compared on the second.

Grades: "describes", "describes roughly", "barely describes", "does not describe", and "not
comparable" where --recorded-scheduler is not the scheduler simulated or too few delays are
recorded. Commands that conclude from a history show the grade, and end with an error where
the simulation does not describe it. docs/fidelity.md has the limits and the reasons for them.`,
		Example: `  autosched fidelity --trace sacct.psv --scheduler fifo --set backfill=true --recorded-scheduler fifo
  autosched fidelity --trace sacct.psv --site site
  autosched fidelity --trace jobs.csv.gz --nodes 40 --gpus-per-node 8 --scheduler tiresias --config running.yaml \
      --recorded-scheduler tiresias --runs data --models-out models.json`,
		Args: cli.NoArgs,
		RunE: cli.Report(&o.history.JSON, "fidelity/v1", o.check, o.run, (*fidelityReport).print),
	}
	o.history.Add(cmd)
	o.history.AddNodeEvents(cmd)
	o.history.Recorded.Add(cmd)
	cmd.Flags().StringVar(&o.runs, "runs", "", "")
	cmd.Flags().StringVar(&o.models, "models-out", "",
		"write the performance models learnt from the first half of --runs to this file, for --models")
	cmd.Flags().StringVar(&o.events, "node-events-out", "", "")
	o.plot.Add(cmd)
	return cmd
}

// check checks all that needs no trace.
func (o *fidelityOptions) check() error {
	var err error
	if _, o.start, err = o.history.Check(); err != nil {
		return err
	}
	if o.models != "" && o.runs == "" {
		return cli.Usage(errors.New("--models-out: models are learnt from --runs: name a service's directory or a CSV of jobs"))
	}
	return o.plot.Check()
}

// run compares. Notes go to notes.
func (o *fidelityOptions) run(ctx context.Context, notes io.Writer) (*fidelityReport, error) {
	in, err := o.history.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	learned, err := o.learn()
	if err != nil {
		return nil, err
	}
	in.Options.Past = in.Simulation(o.history.Cluster).Past
	r, err := fidelity.Full(ctx, fidelity.Input{
		Trace: in.Trace, From: in.From, To: in.To, Warmup: in.Warmup, Cluster: o.history.Cluster,
		Scheduler: in.Scheduler, Config: o.start,
		Simulate: in.Options, Recorded: o.history.Recorded.Name,
	})
	if err != nil {
		return nil, err
	}
	if o.events != "" {
		if r.Outages == nil {
			return nil, errors.New("--node-events-out: the history shows no hours in which nodes were out")
		}
		if err := cli.WriteFile(o.events, "--node-events-out", func(w io.Writer) error {
			_, err := trace.WriteNodeEvents(w, in.Trace.Zero(), o.history.Cluster, byNumber(r.Outages.Events))
			return err
		}); err != nil {
			return nil, err
		}
	}
	out := &fidelityReport{in.Trace.Name(), in.Trace.Synthetic(), r, learned}
	return out, o.plot.Write(out.page)
}

// learn learns performance models from the first half of the runs, nil without runs, and writes them.
func (o *fidelityOptions) learn() (*calibrate.Holdout, error) {
	if o.runs == "" {
		return nil, nil
	}
	runs, err := cli.ReadRuns(o.runs, max(o.history.Cluster.GPUsPerNode(), 1))
	if err != nil {
		return nil, fmt.Errorf("--runs: %w", err)
	}
	given, err := o.history.Models.Spec()
	if err != nil {
		return nil, err
	}
	spec, learned, err := calibrate.Halves(runs, given)
	if err != nil {
		return nil, fmt.Errorf("--runs: %w", err)
	}
	if o.models != "" {
		err = cli.WriteFile(o.models, "--models-out", spec.Write)
	}
	return learned, err
}

// byNumber are events of nodes by the names that are their numbers.
func byNumber(events []workload.NodeEvent) []workload.Event {
	out := make([]workload.Event, len(events))
	for i, e := range events {
		out[i] = workload.Event{Kind: e.Kind, Time: e.At, Node: strconv.Itoa(e.Node)}
	}
	return out
}

// fidelityReport is the result of fidelity.
type fidelityReport struct {
	Trace     string `json:"trace"`
	Synthetic bool   `json:"synthetic"`
	*fidelity.Report
	// Models were learnt from --runs.
	Models *calibrate.Holdout `json:"models,omitempty"`
}
