package forecast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/cli"
)

// predictEvalOptions are the flags of predict eval.
type predictEvalOptions struct {
	predictFlags
	methods, model string
	share          float64

	given    func(flag string) bool
	evaluate durations.EvaluateOptions // after check
}

func newPredictEvalCmd() *cobra.Command {
	var o predictEvalOptions
	cmd := &cobra.Command{
		Use:   "eval --trace TRACE",
		Short: "Score predictions on the later jobs of a trace",
		Long: `Eval learns from the jobs submitted first (70 %) and queries the predictors about
the others, at four kinds of instants:

` + kindList() + `
Scores depend more on the kind of query than on the predictor. Each is therefore
shown beside the most frequent class (of that kind's queries in training) and the
elapsed-time rule (the most frequent class of jobs that ran longer), and apart for
undecided queries: those about jobs that have run for less than 4 h, so that their
class is open. ECE is the expected calibration error; KS the Kolmogorov-Smirnov
distance between remaining times drawn by class and the true ones of the held-out
jobs, beside that of times drawn from history alone.

With --model no model is trained: the given one is scored on every job of the
window except those of its training.`,
		Example: `  autosched forecast durations eval --trace jobs.csv.gz --from 2017-09-22 --to 2017-10-06
  autosched forecast durations eval --trace jobs.csv.gz --methods all
  autosched forecast durations eval --trace jobs.csv.gz --model durations.model --json | jq .queries`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.json, "duration-evaluation/v1", r, r.print)
		},
	}
	o.given = cmd.Flags().Changed
	o.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.methods, "methods", durations.DefaultMethod,
		"methods to compare, comma-separated, the first in detail: "+strings.Join(MethodNames(), ", ")+", or all")
	fl.Float64Var(&o.share, "train-share", .7, "share of the jobs, the first submitted, to learn from")
	fl.StringVar(&o.model, "model", "", "model file to score instead of learning one")
	return cmd
}

// check checks the flags and reads the model.
func (o *predictEvalOptions) check() error {
	o.evaluate = durations.EvaluateOptions{TrainShare: o.share, Seed: o.seed, Workers: o.workers}
	e := &o.evaluate
	switch {
	case !(o.share > 0 && o.share < 1):
		return cli.Usage(fmt.Errorf("--train-share: %g is not between 0 and 1", o.share))
	case o.methods == "all":
		e.Methods = MethodNames()
	default:
		e.Methods = cli.SplitList(o.methods)
	}
	if err := cli.CheckList(o.given, "methods", e.Methods); err != nil {
		return err
	}
	for _, name := range e.Methods {
		if _, err := durations.MethodNamed(name); err != nil {
			return cli.Usage(fmt.Errorf("--methods: %w", err))
		}
	}
	if err := o.predictFlags.check(); err != nil || o.model == "" {
		return err
	}
	if o.given("methods") || o.given("train-share") {
		return cli.Usage(errors.New("--model: is asked as it is; --methods and --train-share learn others"))
	}
	var err error
	if e.Model, err = readModel(o.model); err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	return nil
}

// run learns and scores. Notes and progress go to notes.
func (o *predictEvalOptions) run(ctx context.Context, notes io.Writer) (*evalReport, error) {
	in, err := o.load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	e := o.evaluate
	e.Progress = func(what string, done, of int) { line.Show("%s: %d of %d", what, done, of) }
	got, err := durations.Evaluate(ctx, in.history, in.trace.Zero(), e, time.Now)
	if err != nil {
		return nil, err
	}
	return &evalReport{Trace: in.trace.Name(), Synthetic: in.trace.Synthetic(), Cut: in.trace.Clock(got.CutAt),
		Seed: o.seed, Evaluation: got}, nil
}

func kindList() string {
	var b strings.Builder
	for _, k := range durations.Kinds {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Name, k.About)
	}
	return b.String()
}

// MethodNames lists the methods of forecast durations eval.
func MethodNames() []string {
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
	fmt.Fprintf(out, "%s%s: trained on %d jobs (%d queries), scored on the %d submitted from %s on\n\n", r.Trace,
		cli.SyntheticLabel(r.Synthetic), r.TrainJobs, r.Lessons, r.TestJobs, r.Cut.Format(time.RFC3339))
	w := cli.NewNumbers(out, "")
	fmt.Fprintln(w, "query\tn\taccuracy\tlog-loss\tECE\tmajority\telapsed\tKS\thistory's\t"+
		"undecided: n\taccuracy\tlog-loss\tmajority\telapsed\t")
	for i := range r.Queries {
		q := &r.Queries[i]
		u := &q.Undecided
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t", q.Kind, q.N, q.Accuracy, q.LogLoss,
			q.ECE, q.Majority, q.Elapsed, q.KS, q.KSHistory)
		fmt.Fprintf(w, "%d\t%.3f\t%.3f\t%.3f\t%.3f\t\n", u.N, u.Accuracy, u.LogLoss, u.Majority, u.Elapsed)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	w = cli.NewNumbers(out, "")
	fmt.Fprint(w, "method\tcolumns\ttraining s\ts per 1000\t")
	for _, k := range durations.Kinds {
		fmt.Fprintf(w, "%s\tlog-loss\tECE\t", k.Name)
	}
	fmt.Fprintln(w)
	for i := range r.Methods {
		m := &r.Methods[i]
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.4f\t", m.Method, m.Features, m.TrainS, m.Per1000)
		for _, k := range durations.Kinds {
			s := m.Scores[k.Name]
			fmt.Fprintf(w, "%.3f\t%.3f\t%.3f\t", s.Accuracy, s.LogLoss, s.ECE)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
