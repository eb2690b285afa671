package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator/calibrate"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// recordedFlag is --recorded-scheduler.
type recordedFlag struct{ name string }

func (f *recordedFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "recorded-scheduler", fidelity.Unknown,
		"the scheduler that ran the history: a name as for --scheduler, "+fidelity.Other+", or "+fidelity.Unknown+
			"; if it is the one that is simulated, the simulation must describe the history")
	_ = cmd.RegisterFlagCompletionFunc("recorded-scheduler",
		oneOf(append(schedulers.Names(), fidelity.Other, fidelity.Unknown)...))
}

func (f *recordedFlag) check() error {
	if err := fidelity.CheckRecorded(f.name); err != nil {
		return usageError{fmt.Errorf("--recorded-scheduler: %w", err)}
	}
	return nil
}

// fidelityFlags are those of commands that conclude from simulations.
type fidelityFlags struct {
	recordedFlag
	ignore bool
}

func (f *fidelityFlags) add(cmd *cobra.Command) {
	f.recordedFlag.add(cmd)
	cmd.Flags().BoolVar(&f.ignore, "ignore-fidelity", false,
		"conclude about the simulated cluster even if the simulation does not describe the history")
}

// grade compares the simulation of a window with what was recorded. It is nil where a synthetic
// trace has no delays, and an error where nothing may be concluded.
func (f *fidelityFlags) grade(ctx context.Context, o fidelity.Input, seen *replayInput) (*fidelity.Graded, error) {
	o.Trace, o.Scheduler, o.Simulate, o.Recorded = seen.trace, seen.scheduler, seen.options, f.name
	jobs := o.Trace.Window(o.From, o.To).Jobs()
	if !slices.ContainsFunc(jobs, func(j workload.Job) bool { return j.HasWait }) {
		if o.Trace.Synthetic() {
			return nil, nil
		}
		return &fidelity.Graded{Grade: fidelity.Incomparable, Why: fidelity.NoDelays}, nil
	}
	o.Simulate.Past = replay.Past(o.Trace, o.Cluster, o.From)
	r, err := fidelity.Quick(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.Refusal("--ignore-fidelity"); err != nil && !f.ignore {
		return nil, err
	}
	return &r.Graded, nil
}

// fidelityOptions are the flags of fidelity.
type fidelityOptions struct {
	replay   replayFlags
	config   configFlag
	recorded recordedFlag
	site     siteFlag
	runs     string
	models   string // to write
	events   string // to write

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
distributions, rank the rank correlation over the jobs. Jobs submitted in the first
tenth of the window, a day at most, are not compared: the simulated cluster starts empty.

Then it says what in the data explains the difference: more or less capacity than
assumed, a limit of a tenant or partition, another order or scheduler, time limits; and
which simulated scheduler describes the recorded delays best. The number of nodes is
calibrated on the first half of the window, and the grade of the calibration is that of
the second half. Where nodes were out it estimates which hours, and --node-events-out writes
them for --node-events. With --runs, restart costs and spread slowdowns are learnt from the
first half of the recorded runs, and compared on the second.

Grades: "describes", "describes roughly", "does not describe", and "not comparable" where
--recorded-scheduler is not the scheduler simulated or too few delays are recorded. tune and
evaluate show the grade, and end with an error where the simulation does not describe
the history. docs/fidelity.md has the limits and the reasons for them.`,
		Example: `  autosched fidelity --trace sacct.psv --scheduler fifo --set backfill=true --recorded-scheduler fifo
  autosched fidelity --trace sacct.psv --site site
  autosched fidelity --trace jobs.csv.gz --nodes 40 --gpus-per-node 8 --scheduler tiresias --config running.yaml \
      --recorded-scheduler tiresias --runs data --models-out models.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), o.replay.json, "fidelity/v1", r, r.print)
		},
	}
	o.replay.add(cmd)
	o.replay.addTo(cmd)
	o.replay.addNodeEvents(cmd)
	o.config.add(cmd)
	o.recorded.add(cmd)
	o.site.add(cmd)
	cmd.Flags().StringVar(&o.runs, "runs", "",
		"recorded runs to learn restart costs and spread slowdowns from: what --events of 'autosched models learn' takes")
	cmd.Flags().StringVar(&o.models, "models-out", "",
		"write the performance models learnt from the first half of --runs to this file, for --models")
	cmd.Flags().StringVar(&o.events, "node-events-out", "",
		"write the nodes that were out, as far as the history shows them, to this file, for --node-events")
	return cmd
}

// check checks all that needs no trace.
func (o *fidelityOptions) check() error {
	if err := o.site.use(&o.replay, &o.config, &o.recorded); err != nil {
		return err
	}
	if err := o.recorded.check(); err != nil {
		return err
	}
	if o.models != "" && o.runs == "" {
		return usageError{errors.New("--models-out: models are learnt from --runs: name a service's directory or a CSV of jobs")}
	}
	_, config, err := o.replay.configured(&o.config)
	o.start = config
	return err
}

// run compares. Notes go to notes.
func (o *fidelityOptions) run(ctx context.Context, notes io.Writer) (*fidelityReport, error) {
	in, err := o.replay.load(ctx, notes)
	if err != nil {
		return nil, err
	}
	learned, err := o.learn()
	if err != nil {
		return nil, err
	}
	in.options.Past = replay.Past(in.trace, o.replay.cluster, in.from)
	r, err := fidelity.Full(ctx, fidelity.Input{
		Trace: in.trace, From: in.from, To: in.to, Cluster: o.replay.cluster, Scheduler: in.scheduler, Config: o.start,
		Simulate: in.options, Recorded: o.recorded.name,
	})
	if err != nil {
		return nil, err
	}
	if o.events != "" {
		if r.Outages == nil {
			return nil, errors.New("--node-events-out: the history shows no hours in which nodes were out")
		}
		if err := writeFile(o.events, "--node-events-out", func(w io.Writer) error {
			_, err := trace.WriteNodeEvents(w, in.trace.Zero(), o.replay.cluster, byNumber(r.Outages.Events))
			return err
		}); err != nil {
			return nil, err
		}
	}
	return &fidelityReport{in.trace.Name(), in.trace.Synthetic(), r, learned}, nil
}

// learn learns performance models from the first half of the runs, nil without runs, and writes them.
func (o *fidelityOptions) learn() (*calibrate.Holdout, error) {
	if o.runs == "" {
		return nil, nil
	}
	runs, err := readRuns(o.runs, max(o.replay.cluster.GPUsPerNode(), 1))
	if err != nil {
		return nil, fmt.Errorf("--runs: %w", err)
	}
	given, err := o.replay.models.spec()
	if err != nil {
		return nil, err
	}
	spec, learned, err := calibrate.Halves(runs, given)
	if err != nil {
		return nil, fmt.Errorf("--runs: %w", err)
	}
	if o.models != "" {
		err = writeFile(o.models, "--models-out", spec.Write)
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
