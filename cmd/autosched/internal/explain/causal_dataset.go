package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

// datasetOptions are the flags of explain dataset.
type datasetOptions struct {
	replay     cli.ReplayFlags
	tune       cli.TuneFlags
	config     cli.ConfigFlags
	training   dataset.Options // with the incumbent after check
	out, tiers string
}

func (o *datasetOptions) add(cmd *cobra.Command) {
	o.replay.Add(cmd)
	o.replay.AddTo(cmd)
	o.config.Add(cmd)
	fl := cmd.Flags()
	cli.AddObjective(cmd, &o.tune.Objective)
	fl.IntVar(&o.tune.Settings.Workers, "workers", 0, "")
	fl.DurationVar(&o.training.Segment, "segment", 24*time.Hour,
		"length of the segments of the window on which configurations are simulated")
	fl.DurationVar(&o.training.Stride, "stride", 6*time.Hour,
		"time from the begin of a segment to that of the next (0: --segment)")
	fl.IntVar(&o.training.Configs, "configs", 15, "configurations per segment, different on each")
}

// check checks all that needs no trace.
func (o *datasetOptions) check() error {
	if o.out == "" || o.tiers == "" {
		return cli.Usage(errors.New("--out and --tiers-out name the files to write: a table and its tiers"))
	}
	t := &o.training
	if t.Configs < 1 || t.Segment <= 0 || t.Stride < 0 {
		return cli.Usage(fmt.Errorf("--configs %d, --segment %v, --stride %v: want at least 1, above 0 and at least 0",
			t.Configs, t.Segment, t.Stride))
	}
	if o.tune.Settings.Workers < 0 {
		return cli.Usage(fmt.Errorf("--workers: %d is negative", o.tune.Settings.Workers))
	}
	if err := round.CheckObjective(o.tune.Objective, false); err != nil {
		return cli.Usage(fmt.Errorf("--%w", err))
	}
	var err error
	_, t.Incumbent, err = o.replay.Configured(&o.config)
	return err
}

// train measures configurations. Notes and progress go to notes.
func (o *datasetOptions) train(ctx context.Context, notes io.Writer) (*dataset.Training, error) {
	in, err := o.replay.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	t := o.training
	t.Progress = func(done, of int) { line.Show("configuration %d of %d", done, of) }
	return dataset.Train(ctx, replay.Options{
		Trace: in.Trace, From: in.From, To: in.To, Cluster: o.replay.Cluster, Scheduler: in.Scheduler,
		Goal: round.Minimise(o.tune.Objective), Settings: o.tune.Seeded(o.replay.Seed), Simulate: in.Options,
	}, t)
}

func newCausalDatasetCmd() *cobra.Command {
	var o datasetOptions
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Measure configurations of a scheduler on segments of a trace, as training data",
		Long: `Runs the cluster under one configuration (the default, or what --preset and
--set say), and simulates others on segments of the window, each from the state
of the cluster at that time until its last job ends. Every segment has its own
configurations, spread over the whole space.

A row is one of them: the workload (context), the parameters (config), the
behaviour of the scheduler (metric), and the objective relative to that of the
configuration in force (objective). The column segment numbers the segment, and
the one ending in _incumbent has the objective of the configuration in force
there; both are for --group, and are no features.
--tiers-out gives the tier of every column. All values are simulated.`,
		Example: `  autosched explain dataset --trace sample --nodes 12 --scheduler tiresias --out runs.csv --tiers-out tiers.json
  autosched explain learn --data runs.csv --tiers tiers.json --group segment --out graph.json
  autosched explain effects --data runs.csv --tiers tiers.json --graph graph.json --group segment --log-objectives`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd)
			if err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.replay.JSON, "causal-dataset/v1", r, r.print)
		},
	}
	o.add(cmd)
	cmd.Flags().StringVarP(&o.out, "out", "o", "", "table to write, CSV, - for standard output (required)")
	cmd.Flags().StringVar(&o.tiers, "tiers-out", "", "tiers file to write, JSON (required)")
	return cmd
}

// run measures configurations and writes the table and its tiers.
func (o *datasetOptions) run(cmd *cobra.Command) (*datasetReport, error) {
	set, err := o.train(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	if err := cli.WriteOutput(cmd, o.out, set.Table.WriteCSV); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	err = cli.WriteFile(o.tiers, "--tiers-out", func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(set.Spec)
	})
	return &datasetReport{
		Columns: set.Table.Names(), Data: o.out, Exhausted: set.Exhausted, Rows: set.Table.Rows(),
		Segments: len(set.Starts), Tiers: o.tiers,
	}, err
}

// datasetReport is the result of explain dataset.
type datasetReport struct {
	Columns   []string `json:"columns"`
	Data      string   `json:"data"`
	Exhausted int      `json:"exhausted"`
	Rows      int      `json:"rows"`
	Segments  int      `json:"segments"`
	Tiers     string   `json:"tiers"`
}

func (r *datasetReport) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d rows of %d columns from %d pieces in %s, tiers in %s; %d configurations ran out of "+
		"events\n", r.Rows, len(r.Columns), r.Segments, r.Data, r.Tiers, r.Exhausted)
	return err
}
