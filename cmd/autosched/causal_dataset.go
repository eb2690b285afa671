package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/lab"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

// trainingFlags say what a training set holds.
type trainingFlags struct {
	replayFlags
	tune    tuneFlags
	config  configFlag
	options lab.TrainingOptions
}

func (f *trainingFlags) add(cmd *cobra.Command) {
	f.replayFlags.add(cmd)
	f.addTo(cmd)
	f.config.add(cmd)
	fl := cmd.Flags()
	addObjective(cmd, &f.tune.objective)
	fl.IntVar(&f.tune.settings.Workers, "workers", 0, "configurations measured at a time (0: one per processor); results do not depend on it")
	fl.DurationVar(&f.options.Segment, "segment", 24*time.Hour, "length of the pieces of the window that configurations are played on")
	fl.DurationVar(&f.options.Stride, "stride", 6*time.Hour, "from one piece's begin to the next's (0: --segment)")
	fl.IntVar(&f.options.Configs, "configs", 15, "configurations per piece, others on each")
}

// train measures what the flags say.
func (f *trainingFlags) train(cmd *cobra.Command) (*replayInput, *lab.Training, error) {
	if f.options.Configs < 1 || f.options.Segment <= 0 || f.options.Stride < 0 {
		return nil, nil, usageError{fmt.Errorf("--configs %d, --segment %v, --stride %v: want at least 1, above 0 and at least 0", f.options.Configs, f.options.Segment, f.options.Stride)}
	}
	var err error
	if _, f.options.Incumbent, err = f.configured(&f.config); err != nil { // before a long trace is read
		return nil, nil, err
	}
	in, err := f.load(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	f.options.Progress = func(done, of int) { line.show("configuration %d of %d", done, of) }
	set, err := lab.Train(cmd.Context(), replay.Options{Trace: in.trace, From: in.from, To: in.to, Cluster: f.cluster, Scheduler: in.scheduler,
		Goal: round.Minimise(f.tune.objective), Settings: f.tune.seeded(f.seed), Simulate: in.options}, f.options)
	line.clear()
	return in, set, err
}

func newCausalDatasetCmd() *cobra.Command {
	var f trainingFlags
	var out, tiers string
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Measure configurations of a scheduler on pieces of a trace, to learn from",
		Long: `Runs the cluster under one configuration (the default, or what --preset and
--set say), and plays others on pieces of the window, each from the state in
which the cluster is then until its last job ends. Every piece gets its own
configurations, spread over the whole space.

A row is one of them: the workload (context), what was set (config), what the
scheduler did (metric), and the objective as a multiple of what it is under the
configuration in force (objective). The column segment says which piece a row is
of, and the one ending in _incumbent what the objective is under the configuration
in force there; both are for --group and for "causal foresee", and not learned
from. --tiers says which column is what. All of it is simulated.`,
		Example: `  autosched causal dataset --trace sample --nodes 12 --scheduler tiresias --out runs.csv --tiers tiers.json
  autosched causal learn --data runs.csv --tiers tiers.json --group segment --out graph.json
  autosched causal effects --data runs.csv --tiers tiers.json --graph graph.json --group segment --log`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" || tiers == "" {
				return usageError{fmt.Errorf("--out and --tiers name the files to write: a table and its tiers")}
			}
			_, set, err := f.train(cmd)
			if err != nil {
				return err
			}
			if err := writeFile(out, "--out", set.Table.WriteCSV); err != nil {
				return err
			}
			spec, err := json.MarshalIndent(set.Spec, "", "  ")
			if err != nil {
				return err
			}
			err = writeFile(tiers, "--tiers", func(w io.Writer) error {
				_, err := w.Write(append(spec, '\n'))
				return err
			})
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"rows": set.Table.Rows(), "columns": set.Table.Names(), "segments": len(set.Starts), "exhausted": set.Exhausted, "data": out, "tiers": tiers})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d rows of %d columns from %d pieces in %s, tiers in %s; %d configurations ran out of events\n",
				set.Table.Rows(), set.Table.Len(), len(set.Starts), out, tiers, set.Exhausted)
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "table to write, CSV (required)")
	cmd.Flags().StringVar(&tiers, "tiers", "", "tiers file to write, JSON (required)")
	return cmd
}

