package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
)

func newPredictEvalCmd() *cobra.Command {
	var f predictFlags
	var methods, model string
	var share float64
	var ablate bool
	cmd := &cobra.Command{
		Use:   "eval --trace TRACE",
		Short: "Score predictions on the later jobs of a trace",
		Long: `Eval learns from the jobs submitted first (70 %) and asks about the others, at four
kinds of instants:

` + kindList() + `
What a predictor scores depends on the kind more than on the predictor, so that
each is shown beside the most frequent class (of that kind's questions in
training) and the elapsed-time rule (the most frequent class of jobs that ran
longer), and for undecided questions separately: those about jobs that have run
for less than 4 h, so that their class is open. ECE is the calibration error; KS
the distance (Kolmogorov-Smirnov) of remaining times drawn by class from the true
ones of these held-back jobs, beside that of times drawn from history alone.

With --model nothing is learnt: the model is asked about every job of the window
but those it has learnt from.`,
		Example: `  autosched predict eval --trace jobs.csv.gz --from 2017-09-22 --to 2017-10-06
  autosched predict eval --trace jobs.csv.gz --methods all --ablate
  autosched predict eval --trace jobs.csv.gz --model durations.model --json | jq .queries`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := durations.EvaluateOptions{TrainShare: share, Ablate: ablate, Seed: f.seed, Workers: f.workers}
			switch {
			case share <= 0 || share >= 1:
				return usageError{fmt.Errorf("--train-share: %g is not between 0 and 1", share)}
			case methods == "all":
				o.Methods = methodNames()
			default:
				o.Methods = splitList(methods)
			}
			if err := checkList(cmd.Flags().Changed, "methods", o.Methods); err != nil {
				return err
			}
			for _, name := range o.Methods {
				if _, err := durations.MethodNamed(name); err != nil {
					return usageError{fmt.Errorf("--methods: %w", err)}
				}
			}
			if model != "" {
				if cmd.Flags().Changed("methods") || cmd.Flags().Changed("train-share") || ablate {
					return usageError{fmt.Errorf("--model: is asked as it is; --methods, --train-share and --ablate learn others")}
				}
				var err error
				if o.Model, err = readModel(model); err != nil {
					return fmt.Errorf("--model: %w", err)
				}
			}
			in, err := f.load(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			line := newProgressLine(cmd.ErrOrStderr())
			defer line.clear()
			o.Progress = func(what string, done, of int) { line.show("%s: %d of %d", what, done, of) }
			got, err := durations.Evaluate(cmd.Context(), in.history, in.trace.Zero(), o, time.Now)
			if err != nil {
				return err
			}
			line.clear()
			r := evalReport{Trace: in.trace.Name(), Synthetic: in.trace.Synthetic(), Cut: in.trace.Clock(got.CutAt), Seed: f.seed, Evaluation: got}
			if f.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&methods, "methods", durations.DefaultMethod, "methods to compare, comma-separated, the first in detail: "+strings.Join(methodNames(), ", ")+", or all")
	fl.Float64Var(&share, "train-share", .7, "share of the jobs, the first submitted, to learn from")
	fl.BoolVar(&ablate, "ablate", false, "also learn without each part of the features, and from the paper's alone")
	fl.StringVar(&model, "model", "", "model file to ask instead of learning one")
	return cmd
}

func kindList() string {
	var b strings.Builder
	for _, k := range durations.Kinds {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Name, k.About)
	}
	return b.String()
}

func methodNames() []string {
	var out []string
	for _, m := range durations.Methods {
		out = append(out, m.Name)
	}
	return out
}

type evalReport struct {
	Trace     string    `json:"trace"`
	Synthetic bool      `json:"synthetic"`
	Cut       time.Time `json:"test_from"`
	Seed      uint64    `json:"seed"`
	*durations.Evaluation
}

func (r *evalReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s%s: learnt from %d jobs (%d questions), asked about %d submitted from %s\n\n", r.Trace, label(r.Synthetic), r.TrainJobs, r.Lessons, r.TestJobs, r.Cut.Format(time.RFC3339))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "query\tn\taccuracy\tlog-loss\tECE\tmajority\telapsed\tKS\thistory's\tundecided: n\taccuracy\tlog-loss\tmajority\telapsed\t")
	for i := range r.Queries {
		q := &r.Queries[i]
		u := &q.Undecided
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t\n", q.Kind, q.N, q.Accuracy, q.LogLoss, q.ECE, q.Majority, q.Elapsed, q.KS, q.KSHistory,
			u.N, u.Accuracy, u.LogLoss, u.Majority, u.Elapsed)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printMethods(out, "method", r.Methods); err != nil {
		return err
	}
	if len(r.Ablation) > 0 {
		return printMethods(out, "features", r.Ablation)
	}
	return nil
}

func printMethods(out io.Writer, title string, all []durations.MethodScore) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tcolumns\ttraining s\ts per 1000\t", title)
	for _, k := range durations.Kinds {
		fmt.Fprintf(w, "%s\tlog-loss\tECE\t", k.Name)
	}
	fmt.Fprintln(w)
	for _, m := range all {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.4f\t", m.Method, m.Features, m.TrainS, m.Per1000)
		for _, k := range durations.Kinds {
			s := m.Scores[k.Name]
			fmt.Fprintf(w, "%.3f\t%.3f\t%.3f\t", s.Accuracy, s.LogLoss, s.ECE)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
