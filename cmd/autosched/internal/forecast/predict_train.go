package forecast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
)

// predictTrainOptions are the flags of predict train.
type predictTrainOptions struct {
	predictFlags
	out            string
	refit, replace bool

	old *durations.Model // the content of out, after check; nil if it is to be ignored
}

func newPredictTrainCmd() *cobra.Command {
	var o predictTrainOptions
	cmd := &cobra.Command{
		Use:   "train --trace TRACE --out FILE",
		Short: "Learn a model and keep it if it is no worse than the one before",
		Long: `Train learns from the first 85 % of the jobs and scores the model on the rest. The
file has one line of JSON (version, training window, features, scores) above the
model as LightGBM text.

If the file holds a model already, both are scored on the same last jobs, and the
new one replaces it only if its mean log-loss is no higher; --replace skips the
comparison. --refit adds a few rounds to the existing model instead of learning a
new one, from the jobs submitted after those of its training: a day's new jobs
take a second.`,
		Example: `  autosched forecast durations train --trace jobs.csv.gz --out durations.model
  autosched forecast durations train --trace jobs.csv.gz --from 2017-10-01 --out durations.model --json | jq .scores
  autosched forecast durations train --trace jobs.csv.gz --to 2017-10-10 --out durations.model --refit`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd)
			if err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.json, "duration-model/v1", r, r.print)
		},
	}
	o.add(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&o.out, "out", "o", "", "model file to write, - for standard output (required)")
	fl.BoolVar(&o.refit, "refit", false, "add to the model that the file holds instead of learning a new one")
	fl.BoolVar(&o.replace, "replace", false, "replace the content of the file without a comparison")
	return cmd
}

// check checks the flags and reads the model that the file holds.
func (o *predictTrainOptions) check() error {
	switch {
	case o.out == "":
		return cli.Usage(errors.New("--out is missing: name the model file to write"))
	case o.refit && o.replace:
		return cli.Usage(errors.New("--refit, --replace: give one of them"))
	}
	if err := o.predictFlags.check(); err != nil {
		return err
	}
	if _, err := os.Stat(o.out); err == nil && !o.replace {
		if o.old, err = readModel(o.out); err != nil {
			return fmt.Errorf("--out: %w; --replace writes over it", err)
		}
	}
	if o.refit && (o.old == nil || o.old.Trained.Jobs == 0) {
		return cli.Usage(fmt.Errorf("--refit: %s holds no model that says what it has learnt from; leave the flag "+
			"out to learn one", o.out))
	}
	return nil
}

// run trains, and writes the model if it is kept. Notes and progress go to standard error.
func (o *predictTrainOptions) run(cmd *cobra.Command) (*trainReport, error) {
	ctx, notes := cmd.Context(), cmd.ErrOrStderr()
	in, err := o.load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	began := time.Now()
	choice, err := o.train(ctx, in, o.learn(line))
	line.Clear()
	if errors.Is(err, durations.ErrLearnt) {
		return nil, fmt.Errorf("--out: %s: %w; --replace writes over it", o.out, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case o.out == "-":
		err = choice.Kept.Write(cmd.OutOrStdout())
	case choice.Replaced:
		var s *atomicfile.File
		if s, err = atomicfile.CreatePlain(o.out); err == nil { // models are text, whatever their name
			err = s.Finish(choice.Kept.Write(s))
		}
	}
	if err != nil {
		return nil, err
	}
	return &trainReport{o.out, choice, time.Since(began).Seconds(), choice.Kept.Header}, nil
}

func (o *predictTrainOptions) train(ctx context.Context, in *predictInput, l durations.LearnOptions) (
	durations.Choice, error) {
	zero, name := in.trace.Zero(), in.trace.Name()
	switch {
	case o.refit:
		return durations.Refit(ctx, o.old, in.history, zero, name, l)
	case o.old != nil:
		return durations.Retrain(ctx, o.old, in.history, zero, name, l)
	}
	m, err := durations.Train(ctx, in.history, zero, name, l)
	return durations.Choice{Kept: m, Replaced: true, Reason: "written: there was no model before"}, err
}

// trainReport is the result of predict train.
type trainReport struct {
	Out string `json:"out"`
	durations.Choice
	Wall float64 `json:"wall_s"`
	durations.Header
}

func (r *trainReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s (%.1f s)\n", r.Out, r.Reason, r.Wall)
	return printModel(w, r.Kept)
}
