package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func newPredictCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Learn, compare and explain predictions of how long jobs run",
		Long: `The local predictor classifies how long a job will run in all into six classes
(<5m, 5-30m, 30m-1h, 1-2h, 2-4h, >=4h) from what is known at an instant: the job,
the latest jobs of its tenant, its batch, its neighbours in submission. Tuning
then draws a duration from history, given the class and how long the job has run.

A trace is taken as it would run without queues: jobs begin when they are
submitted. Nothing that happens after an instant is known at it.`,
		Example: `  autosched predict eval --trace jobs.csv.gz --from 2017-09-22 --to 2017-10-06
  autosched predict train --trace jobs.csv.gz --out durations.model
  autosched predict explain --model durations.model
  autosched predict explain --trace jobs.csv.gz --job philly-012345`,
	}
	cmd.AddCommand(newPredictTrainCmd(), newPredictEvalCmd(), newPredictExplainCmd(), newPredictFeaturesCmd())
	return cmd
}

// predictFlags are what the predict commands share.
type predictFlags struct {
	trace    string
	from, to string
	seed     uint64
	workers  int
	json     bool
}

func (f *predictFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.trace, "trace", "", `trace file, or "sample" for the built-in synthetic one`)
	fl.StringVar(&f.from, "from", "", "first submission that counts, RFC 3339, a date, seconds since the trace's zero, or a span since it such as 36h (default: the trace's first)")
	fl.StringVar(&f.to, "to", "", "submissions count before it (default: after the trace's last)")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of everything random")
	fl.IntVar(&f.workers, "workers", 0, "processors to train on (0: all); the result does not depend on it")
	fl.BoolVar(&f.json, "json", false, "print JSON for programs")
}

// predictInput is the part of a trace that counts.
type predictInput struct {
	trace   *workload.Workload
	history []durations.Record
}

func (f *predictFlags) load(ctx context.Context, cmd *cobra.Command) (*predictInput, error) {
	if f.trace == "" {
		return nil, usageError{fmt.Errorf(`--trace is missing: name a trace file, or "sample"`)}
	}
	if f.workers < 0 {
		return nil, usageError{fmt.Errorf("--workers: %d is negative", f.workers)}
	}
	w, err := openTrace(ctx, cmd.ErrOrStderr(), f.trace)
	if err != nil {
		return nil, err
	}
	first, last := w.Span()
	from, to := first, last+1
	if f.from != "" {
		if from, err = trace.ParseInstant(w, f.from); err != nil {
			return nil, usageError{fmt.Errorf("--from: %w", err)}
		}
	}
	if f.to != "" {
		if to, err = trace.ParseInstant(w, f.to); err != nil {
			return nil, usageError{fmt.Errorf("--to: %w", err)}
		}
	}
	cut := w.Window(from, to)
	if cut.Len() == 0 {
		return nil, usageError{fmt.Errorf("--from, --to: %s has no submission from %s to %s; it has from %s to %s", f.trace,
			w.Clock(from).Format(time.RFC3339), w.Clock(to).Format(time.RFC3339), w.Clock(first).Format(time.RFC3339), w.Clock(last).Format(time.RFC3339))}
	}
	return &predictInput{trace: cut, history: durations.Unqueued(cut.Jobs())}, nil
}

func (f *predictFlags) learn(line *progressLine) durations.LearnOptions {
	return durations.LearnOptions{Seed: f.seed, Workers: f.workers, Progress: func(done, of int) { line.show("training: round %d of %d", done, of) }}
}

