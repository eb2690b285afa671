package explain

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli"
)

// foreseeOptions are the flags of causal foresee.
type foreseeOptions struct {
	trainingFlags
	data, tiers string
	share       float64
	boosted     bool
}

func newCausalForeseeCmd() *cobra.Command {
	var o foreseeOptions
	cmd := &cobra.Command{
		Use:   "foresee",
		Short: "Evaluate the causal model on unseen configurations and unseen days",
		Long: `Measures configurations on segments of a trace as "causal dataset" does, learns
graph and model from the earlier segments, and predicts the configurations of the
later ones, which are not in the training data, from the workload and the
objective of the configuration in force there.

error is the mean of |predicted - measured| / measured. Beside it: each head
alone, the mean as a prediction, and a constant multiple of the objective under
the configuration in force. The rank correlation measures the order of the
configurations of a segment; spread their differences (the 90 % over the 10 %
quantile). In quiet times all configurations are equally good; the other segments
are therefore shown apart. All measurements are simulated.`,
		Example: `  autosched explain foresee --trace jobs.csv.gz --from 2017-09-28T00:00:00Z --to 2017-11-02T00:00:00Z --nodes 60 --scheduler tiresias
  autosched explain foresee --data runs.csv --tiers tiers.json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd)
			if err != nil {
				return err
			}
			name := o.data
			if name == "" {
				name = o.replay.Scheduler
			}
			return cli.Show(cmd.OutOrStdout(), o.replay.JSON, "causal-prediction/v1", r, func(w io.Writer) error {
				return printForesight(w, name, r)
			})
		},
	}
	o.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.data, "data", "", "table that 'explain dataset' wrote, instead of measuring one")
	fl.StringVar(&o.tiers, "tiers", "", "tiers file that 'explain dataset' wrote beside the table (with --data)")
	fl.Float64Var(&o.share, "train", .6, "share of the segments to learn from, the earlier ones")
	fl.BoolVar(&o.boosted, "boosted", true, "try boosted trees too: a few seconds more, and mostly the best")
	return cmd
}

// check checks all that needs neither trace nor table.
func (o *foreseeOptions) check() error {
	switch {
	case !(o.share > 0 && o.share < 1):
		return cli.Usage(fmt.Errorf("--train: %g is not between 0 and 1", o.share))
	case (o.data == "") != (o.tiers == ""):
		return cli.Usage(errors.New("--data and --tiers go together: what 'explain dataset' wrote"))
	case o.data != "":
		return nil
	}
	return o.trainingFlags.check()
}

// run measures or reads a training set, learns from it and predicts.
func (o *foreseeOptions) run(cmd *cobra.Command) (*dataset.Foresight, error) {
	var set *dataset.Training
	var err error
	if o.data != "" {
		set, err = readTraining(cmd, o.data, o.tiers)
	} else {
		set, err = o.train(cmd.Context(), cmd.ErrOrStderr())
	}
	if err != nil {
		return nil, err
	}
	return set.Foresee(cmd.Context(), o.share, causal.LearnOptions{},
		model.Options{Families: families(o.boosted), Seed: o.replay.Seed})
}

// readTraining reads what 'explain dataset' wrote.
func readTraining(cmd *cobra.Command, data, tiers string) (*dataset.Training, error) {
	spec, err := readTiers(tiers)
	if err != nil {
		return nil, fmt.Errorf("--tiers: %w", err)
	}
	t, err := readTable(cmd, data, spec.Types)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	set, err := dataset.NewTraining(t, spec)
	if err != nil {
		return nil, fmt.Errorf("--data: %s: %w", data, err)
	}
	return set, nil
}

func printForesight(w io.Writer, scheduler string, f *dataset.Foresight) error {
	fmt.Fprintf(w, "%s, %s: learnt from %d rows of %d pieces (graph of %d edges), judged on %d rows of %d later "+
		"pieces\n\n", scheduler, f.Objective, f.TrainRows, f.TrainSegments, f.Edges, f.TestRows, f.TestSegments)
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
	tries := func(t dataset.Tries) {
		fmt.Fprintf(w, "To come within 1 %% of a piece's best, %.1f of its configurations are measured in the model's "+
			"order, %.1f at random; the best of three is %.1f %% and %.1f %% above it\n", t.Model, t.Random,
			100*(t.ModelOf-1), 100*(t.RandomOf-1))
	}
	fmt.Fprintln(w)
	tries(f.Tries)
	if d := f.Differ; d.Segments > 0 && d.Segments < f.TestSegments {
		fmt.Fprintf(w, "\nOn the %d pieces where configurations differ by more than a tenth: model %.1f %% off, rank "+
			"correlation %.2f; configuration in force %.1f %%\n", d.Segments, 100*d.Error, d.Rank, 100*d.IncumbentOnly)
		tries(d.Tries)
	}
	_, err := fmt.Fprintf(w, "\nweight of the structural head %.2f, direct head %s; configurations spread %.2fx\n",
		f.Weight, f.Family, f.Spread)
	return err
}
