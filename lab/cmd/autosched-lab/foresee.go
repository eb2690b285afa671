package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/lab/foresight"
)

// foreseeOptions are the flags of foresee.
type foreseeOptions struct {
	plot        cli.PlotFlag
	data, tiers string
	share       float64
	boosted     bool
	seed        uint64
	json        bool
}

func newForeseeCmd() *cobra.Command {
	var o foreseeOptions
	cmd := &cobra.Command{
		Use:   "foresee --data FILE --tiers FILE",
		Short: "Evaluate the causal model on unseen configurations and unseen days",
		Long: `Learns graph and model from the earlier segments of a table that 'autosched explain
dataset' wrote, and predicts the configurations of the later ones, which are not in the
training data, from the workload and the objective of the configuration in force there.

error is the mean of |predicted - measured| / measured. Beside it: each head
alone, the mean as a prediction, and a constant multiple of the objective under
the configuration in force. The rank correlation measures the order of the
configurations of a segment; spread their differences (the 90 % over the 10 %
quantile). In quiet times all configurations are equally good; the other segments
are therefore shown apart. All measurements are simulated.`,
		Example: `  autosched-lab foresee --data runs.csv --tiers tiers.json`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.plot.Check(); err != nil {
				return err
			}
			if !(o.share > 0 && o.share < 1) {
				return cli.Usage(fmt.Errorf("--train: %g is not between 0 and 1", o.share))
			}
			if o.data == "" || o.tiers == "" {
				return cli.Usage(errors.New("--data and --tiers are missing: name the files of 'autosched explain dataset'"))
			}
			set, err := readTraining(cmd, o.data, o.tiers)
			if err != nil {
				return err
			}
			families := []model.Family{model.Linear, model.Quadratic}
			if o.boosted {
				families = append(families, model.Boosted)
			}
			r, err := foresight.Foresee(cmd.Context(), set, o.share, causal.LearnOptions{},
				model.Options{Families: families, Seed: o.seed})
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "causal-prediction/v1", r,
				func() (*chart.Page, error) { return foresightPage(o.data, r) },
				func(w io.Writer) error {
					return printForesight(w, o.data, r)
				})
		},
	}
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.data, "data", "", "table that 'autosched explain dataset' wrote, - for standard input (required)")
	fl.StringVar(&o.tiers, "tiers", "", "tiers file that it wrote beside the table (required)")
	fl.Float64Var(&o.share, "train", .6, "share of the segments to learn from, the earlier ones")
	fl.BoolVar(&o.boosted, "boosted", true, "try boosted trees too: a few seconds more, and mostly the best")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of the model")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

// readTraining reads the files that 'autosched explain dataset' wrote.
func readTraining(cmd *cobra.Command, data, tiers string) (*dataset.Training, error) {
	spec, err := cli.ReadFile(tiers, causal.ReadSpec)
	if err != nil {
		return nil, fmt.Errorf("--tiers: %w", err)
	}
	t, err := cli.ReadInput(cmd, data, func(r io.Reader) (*causal.Table, error) {
		return causal.ReadCSV(r, spec.Types)
	})
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	set, err := foresight.NewTraining(t, spec)
	if err != nil {
		return nil, fmt.Errorf("--data: %s: %w", data, err)
	}
	return set, nil
}

func printForesight(w io.Writer, scheduler string, f *foresight.Foresight) error {
	fmt.Fprintf(w, "%s, %s: learnt from %d rows of %d pieces (graph of %d edges), judged on %d rows of %d later "+
		"pieces\n\n", scheduler, f.Objective, f.TrainRows, f.TrainSegments, f.Edges, f.TestRows, f.TestSegments)
	t := table.Numbers(w, "prediction\terror\trank correlation\t")
	fmt.Fprintf(t, "model\t%.1f %%\t%.2f\t\n", 100*f.Error, f.Rank)
	fmt.Fprintf(t, "direct head only\t%.1f %%\t%.2f\t\n", 100*f.DirectOnly, f.RankDirect)
	fmt.Fprintf(t, "structural head only\t%.1f %%\t\t\n", 100*f.StructuralOnly)
	fmt.Fprintf(t, "configuration in force\t%.1f %%\t0\t\n", 100*f.IncumbentOnly)
	fmt.Fprintf(t, "mean\t%.1f %%\t0\t\n", 100*f.Mean)
	if err := t.Flush(); err != nil {
		return err
	}
	tries := func(t foresight.Tries) {
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