func newPredictTrainCmd() *cobra.Command {
	var f predictFlags
	var out string
	var replace, refit bool
	cmd := &cobra.Command{
		Use:   "train --trace TRACE --out FILE",
		Short: "Learn a model and keep it if it is no worse than the one before",
		Long: `Train learns from the first 85 % of the jobs and scores the model on the rest. The
file has one line of JSON (version, training window, features, scores) above the
model as LightGBM text.

Where the file holds a model already, both are scored on the same last jobs, and
the new one replaces it only if its mean log-loss is no higher; --replace skips
that. --refit learns no new model but adds a few rounds to the one there, from the
jobs submitted after those it has learnt from: a day's new jobs take a second.`,
		Example: `  autosched predict train --trace jobs.csv.gz --out durations.model
  autosched predict train --trace jobs.csv.gz --from 2017-10-01 --out durations.model --json | jq .scores
  autosched predict train --trace jobs.csv.gz --to 2017-10-10 --out durations.model --refit`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case out == "":
				return usageError{fmt.Errorf("--out is missing: name the model file to write")}
			case refit && replace:
				return usageError{fmt.Errorf("--refit, --replace: give one of them")}
			}
			var old *durations.Model
			if _, err := os.Stat(out); err == nil && !replace {
				if old, err = readModel(out); err != nil {
					return fmt.Errorf("--out: %w; --replace writes over it", err)
				}
			}
			if refit && (old == nil || old.Trained.Jobs == 0) {
				return usageError{fmt.Errorf("--refit: %s holds no model that says what it has learnt from; leave the flag out to learn one", out)}
			}
			in, err := f.load(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			line := newProgressLine(cmd.ErrOrStderr())
			defer line.clear()
			began := time.Now()
			choice, err := train(cmd.Context(), old, refit, in, f.learn(line))
			if errors.Is(err, durations.ErrLearnt) {
				return fmt.Errorf("--out: %s: %w; --replace writes over it", out, err)
			}
			if err != nil {
				return err
			}
			line.clear()
			if choice.Replaced {
				s, err := atomicfile.CreatePlain(out) // models are text, whatever their name
				if err != nil {
					return err
				}
				if err := s.Finish(choice.Kept.Write(s)); err != nil {
					return err
				}
			}
			return f.trained(cmd, out, choice, time.Since(began))
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "model file to write (required)")
	cmd.Flags().BoolVar(&refit, "refit", false, "add to the model that the file holds instead of learning a new one")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace what the file holds, whatever it is worth")
	return cmd
}

func train(ctx context.Context, old *durations.Model, refit bool, in *predictInput, o durations.LearnOptions) (durations.Choice, error) {
	switch {
	case refit:
		return durations.Refit(ctx, old, in.history, in.trace.Zero(), in.trace.Name(), o)
	case old != nil:
		return durations.Retrain(ctx, old, in.history, in.trace.Zero(), in.trace.Name(), o)
	}
	m, err := durations.Train(ctx, in.history, in.trace.Zero(), in.trace.Name(), o)
	return durations.Choice{Kept: m, Replaced: true, Reason: "written: there was no model before"}, err
}

func readModel(path string) (*durations.Model, error) {
	in, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m, err := durations.ReadModel(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (f *predictFlags) trained(cmd *cobra.Command, out string, c durations.Choice, took time.Duration) error {
	if f.json {
		return printJSON(cmd.OutOrStdout(), struct {
			Out string `json:"out"`
			durations.Choice
			Wall float64 `json:"wall_s"`
			durations.Header
		}{out, c, took.Seconds(), c.Kept.Header})
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s: %s (%.1f s)\n", out, c.Reason, took.Seconds())
	return printModel(w, c.Kept)
}

func newPredictFeaturesCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "features",
		Short: "List the features that models may use",
		Long: `Lists the features in the order of a row, with the part they belong to and
whether models learn from them unless told otherwise. Lengths of time are
ln(1 + seconds). A LightGBM model with these feature_names and six classes can be
given to the other commands as --model.`,
		Example: `  autosched predict features`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			type feature struct {
				Name    string         `json:"name"`
				Part    durations.Part `json:"part"`
				Default bool           `json:"default"`
			}
			chosen := map[int]bool{}
			for _, c := range durations.DefaultColumns {
				chosen[c] = true
			}
			var out []feature
			for c, x := range durations.Features {
				out = append(out, feature{x.Name, x.Part, chosen[c]})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"features": out})
			}
			for _, x := range out {
				mark := " "
				if x.Default {
					mark = "*"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s %-20s %s\n", mark, x.Name, x.Part)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "* what models learn from by default")
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return cmd
}