func newCausalForeseeCmd() *cobra.Command {
	var f trainingFlags
	var data, tiers string
	var share float64
	var boosted bool
	cmd := &cobra.Command{
		Use:   "foresee",
		Short: "Judge how well the causal model predicts unseen configurations on unseen days",
		Long: `Measures configurations on pieces of a trace as "causal dataset" does, learns graph
and model from the earlier pieces, and predicts the configurations of the later
ones, which it has not seen, from the workload and what the configuration in
force does there.

error is the mean of |predicted - measured| / measured. Beside it: each head
alone, always predicting the mean, and taking the objective under the
configuration in force times a constant. The rank correlation says whether
configurations are told apart on the same piece; spread how far they differ at
all (the 90 % over the 10 % quantile). In quiet times all configurations are as
good as each other; what the model is worth elsewhere is said apart. The numbers
judged against are simulated.`,
		Example: `  autosched causal foresee --trace jobs.csv.gz --from 2017-09-28T00:00:00Z --to 2017-11-02T00:00:00Z --nodes 60 --scheduler tiresias
  autosched causal foresee --data runs.csv --tiers tiers.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !(share > 0 && share < 1) {
				return usageError{fmt.Errorf("--train: %g is not between 0 and 1", share)}
			}
			if (data == "") != (tiers == "") {
				return usageError{errors.New("--data and --tiers go together: what 'causal dataset' wrote")}
			}
			var set *lab.Training
			var err error
			name := data
			if data != "" {
				set, err = readTraining(cmd, data, tiers)
			} else {
				var in *replayInput
				if in, set, err = f.train(cmd); err == nil {
					name = in.scheduler.Name
				}
			}
			if err != nil {
				return err
			}
			got, err := set.Foresee(cmd.Context(), share, causal.LearnOptions{}, model.Options{Families: families(boosted), Seed: f.seed})
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), got)
			}
			return printForesight(cmd.OutOrStdout(), name, got)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&data, "data", "", "table that 'causal dataset' wrote, instead of measuring one")
	cmd.Flags().StringVar(&tiers, "tiers", "", "tiers file that 'causal dataset' wrote beside the table (with --data)")
	cmd.Flags().Float64Var(&share, "train", .6, "share of the pieces to learn from, the earlier ones")
	cmd.Flags().BoolVar(&boosted, "boosted", true, "try boosted trees too: a few seconds more, and mostly the best")
	return cmd
}

// readTraining reads what 'causal dataset' wrote.
func readTraining(cmd *cobra.Command, data, tiers string) (*lab.Training, error) {
	spec, err := readTiers(tiers)
	if err != nil {
		return nil, fmt.Errorf("--tiers: %w", err)
	}
	t, err := readTable(cmd, data, spec.Types)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	set, err := lab.NewTraining(t, spec)
	if err != nil {
		return nil, fmt.Errorf("--data: %s: %w", data, err)
	}
	return set, nil
}

func printForesight(w io.Writer, scheduler string, f *lab.Foresight) error {
	fmt.Fprintf(w, "%s, %s: learnt from %d rows of %d pieces (graph of %d edges), judged on %d rows of %d later pieces\n\n",
		scheduler, f.Objective, f.TrainRows, f.TrainSegments, f.Edges, f.TestRows, f.TestSegments)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "prediction\terror\trank correlation\t")
	fmt.Fprintf(t, "model\t%.1f %%\t%.2f\t\n", 100*f.Error, f.Rank)
	fmt.Fprintf(t, "direct head only\t%.1f %%\t%.2f\t\n", 100*f.DirectOnly, f.RankDirect)
	fmt.Fprintf(t, "structural head only\t%.1f %%\t\t\n", 100*f.StructuralOnly)
	fmt.Fprintf(t, "configuration in force\t%.1f %%\t0\t\n", 100*f.IncumbentOnly)
	fmt.Fprintf(t, "mean\t%.1f %%\t0\t\n", 100*f.Mean)
	if err := t.Flush(); err != nil {
		return err
	}
	tries := func(t lab.Tries) {
		fmt.Fprintf(w, "To come within 1 %% of a piece's best, %.1f of its configurations are measured in the model's order, %.1f at random; the best of three is %.1f %% and %.1f %% above it\n",
			t.Model, t.Random, 100*(t.ModelOf-1), 100*(t.RandomOf-1))
	}
	fmt.Fprintln(w)
	tries(f.Tries)
	if d := f.Differ; d.Segments > 0 && d.Segments < f.TestSegments {
		fmt.Fprintf(w, "\nOn the %d pieces where configurations differ by more than a tenth: model %.1f %% off, rank correlation %.2f; configuration in force %.1f %%\n",
			d.Segments, 100*d.Error, d.Rank, 100*d.IncumbentOnly)
		tries(d.Tries)
	}
	_, err := fmt.Fprintf(w, "\nweight of the structural head %.2f, direct head %s; configurations spread %.2fx\n", f.Weight, f.Family, f.Spread)
	return err
}
